//! The machine under the kubelet: what it has, and what pods may use of it.

mod addresses;
mod claim;
mod dns;
mod gauge;
mod machine;
mod name;
mod pressure;
mod report;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use api::quantity::{Format, Quantity};
use api::resources::ResourceList;

pub use addresses::Addresses;
pub use claim::{Claim, Taken};
pub use gauge::{Short, pressures};
pub use name::{keep_name, kept_name};
pub use pressure::Pressure;
pub use report::{EngineState, Moment, labels, report};

use crate::options::Options;
use crate::runtime::Info;
use crate::runtime::spec::Dns;
use crate::spec::{CgroupDriver, Facts};

/// Facts of the node before the engine has answered.
pub fn facts(options: &Options) -> Facts {
    let host_ips = addresses(options.node_ip);
    Facts {
        node_name: options.node_name.clone(),
        host_ips,
        cpu_milli: machine::cpus() * 1000,
        memory_bytes: machine::memory_bytes(),
        ephemeral_storage_bytes: machine::disk_bytes(&options.root_dir),
        cluster_dns: options.cluster_dns.clone(),
        cluster_domain: options.cluster_domain.clone(),
        host_dns: dns::of_host(),
        cgroup_driver: None,
        cgroup_root: String::new(),
        pids_limit: options.pod_pids_limit,
        allowed_unsafe_sysctls: options.allowed_unsafe_sysctls.clone(),
    }
}

/// The host's own name resolution at this moment.
pub fn host_dns() -> Dns {
    dns::of_host()
}

/// The node's addresses at this moment, the one it was given or those of the machine.
pub fn addresses(given: Option<IpAddr>) -> Vec<IpAddr> {
    given.map_or_else(machine::addresses, |ip| vec![ip])
}

/// What pods may use in all: everything, until something is reserved for the system.
pub fn allocatable(facts: &Facts) -> ResourceList {
    let amounts = [
        ("cpu", Quantity::from_milli(facts.cpu_milli)),
        ("memory", Quantity::from_units(facts.memory_bytes, Format::BinarySi)),
        ("ephemeral-storage", Quantity::from_units(facts.ephemeral_storage_bytes, Format::BinarySi)),
    ];
    amounts.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// The same facts, completed by what the engine says of itself. Pods get cgroups of their own only under a driver whose
/// cgroups can be given weights here: without them all pods would be equal, whatever they ask for.
pub fn with_engine(facts: &Facts, info: &Info, drivers: &[CgroupDriver]) -> Arc<Facts> {
    let driver = match info.cgroup_driver.as_str() {
        "cgroupfs" => Some(CgroupDriver::Cgroupfs),
        "systemd" => Some(CgroupDriver::Systemd),
        _ => None,
    };
    let driver = driver.filter(|driver| drivers.contains(driver) && !info.rootless);
    Arc::new(Facts { cgroup_driver: driver, ..facts.clone() })
}
