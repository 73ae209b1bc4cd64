//! Documents, kubeconfigs, certificates and requests, whole and damaged.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::super::access::{ClusterAccess, Credentials};
use super::super::certificate::{Certificate, certificates, hash};
use super::super::cluster_info::{ClusterInfo, address};
use super::super::csr::{CertificateRequest, CsrStatus, Kind, is_node};
use super::super::kubeconfig::{self, Data, Kubeconfig};
use super::{names, pair};

#[test]
fn csr_status_is_parsed_from_its_conditions() {
    let signed = STANDARD.encode("PEM");
    let condition = |kind: &str| json!([{"type": kind, "reason": "R", "message": "why"}]);
    for (status, expected) in [
        (json!(null), CsrStatus::Pending),
        (json!({}), CsrStatus::Pending),
        (json!({"conditions": condition("Other")}), CsrStatus::Pending),
        (json!({"conditions": condition("Approved")}), CsrStatus::Approved),
        (json!({"conditions": condition("Approved"), "certificate": ""}), CsrStatus::Approved),
        (
            json!({"conditions": [{"type": "Approved"}, {"type": "NodeNameInUse", "message": "why"}]}),
            CsrStatus::Held("why".to_owned()),
        ),
        (json!({"conditions": condition("Approved"), "certificate": "?"}), CsrStatus::Approved),
        (
            json!({"conditions": condition("Approved"), "certificate": signed}),
            CsrStatus::Signed(b"PEM".to_vec()),
        ),
        (
            json!({"conditions": condition("Denied"), "certificate": signed}),
            CsrStatus::Denied("why".to_owned()),
        ),
        (json!({"conditions": condition("Failed")}), CsrStatus::Failed("why".to_owned())),
        (
            json!({"conditions": [{"type": "Denied", "reason": "R", "message": ""}]}),
            CsrStatus::Denied("R".to_owned()),
        ),
        (json!({"conditions": [{"type": "Denied"}]}), CsrStatus::Denied("no reason is given".to_owned())),
    ] {
        assert_eq!(CsrStatus::of(&json!({"status": status})), expected, "{status}");
    }
}

fn document(authority: &str) -> Value {
    json!({"apiVersion": "bootstrap/v1", "kind": "ClusterInfo", "servers": ["https://10.0.0.1:6443"],
        "certificateAuthority": authority, "nodeUserPrefix": "kubelet:", "serverTime": "2026-11-22T00:00:00Z"})
}

#[test]
fn cluster_info_parser_reports_the_invalid_field() {
    let (root, _) = pair("root");
    let read = ClusterInfo::read(&document(&root)).unwrap();
    assert_eq!((read.servers.len(), read.prefix.as_str()), (1, "kubelet:"));
    assert_eq!(read.server_time.unwrap().to_string(), "2026-11-22T00:00:00Z");
    for (field, value, expected) in [
        ("kind", json!("Pod"), "is not a ClusterInfo"),
        ("servers", json!(["http://10.0.0.1", "x", 1]), "names no servers"),
        ("certificateAuthority", json!("-----BEGIN CERTIFICATE-----\nAA"), "certificateAuthority"),
        ("certificateAuthority", json!(null), "contains no certificate"),
        ("retiringAuthority", json!("x"), "has a retiringAuthority that contains no"),
        ("nodeUserPrefix", json!("system:masters"), "has the node user prefix"),
    ] {
        let mut invalid = document(&root);
        invalid[field] = value;
        let why = ClusterInfo::read(&invalid).unwrap_err();
        assert!(why.contains(expected), "{field}: {why}");
    }
}

#[test]
fn of_several_cas_only_the_pinned_one_is_trusted() {
    let ((one, _), (other, _)) = (pair("one"), pair("other"));
    let pin = hash(&certificates(one.as_bytes()).unwrap()[0]).unwrap();
    for (authority, pin, expected) in [
        (one.clone(), Some(&pin), 1),
        (format!("{other}{one}"), Some(&pin), 1),
        (format!("{one}{other}"), Some(&pin), 1),
        (format!("{one}{other}"), None, 2),
        (other.clone(), Some(&pin), 0),
    ] {
        let info = ClusterInfo::read(&document(&authority)).unwrap();
        let found = info.pinned(pin.map(String::as_str));
        assert_eq!(found.as_ref().map_or(0, Vec::len), expected, "{found:?}");
        if let (Ok(found), Some(pin)) = (found, pin) {
            assert_eq!(&hash(&found[0]).unwrap(), pin);
        }
    }
}

#[test]
fn written_kubeconfig_reads_back_with_every_server() {
    let servers = ["https://a:1", "https://b:2", "https://c:3"].map(str::to_owned);
    let former = vec!["aa".to_owned(), "bb".to_owned()];
    let retiring = vec!["cc".to_owned()];
    let known = ClusterAccess {
        servers: servers.to_vec(),
        authority: b"root".to_vec(),
        retiring: retiring.clone(),
        former: former.clone(),
        credentials: Credentials::Anonymous,
    };
    let text = kubeconfig::text(&known, Path::new("/pki/x.pem"));
    let read = Kubeconfig::read(text.as_bytes(), Path::new("/etc")).unwrap();
    let file = Data::File(PathBuf::from("/pki/x.pem"));
    let expected = Kubeconfig {
        servers: servers.to_vec(),
        authority: Data::Here(b"root".to_vec()),
        retiring,
        former,
        certificate: Some((file.clone(), file)),
        token: None,
    };
    assert_eq!(read, expected);
}

#[test]
fn foreign_kubeconfig_is_parsed_like_by_kubectl() {
    let file = |cluster: &str, user: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters:\n- name: other\n  cluster: {{server: 'https://o', \
             certificate-authority: other.crt}}\n- name: c\n  cluster: {{{cluster}}}\ncontexts:\n- name: x\n  context: \
             {{cluster: c, user: u}}\nusers:\n- name: u\n  user: {{{user}}}\n"
        )
    };
    let read = |text: &str| Kubeconfig::read(text.as_bytes(), Path::new("/etc/k"));
    let ca = "server: 'https://s:6443/', certificate-authority: ca.crt";
    let found = read(&file(ca, "tokenFile: t")).unwrap();
    assert_eq!(found.servers, ["https://s:6443"]);
    assert_eq!(found.authority, Data::File("/etc/k/ca.crt".into()));
    assert_eq!(found.token, Some(Data::File("/etc/k/t".into())));
    let both = "token: a, tokenFile: t, client-certificate-data: YQ==, client-certificate: f, client-key: /k";
    let found = read(&file(ca, both)).unwrap();
    assert_eq!(found.token, Some(Data::Here(b"a".to_vec())));
    assert_eq!(found.certificate, Some((Data::Here(b"a".to_vec()), Data::File("/k".into()))));
    for (text, expected) in [
        (file("server: 'https://s'", ""), "names no certificate-authority"),
        (file("server: 'http://s', certificate-authority: c", ""), "which is not https"),
        (file("certificate-authority: c", ""), "names no server"),
        (file("server: 'https://s', certificate-authority-data: '?'", ""), "not base64"),
        (file(ca, "").replace("user: u}", "user: v}"), "among its users"),
        (String::new(), "is empty"),
        ("a: [".to_owned(), "cannot be parsed"),
        ("[]".to_owned(), "among its contexts"),
    ] {
        let why = read(&text).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn certificate_requires_its_own_private_key() {
    let ((chain, key), (_, other)) = (pair("kubelet:n1"), pair("x"));
    let both = format!("{chain}{key}");
    let read = Certificate::read(both.as_bytes(), jiff::Timestamp::now()).unwrap();
    assert_eq!(read.facts.common_name, "kubelet:n1");
    assert_eq!((read.facts.dns, read.facts.addresses.len()), (names(&["n1"]), 1));
    for (text, expected) in [
        (format!("{chain}{other}"), "do not match"),
        (chain.clone(), "contains no private key"),
        (key, "contains no certificate"),
        (chain.repeat(17), "more than 16"),
    ] {
        let why = Certificate::read(text.as_bytes(), jiff::Timestamp::now()).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn csr_name_depends_on_key_and_content() {
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let client = CertificateRequest::client("kubelet:n1".to_owned());
    let serving = CertificateRequest { kind: Kind::Serving, dns: names(&["n1"]), ..client.clone() };
    let moved = CertificateRequest { addresses: ["10.0.0.1".parse().unwrap()].into(), ..serving.clone() };
    let all = [
        client.name(&key),
        client.name(&other),
        CertificateRequest::client("kubelet:n2".to_owned()).name(&key),
        serving.name(&key),
        moved.name(&key),
    ];
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!((distinct.len(), client.name(&key)), (all.len(), all[0].clone()));
    let object = moved.object(&key).unwrap();
    assert_eq!(object["metadata"]["name"], all[4].as_str());
    assert_eq!(object["spec"]["usages"], json!(["digital signature", "key encipherment", "server auth"]));
    assert!(CertificateRequest { dns: names(&["ä"]), ..serving }.object(&key).is_err());
    for (user, expected) in
        [("kubelet:n1", true), ("system:node:n1", true), ("kubelet:n2", false), ("n1", false)]
    {
        assert_eq!(is_node(user, "n1"), expected, "{user}");
    }
}

proptest! {
    #[test]
    fn identity_parsers_never_panic(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        let _ = Kubeconfig::read(text.as_bytes(), Path::new("/"));
        let _ = Certificate::read(&bytes, jiff::Timestamp::UNIX_EPOCH);
        let _ = hash(&bytes);
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({"status": {"certificate": text.clone()}}));
        let _ = CsrStatus::of(&value);
        let _ = ClusterInfo::read(&document(&text));
    }
}

#[test]
fn server_address_is_parsed_from_its_url() {
    for (server, expected) in [
        ("https://192.0.2.1:6443", Some("192.0.2.1")),
        ("https://[2001:db8::1]:6443", Some("2001:db8::1")),
        ("https://10.0.0.7", Some("10.0.0.7")),
        ("https://master.example:6443", None),
        ("nothing", None),
    ] {
        assert_eq!(address(server), expected.map(|ip| ip.parse().unwrap()), "{server}");
    }
}
