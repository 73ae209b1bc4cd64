//! The machine of the node: its capacity, addresses and conditions.

mod addresses;
mod machine;
mod name;
mod node_lock;
mod pressure;
mod pressure_monitor;
mod report;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use api::quantity::{Format, Quantity};
use api::resources::ResourceList;

pub use addresses::Addresses;
pub use name::{keep_name, kept_name};
pub use node_lock::{NodeLock, NodeNameInUse};
pub use pressure::{Amount, Observations, Observed};
pub use pressure_monitor::PressureMonitor;
pub use report::{EngineState, Moment, labels, report};

use crate::options::{Options, RESOLV_CONF, Signal};
use crate::runtime::Info;
use crate::runtime::spec::Dns;
use crate::spec::{CgroupDriver, Facts};

/// The facts of the node before the engine has answered.
pub fn facts(options: &Options) -> Facts {
    let host_ips = addresses(options.node_ip);
    let (memory_bytes, ephemeral_storage_bytes) =
        (machine::memory_bytes(), machine::disk_bytes(&options.root_dir));
    let reserved = |signal, capacity: i64| {
        let reserved = options.eviction.reserved(signal, u64::try_from(capacity).unwrap_or_default());
        i64::try_from(reserved).unwrap_or(capacity)
    };
    Facts {
        node_name: options.node_name.clone(),
        host_ips,
        cpu_milli: machine::cpus() * 1000,
        memory_bytes,
        reserved_memory_bytes: reserved(Signal::MemoryAvailable, memory_bytes),
        ephemeral_storage_bytes,
        reserved_storage_bytes: reserved(Signal::NodeFsAvailable, ephemeral_storage_bytes),
        cluster_dns: options.cluster_dns.clone(),
        node_dns: options.node_dns,
        cluster_domain: options.cluster_domain.clone(),
        host_dns: machine::host_dns(&options.resolv_conf).unwrap_or_default(),
        has_own_resolv_conf: options.resolv_conf != Path::new(RESOLV_CONF),
        cgroup_driver: None,
        cgroup_root: String::new(),
        pids_limit: options.pod_pids_limit,
        app_armor: Some(has_app_armor()),
        allowed_unsafe_sysctls: options.allowed_unsafe_sysctls.clone(),
    }
}

/// Whether the kernel of this machine has AppArmor enabled.
pub fn has_app_armor() -> bool {
    machine::has_app_armor(Path::new("/sys"))
}

/// The host's current DNS configuration, from this file.
///
/// # Errors
/// If the file cannot be read. The message names it.
pub fn host_dns(resolv_conf: &Path) -> io::Result<Dns> {
    machine::host_dns(resolv_conf)
}

/// The node's current addresses: `given`, or those of the machine.
pub fn addresses(given: Option<IpAddr>) -> Vec<IpAddr> {
    given.map_or_else(machine::addresses, |ip| vec![ip])
}

/// The allocatable resources: the capacity without what hard eviction thresholds keep free. Nothing else is reserved
/// for the system.
pub fn allocatable(facts: &Facts) -> ResourceList {
    let bytes = |bytes| Quantity::from_units(bytes, Format::BinarySi);
    let amounts = [
        ("cpu", Quantity::from_milli(facts.cpu_milli)),
        ("memory", bytes(facts.allocatable_memory_bytes())),
        ("ephemeral-storage", bytes(facts.allocatable_storage_bytes())),
    ];
    amounts.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// Completes the facts with the engine's info. Pods get cgroups of their own only with a driver that can set
/// weights. Otherwise all pods would have equal weights, regardless of their requests.
pub fn with_engine(facts: &Facts, info: &Info, drivers: &[CgroupDriver]) -> Arc<Facts> {
    let driver = match info.cgroup_driver.as_str() {
        "cgroupfs" => Some(CgroupDriver::Cgroupfs),
        "systemd" => Some(CgroupDriver::Systemd),
        _ => None,
    };
    let driver = driver.filter(|driver| drivers.contains(driver) && !info.rootless);
    Arc::new(Facts { cgroup_driver: driver, ..facts.clone() })
}

#[cfg(test)]
mod tests {
    //! Tests of parsing of host files, and facts of the node.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{EngineState, Moment, machine};
    use crate::options::Options;
    use crate::runtime::Info;

    #[test]
    fn resolv_conf_is_parsed() {
        let dns = machine::parse_resolv_conf(
            "# c\nnameserver 10.0.0.1 # main\nnameserver fe80::1\nsearch a.b c.d\noptions ndots:5\n",
        );
        assert_eq!(dns.servers, ["10.0.0.1", "fe80::1"]);
        assert_eq!(dns.searches, ["a.b", "c.d"]);
        assert_eq!(dns.options, ["ndots:5"]);
        assert_eq!(machine::parse_resolv_conf("domain x\nsearch y z").searches, ["y", "z"]);
    }

    #[test]
    fn meminfo_is_parsed() {
        assert_eq!(machine::memory_in("MemTotal:       2048 kB\nMemFree: 1 kB"), 2048 * 1024);
        assert_eq!(machine::memory_in("nonsense"), 0);
    }

    #[test]
    fn machine_facts_are_not_empty() {
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
        let conditions = |engine, network| {
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
            conditions(up, Ok(())),
            ("True KubeletReady kubelet is posting ready status".into(), "False".into())
        );
        let missing = "False KubeletNotReady container runtime network not ready: no range";
        assert_eq!(conditions(up, Err("no range")), (missing.into(), "True".into()));
        assert!(conditions(down, Err("no range")).0.starts_with("False ContainerEngineUnreachable"));
    }
}
