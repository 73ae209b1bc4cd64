//! Limits on CSRs, counted in the cache.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use apiserver::watch_cache::Draft;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use serde_json::{Value, json};

use super::*;

const NODE: [&str; 2] = ["digital signature", "client auth"];
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A PEM-encoded CSR for this subject with this many DNS names, in base64.
fn encoded(common_name: &str, group: &str, names: usize) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, common_name);
    let name = |index: usize| SanType::DnsName(format!("{index:0>100}.example").try_into().unwrap());
    params.subject_alt_names = (0..names).map(name).collect();
    STANDARD.encode(params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap())
}

/// A CSR object of the user `joe` for this subject.
fn request(name: &str, common_name: &str, group: &str, decided: bool) -> Json {
    let conditions = if decided { json!([{"type": "Denied", "status": "True"}]) } else { json!([]) };
    let request = json!({
        "metadata": {"name": name},
        "spec": {"request": encoded(common_name, group, 0), "signerName": SIGNER, "usages": NODE, "username": "joe"},
        "status": {"conditions": conditions},
    });
    request.as_object().unwrap().clone()
}

/// The same request by another user.
fn sent_by(mut request: Json, user: &str, groups: &[&str]) -> Json {
    request["spec"]["username"] = user.into();
    request["spec"]["groups"] = json!(groups);
    request
}

#[test]
fn pending_requests_count_for_their_node_until_they_are_decided_or_deleted() {
    let cache = WatchCache::new(1);
    let put = |object: &Json| cache.put(REQUESTS, &Draft::new(object, &[].into()));
    put(&request("a", "kubelet:n1", "system:nodes", false));
    let limits = CsrLimits::new(cache.clone());
    let counts = || {
        let mut usage = limits.usage.lock().unwrap();
        usage.catch_up();
        let of = |subject: &str| {
            let requester = Requester { class: Class::Other, subject: subject.to_owned() };
            usage.pending.get(&requester).copied().unwrap_or_default()
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
    cache.remove_resource(REQUESTS);
    assert_eq!(counts(), (0, 0, 0), "after lost changes the list counts");
}

#[test]
fn csr_usage_is_counted_per_requester_class() {
    let cache = WatchCache::new(1);
    let put = |object: &Json| {
        cache.put(REQUESTS, &Draft::new(object, &[].into()));
        cache.get(REQUESTS, "", object["metadata"]["name"].as_str().unwrap()).unwrap().json().len()
    };
    let limits = CsrLimits::new(cache.clone());
    let used = |class: Class| {
        let mut usage = limits.usage.lock().unwrap();
        usage.catch_up();
        usage.used.get(&class).copied().unwrap_or_default()
    };
    let anonymous = |name: &str, decided| {
        sent_by(request(name, "kubelet:n1", "system:nodes", decided), "system:anonymous", &[])
    };
    let pending = put(&anonymous("a", false));
    let decided = put(&anonymous("b", true));
    let node = put(&sent_by(
        request("c", "system:node:n1", "system:nodes", false),
        "system:node:n1",
        &["system:nodes", "system:authenticated"],
    ));
    put(&sent_by(request("d", "system:node:n1", "system:nodes", true), "system:node:n1", &["system:nodes"]));
    // The name of a node without its group.
    let other = put(&sent_by(request("e", "x", "", false), "system:node:n1", &[]));
    assert_eq!(
        used(Class::Anonymous),
        Used { requests: 2, bytes: pending + decided },
        "decided ones count, too"
    );
    assert_eq!(used(Class::Node), Used { requests: 1, bytes: node });
    assert_eq!(used(Class::Other), Used { requests: 1, bytes: other });
    cache.delete(REQUESTS, "", "a");
    assert_eq!(used(Class::Anonymous), Used { requests: 1, bytes: decided });
}

#[test]
fn exhausted_csr_class_does_not_limit_other_classes() {
    let limits = CsrLimits::new(WatchCache::new(1));
    let mut usage = limits.usage.lock().unwrap();
    usage.used.insert(Class::Anonymous, Used { requests: 3, bytes: BYTES_PER_CLASS - 100 });
    let of = |class| Requester { class, subject: "x".to_owned() };
    assert!(usage.exceeded(&of(Class::Anonymous), "x", 101).unwrap().message.contains("bytes"));
    assert_eq!(usage.exceeded(&of(Class::Anonymous), "x", 100), None);
    assert_eq!(usage.exceeded(&of(Class::Node), "x", 101), None);
    assert_eq!(usage.exceeded(&of(Class::Other), "x", 101), None);
    usage.used.insert(Class::Other, Used { requests: REQUESTS_PER_CLASS, bytes: 1 });
    assert!(usage.exceeded(&of(Class::Other), "x", 1).unwrap().message.contains("10000 requests"));
    assert_eq!(usage.exceeded(&of(Class::Node), "x", 1), None);
}

#[test]
fn decided_csrs_count_only_for_their_own_requester() {
    let cache = WatchCache::new(1);
    let limits = CsrLimits::new(cache.clone());
    let groups = ["system:nodes", "system:authenticated"];
    for number in 0..STORED_PER_NODE.requests {
        let request = request(&format!("r{number}"), "system:node:n1", "system:nodes", true);
        cache.put(REQUESTS, &Draft::new(&sent_by(request, "system:node:n1", &groups), &[].into()));
    }
    let mut usage = limits.usage.lock().unwrap();
    usage.catch_up();
    let node = |name: &str| Requester { class: Class::Node, subject: format!("the node {name}") };
    let refused = usage.exceeded(&node("n1"), "system:node:n1", 1).unwrap();
    assert!(refused.message.contains("system:node:n1 has 100 requests"), "{refused:?}");
    assert_eq!(refused.cause, None, "only pending requests are a cause for the kubelet");
    usage.pending.insert(node("n3"), PENDING_PER_SUBJECT);
    let refused = usage.exceeded(&node("n3"), "system:node:n3", 1).unwrap();
    assert_eq!(refused.message, "10 requests of the node n3 are undecided");
    assert_eq!(refused.cause, Some(RejectionCause::TooManyPendingRequests));
    // Requests for another node in this node's name count for the sender.
    assert!(usage.exceeded(&node("n2"), "system:node:n1", 1).is_some());
    assert_eq!(usage.exceeded(&node("n2"), "system:node:n2", 1), None);
    cache.delete(REQUESTS, "", "r0");
    usage.catch_up();
    assert_eq!(usage.exceeded(&node("n1"), "system:node:n1", 1), None);

    // A bootstrap token joins thousands of nodes, and stores as many bytes as they need.
    let token = Requester { class: Class::Other, subject: "the node n3".to_owned() };
    let user = "system:bootstrap:abcdef";
    usage.stored.insert(user.to_owned(), Used { requests: 5_000, bytes: BYTES_PER_CLASS - 10 });
    assert_eq!(usage.exceeded(&token, user, 10), None);
    assert!(usage.exceeded(&token, user, 11).unwrap().message.contains("with decided ones"));
    assert_eq!(usage.exceeded(&token, "system:bootstrap:123456", 11), None);
}

#[test]
fn anonymous_csr_must_be_a_small_named_node_request() {
    let node = request("a", "kubelet:n1", "system:nodes", false);
    let checked = |object: &Json| {
        let request = objects::read(object);
        check_anonymous(object, &request, &read(&request))
    };
    assert_eq!(checked(&node), Ok(()));
    let changed = |change: &dyn Fn(&mut Json)| {
        let mut request = node.clone();
        change(&mut request);
        request
    };
    let metadata = |field: &str, value: Value| changed(&|request| request["metadata"][field] = value.clone());
    for (request, why) in [
        (request("a", "jane", "system:nodes", false), ""),
        (request("a", "kubelet:n1", "system:masters", false), ""),
        (
            changed(&|request| request["spec"]["signerName"] = "kubernetes.io/kube-apiserver-client".into()),
            "signer",
        ),
        (changed(&|request| request["spec"]["usages"] = json!(["server auth"])), ""),
        (changed(&|request| request["spec"]["request"] = "AAAA".into()), ""),
        (
            changed(&|request| {
                request["spec"]["request"] = encoded("kubelet:n1", "system:nodes", 250).into()
            }),
            "anonymous requests may have 16384",
        ),
        (metadata("labels", json!({"a": "b"})), "metadata.labels"),
        (metadata("annotations", json!({"a": "b"})), "metadata.annotations"),
        (metadata("finalizers", json!(["example.com/x"])), "metadata.finalizers"),
        (metadata("ownerReferences", json!([{"name": "x"}])), "metadata.ownerReferences"),
    ] {
        let refused = checked(&request).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}
