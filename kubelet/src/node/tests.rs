//! What files of the host say, and the node of itself.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{EngineState, Moment, dns, machine};
use crate::options::Options;
use crate::runtime::Info;

#[test]
fn resolv_conf_is_read() {
    let dns =
        dns::parse("# c\nnameserver 10.0.0.1 # main\nnameserver fe80::1\nsearch a.b c.d\noptions ndots:5\n");
    assert_eq!(dns.servers, ["10.0.0.1", "fe80::1"]);
    assert_eq!(dns.searches, ["a.b", "c.d"]);
    assert_eq!(dns.options, ["ndots:5"]);
    assert_eq!(dns::parse("domain x\nsearch y z").searches, ["y", "z"]);
}

#[test]
fn meminfo_is_read() {
    assert_eq!(machine::memory_in("MemTotal:       2048 kB\nMemFree: 1 kB"), 2048 * 1024);
    assert_eq!(machine::memory_in("nonsense"), 0);
}

#[test]
fn a_machine_has_something_of_everything() {
    assert!(machine::cpus() >= 1);
    assert!(machine::memory_bytes() > 0);
    assert!(machine::disk_bytes(std::path::Path::new("/not/there/yet")) > 0);
    assert!(!machine::addresses().is_empty());
}

#[test]
fn a_node_without_a_network_for_its_pods_is_not_ready() {
    let options = Options::new("n1");
    let facts = super::facts(&options);
    let info = Info::default();
    let told = |engine, network| {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let moment = Moment { engine, network, pressures: &[], now };
        let report = super::report(&options, &facts, moment, "v", &[]);
        let of = |kind: &str| {
            let found = report.conditions.iter().find(|c| c.kind == kind).unwrap();
            format!("{} {} {}", found.status, found.reason, found.message)
        };
        (of("Ready"), of("NetworkUnavailable").split(' ').next().unwrap().to_owned())
    };
    let (up, down) = (EngineState::Up(&info), EngineState::Down("why"));
    assert_eq!(
        told(up, Ok(())),
        ("True KubeletReady kubelet is posting ready status".into(), "False".into())
    );
    let missing = "False KubeletNotReady container runtime network not ready: no range";
    assert_eq!(told(up, Err("no range")), (missing.into(), "True".into()));
    assert!(told(down, Err("no range")).0.starts_with("False ContainerEngineUnreachable"));
}
