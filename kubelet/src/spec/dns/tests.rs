//! DNS policies with and without cluster DNS, and limits.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::of;
use crate::runtime::spec::Dns;
use crate::spec::Facts;

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})).unwrap()
}

fn facts(cluster: bool) -> Facts {
    let host_dns = Dns {
        servers: vec!["9.9.9.9".into()],
        searches: vec!["corp".into()],
        options: vec!["rotate".into(), "ndots:1".into()],
        uses_node_dns: false,
    };
    let facts = Facts { host_dns, ..Facts::default() };
    if !cluster {
        return facts;
    }
    Facts { cluster_dns: vec![[10, 96, 0, 10].into()], cluster_domain: "cluster.local".into(), ..facts }
}

fn check(spec: Value, cluster: bool, servers: &str, searches: &str, options: &str) {
    let (dns, notes) = of(&pod(spec.clone()), &facts(cluster));
    assert_eq!(
        (dns.servers.join(" "), dns.searches.join(" "), dns.options.join(" ")),
        (servers.to_owned(), searches.to_owned(), options.to_owned()),
        "{spec}"
    );
    assert_eq!(notes, []);
}

#[test]
fn policies() {
    let c = |more: Value| {
        let mut spec = json!({"containers": []});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let cluster = "n.svc.cluster.local svc.cluster.local cluster.local corp";
    check(c(json!({})), true, "10.96.0.10", cluster, "ndots:5");
    check(c(json!({"dnsPolicy": "ClusterFirst"})), false, "", "", "");
    check(c(json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true})), true, "", "", "");
    check(
        c(json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true})),
        true,
        "10.96.0.10",
        cluster,
        "ndots:5",
    );
    check(c(json!({"dnsPolicy": "Default"})), true, "", "", "");
    let config = json!({"nameservers": ["1.1.1.1", "9.9.9.9"], "searches": ["mine", "corp"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
    check(
        c(json!({"dnsPolicy": "None", "dnsConfig": config})),
        true,
        "1.1.1.1 9.9.9.9",
        "mine corp",
        "ndots:2 edns0",
    );
    check(
        c(json!({"dnsPolicy": "Default", "dnsConfig": config})),
        true,
        "9.9.9.9 1.1.1.1",
        "corp mine",
        "rotate ndots:2 edns0",
    );
    check(
        c(json!({"dnsConfig": config})),
        true,
        "10.96.0.10 1.1.1.1 9.9.9.9",
        &format!("{cluster} mine"),
        "ndots:2 edns0",
    );
}

#[test]
fn entries_over_the_limits_of_resolv_conf_are_omitted_and_reported() {
    let searches: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let spec = json!({"containers": [], "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"], "searches": searches}});
    let (dns, notes) = of(&pod(spec), &Facts::default());
    assert_eq!((dns.servers.len(), dns.searches.len()), (3, 32));
    assert_eq!(notes.iter().map(|n| n.reason).collect::<Vec<_>>(), ["DNSConfigForming"; 2]);
    let long: Vec<String> = (0..12).map(|n| format!("{n:0>200}")).collect();
    let spec = json!({"containers": [], "dnsPolicy": "None", "dnsConfig": {"searches": long}});
    let (dns, notes) = of(&pod(spec), &Facts::default());
    assert_eq!((dns.searches.len(), dns.searches.join(" ").len()), (10, 2009));
    assert_eq!(notes.len(), 1);
}

#[test]
fn the_dns_server_of_the_node_is_used_as_that_of_a_cluster() {
    let facts = Facts { cluster_dns: Vec::new(), node_dns: true, ..facts(true) };
    let found = |spec| of(&pod(spec), &facts).0;
    let dns = found(json!({"containers": []}));
    assert_eq!((dns.servers.len(), dns.uses_node_dns, dns.options), (0, true, vec!["ndots:5".to_owned()]));
    assert_eq!(dns.searches[..3], ["n.svc.cluster.local", "svc.cluster.local", "cluster.local"]);
    assert!(found(json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true})).uses_node_dns);
    for other in [json!({"dnsPolicy": "Default"}), json!({"hostNetwork": true}), json!({"dnsPolicy": "None"})]
    {
        assert!(!found(other).uses_node_dns);
    }
    // A resolver uses three servers, and that of the node is one of them.
    let config = json!({"nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3"]});
    let (dns, notes) = of(&pod(json!({"dnsConfig": config})), &facts);
    assert_eq!((dns.servers.len(), notes.len()), (2, 1));
    assert!(notes[0].message.ends_with(": the DNS server of the node 192.0.2.1 192.0.2.2"), "{:?}", notes[0]);
}

#[test]
fn the_kubelet_reads_another_resolv_conf_in_place_of_the_engine() {
    let facts = Facts { has_own_resolv_conf: true, ..facts(false) };
    assert_eq!(of(&pod(json!({"dnsPolicy": "Default"})), &facts).0.servers, ["9.9.9.9"]);
    // A pod with its own network cannot reach the loopback of the host.
    let host_dns = Dns { servers: vec!["127.0.0.1".into(), "9.9.9.9".into()], ..Dns::default() };
    let facts = Facts { host_dns, ..facts };
    let servers = |spec| of(&pod(spec), &facts).0.servers;
    assert_eq!(servers(json!({"dnsPolicy": "Default"})), ["9.9.9.9"]);
    assert_eq!(servers(json!({"dnsPolicy": "Default", "hostNetwork": true})), ["127.0.0.1", "9.9.9.9"]);
    let host_dns = Dns { servers: vec!["::1".into()], ..Dns::default() };
    let (dns, notes) = of(&pod(json!({"dnsPolicy": "Default"})), &Facts { host_dns, ..facts });
    assert_eq!((dns.servers.len(), notes.len()), (0, 1));
}
