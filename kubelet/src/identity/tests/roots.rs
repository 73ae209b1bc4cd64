//! Issuers of certificates, and updates of the cluster's CAs and servers.

use jiff::Timestamp;
use rcgen::{BasicConstraints, Certificate as Signed, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use super::super::access::{ClusterAccess, Credentials};
use super::super::certificate::{Certificate, certificates, hash, pem};
use super::super::cluster_info::{Authorities, ClusterInfo, IssuerStatus};
use super::super::csr::Kind;

/// A CA, or a certificate that a CA signed.
struct Made {
    params: CertificateParams,
    key: KeyPair,
    certificate: Signed,
}

impl Made {
    fn new(name: &str, signer: Option<&Self>) -> Self {
        Self::of_key(name, signer, KeyPair::generate().unwrap())
    }

    fn of_key(name: &str, signer: Option<&Self>, key: KeyPair) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = match signer {
            None => params.self_signed(&key),
            Some(signer) => params.signed_by(&key, &Issuer::from_params(&signer.params, &signer.key)),
        };
        Self { certificate: certificate.unwrap(), params, key }
    }

    fn pem(&self) -> String {
        self.certificate.pem()
    }

    fn hash(&self) -> String {
        hash(self.certificate.der()).unwrap()
    }
}

#[test]
fn the_issuer_of_a_certificate_is_the_current_ca_the_previous_ca_or_unknown() {
    let (old, new) = (Made::new("old", None), Made::new("new", None));
    let key = KeyPair::from_pem(&new.key.serialize_pem()).unwrap();
    let bridge = Made::of_key("new", Some(&old), key);
    let (below_old, below_new) = (Made::new("i1", Some(&old)), Made::new("i2", Some(&new)));
    let (of_old, of_new) = (Made::new("n1", Some(&below_old)), Made::new("n1", Some(&below_new)));
    let direct = Made::new("n1", Some(&new));
    let both = Authorities {
        now: vec![new.certificate.der().clone()],
        retiring: vec![old.certificate.der().clone()],
    };
    let retired = Authorities { retiring: Vec::new(), ..both.clone() };
    let before = Authorities { now: both.retiring.clone(), retiring: Vec::new() };
    use IssuerStatus::{Good, Retiring, Unknown};
    for (info, chain, client, serving) in [
        (&before, vec![&of_old, &below_old], Good, Good),
        // Signed after a rotation of the root CA that this node does not know of.
        (&before, vec![&of_new, &below_new, &bridge], Good, Good),
        (&both, vec![&of_new, &below_new, &bridge], Good, Good),
        (&both, vec![&of_new, &below_new], Good, Good),
        (&both, vec![&direct], Good, Good),
        (&both, vec![&of_old, &below_old], Retiring, Retiring),
        (&retired, vec![&of_old, &below_old], Unknown, Unknown),
        (&retired, vec![&of_new, &below_new, &bridge], Good, Good),
        // The chain does not lead to a root.
        (&both, vec![&of_new, &below_old], Unknown, Unknown),
        // The servers may know the intermediate CA.
        (&both, vec![&of_new], Good, Unknown),
    ] {
        let pem: String = chain.iter().map(|made| made.pem()).collect();
        let key = chain[0].key.serialize_pem();
        let held = Certificate::of(pem.as_bytes(), key.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
        let found = (info.issuer_status(&held, Kind::Client), info.issuer_status(&held, Kind::Serving));
        assert_eq!(found, (client, serving), "{pem}");
    }
}

fn document(servers: &[&str], now: &str, retiring: Option<&str>) -> ClusterInfo {
    let mut info = json!({"apiVersion": "bootstrap/v1", "kind": "ClusterInfo", "servers": servers,
        "certificateAuthority": now, "nodeUserPrefix": "kubelet:"});
    if let Some(retiring) = retiring {
        info["retiringAuthority"] = Value::from(retiring);
    }
    ClusterInfo::read(&info).unwrap()
}

#[test]
fn a_node_trusts_the_published_cas_and_remembers_previous_ones() {
    let (old, new) = (Made::new("old", None), Made::new("new", None));
    let known = ClusterAccess {
        servers: vec!["https://a:1".to_owned()],
        authority: old.pem().into_bytes(),
        retiring: Vec::new(),
        former: Vec::new(),
        credentials: Credentials::Anonymous,
    };
    assert!(known.updated_by(&document(&["https://a:1"], old.pem().trim_end(), None)).unwrap().is_none());
    let during = document(&["https://a:1"], new.pem().trim_end(), Some(&old.pem()));
    assert!(during.is_pinned_by(&new.hash()) && during.is_pinned_by(&old.hash()));
    let both = known.updated_by(&during).unwrap().unwrap();
    assert_eq!(both.hashes(), [new.hash(), old.hash()]);
    assert!(both.former.is_empty() && both.updated_by(&during).unwrap().is_none());
    let after = document(&["https://a:1"], &new.pem(), None);
    let alone = both.updated_by(&after).unwrap().unwrap();
    assert_eq!((alone.hashes(), alone.former.clone()), (vec![new.hash()], vec![old.hash()]));
    // The hash in the node's join string still identifies this cluster.
    assert!(alone.is_pinned_by(&old.hash()) && alone.is_pinned_by(&new.hash()));
    assert!(!alone.is_pinned_by(&"00".to_owned()) && !after.is_pinned_by(&old.hash()));
    assert_eq!(certificates(&alone.authority).unwrap().len(), 1);
}

#[test]
fn retiring_ca_is_not_accepted_as_issuer() {
    let (old, new) = (Made::new("old", None), Made::new("new", None));
    let both = document(&["https://a:1"], &(new.pem() + &old.pem()), Some(&old.pem())).authorities().unwrap();
    assert_eq!(
        (both.now, both.retiring),
        (vec![new.certificate.der().clone()], vec![old.certificate.der().clone()])
    );
    let none = document(&["https://a:1"], &old.pem(), Some(&old.pem())).authorities().unwrap_err();
    assert!(none.contains("no CA that is not retiring"), "{none}");
    // If the server is not a master, the pinned root is the only trusted CA.
    let info = document(&["https://a:1"], &(new.pem() + &old.pem()), Some(&old.pem()));
    let alone = info.with_authorities(pem(&[new.certificate.der().clone()]), String::new()).trusted();
    assert_eq!(certificates(&alone).unwrap(), [new.certificate.der().clone()]);
}

#[test]
fn cluster_info_update_adds_servers_and_removes_none() {
    let root = Made::new("root", None).pem();
    let known = |servers: &[&str]| ClusterAccess {
        servers: servers.iter().map(ToString::to_string).collect(),
        authority: root.clone().into_bytes(),
        retiring: Vec::new(),
        former: Vec::new(),
        credentials: Credentials::Anonymous,
    };
    let (a, b, c) = ("https://a:1", "https://b:1", "https://c:1");
    let most: Vec<String> = (0..20).map(|number| format!("https://m{number}:1")).collect();
    let most: Vec<&str> = most.iter().map(String::as_str).collect();
    for (before, info, expected) in [
        (vec![a, b], vec![b, a], None),
        (vec![a, b], vec![b], None),
        (vec![a, b], vec![c, b], Some(vec![c, b, a])),
        (vec![a], most.clone(), Some(most[..16].to_vec())),
    ] {
        let updated = known(&before).updated_by(&document(&info, &root, None)).unwrap();
        let servers = updated.as_ref().map(|updated| updated.servers.clone());
        assert_eq!(servers, expected.map(|all| known(&all).servers), "{before:?} {info:?}");
        assert!(
            updated.is_none_or(|updated| updated.authority == root.as_bytes() && updated.former.is_empty())
        );
    }
}
