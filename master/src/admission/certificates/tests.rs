//! Requests in a cache, counted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use apiserver::store::Draft;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;

use super::*;

const NODE: [&str; 2] = ["digital signature", "client auth"];
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A request for a certificate of that subject.
fn request(name: &str, common_name: &str, group: &str, decided: bool) -> Json {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, common_name);
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let conditions = if decided { json!([{"type": "Denied", "status": "True"}]) } else { json!([]) };
    let request = json!({
        "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem), "signerName": SIGNER, "usages": NODE, "username": "joe"},
        "status": {"conditions": conditions},
    });
    request.as_object().unwrap().clone()
}

#[test]
fn what_is_undecided_is_counted_by_its_node() {
    let cache = Memory::new(1);
    let put = |object: &Json| cache.put(REQUESTS, &Draft::new(object, &[].into()));
    put(&request("a", "kubelet:n1", "system:nodes", false));
    let bound = Undecided::new(cache.clone());
    let counts = || {
        let mut followed = bound.followed.lock().unwrap();
        followed.catch_up();
        assert_eq!(followed.counts.values().sum::<usize>(), followed.asking.len());
        let of = |who: &str| {
            let asking = Asking { is_stranger: false, who: who.to_owned() };
            followed.counts.get(&asking).copied().unwrap_or_default()
        };
        (of("the node n1"), of("the node n2"), of("joe"))
    };
    assert_eq!(counts(), (1, 0, 0));
    put(&request("b", "system:node:n1", "system:nodes", false));
    put(&request("c", "kubelet:n2", "system:nodes", false));
    put(&request("d", "ann", "dev", false));
    put(&request("e", "ann", "dev", true));
    assert_eq!(counts(), (2, 1, 1));
    put(&request("a", "kubelet:n1", "system:nodes", true));
    cache.delete(REQUESTS, "", "c");
    put(&request("d", "kubelet:n2", "system:nodes", false));
    assert_eq!(counts(), (1, 1, 0));
    let mut stranger = request("s", "kubelet:n1", "system:nodes", false);
    stranger["spec"]["username"] = "system:anonymous".into();
    put(&stranger);
    assert_eq!((counts(), bound.followed.lock().unwrap().strangers), ((1, 1, 0), 1));
    cache.forget(REQUESTS);
    assert_eq!(counts(), (0, 0, 0), "whatever happened, the list is what there is");
}

#[test]
fn a_stranger_asks_to_be_a_node_and_for_nothing_else() {
    let node = request("a", "kubelet:n1", "system:nodes", false);
    assert_eq!(of_stranger(&node, &read(&node)), Ok(()));
    let mut other = node.clone();
    other["spec"]["signerName"] = "kubernetes.io/kube-apiserver-client".into();
    let mut usages = node.clone();
    usages["spec"]["usages"] = json!(["server auth"]);
    let mut broken = node;
    broken["spec"]["request"] = "AAAA".into();
    for refused in [
        request("a", "jane", "system:nodes", false),
        request("a", "kubelet:n1", "system:masters", false),
        other,
        usages,
        broken,
    ] {
        assert!(of_stranger(&refused, &read(&refused)).is_err(), "{refused:?}");
    }
}
