//! The cluster-info document, written and parsed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use apiserver::watch_cache::Draft;

use super::*;

const NOW: &str = "2026-01-01T00:00:00.5Z";

fn info() -> ClusterInfo {
    let directory = tempfile::tempdir().unwrap();
    let pki = crate::pki::Pki::open(directory.path(), NOW.parse().unwrap()).unwrap();
    ClusterInfo {
        servers: vec!["https://10.0.0.1:6443".to_owned()],
        authority: pki.root_pem(),
        retiring: String::new(),
    }
}

#[test]
fn document_has_the_fields_of_the_contract_and_the_server_time() {
    let info = info();
    let document = info.document(NOW.parse().unwrap());
    let expected = json!({
        "apiVersion": "bootstrap/v1", "kind": "ClusterInfo", "servers": ["https://10.0.0.1:6443"],
        "certificateAuthority": info.authority, "nodeUserPrefix": "kubelet:", "serverTime": "2026-01-01T00:00:00Z",
    });
    assert_eq!(document, expected);
    assert_eq!(ClusterInfo::read(&document), Ok(info.clone()));
    let rotating = ClusterInfo { retiring: info.authority.clone(), ..info };
    let document = rotating.document(NOW.parse().unwrap());
    assert_eq!(document["retiringAuthority"], rotating.authority.as_str());
    assert_eq!(ClusterInfo::read(&document), Ok(rotating));
}

#[test]
fn parser_rejects_invalid_cluster_info() {
    let good = info().document(NOW.parse().unwrap());
    for (field, value, expected) in [
        ("kind", json!("Pod"), "is not a ClusterInfo"),
        ("servers", json!([]), "names no servers"),
        ("servers", json!("https://a"), "names no servers"),
        ("certificateAuthority", json!("PEM"), "contains no certificate"),
        ("certificateAuthority", json!(7), "contains no certificate"),
    ] {
        let mut document = good.clone();
        document[field] = value;
        let fault = ClusterInfo::read(&document).unwrap_err();
        assert!(fault.contains(expected), "{field}: {fault}");
    }
}

#[test]
fn cluster_info_lists_this_master_first() {
    let own: SocketAddr = "10.0.0.2:6443".parse().unwrap();
    let cache = WatchCache::new(1);
    assert_eq!(servers(&cache, own), ["https://10.0.0.2:6443"]);
    let endpoints = json!({
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"name": "https", "port": 6443}]},
            {"addresses": [{"ip": "fd00::1"}, {"ip": "no"}], "ports": [{"port": 7443}]},
            {"addresses": [{"ip": "10.0.0.9"}]},
        ],
    });
    cache.put("endpoints", &Draft::new(endpoints.as_object().unwrap(), &[].into()));
    let expected = ["https://10.0.0.2:6443", "https://10.0.0.1:6443", "https://[fd00::1]:7443"];
    assert_eq!(servers(&cache, own), expected);
}
