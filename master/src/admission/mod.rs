//! What the master adds to objects that are made, and what it refuses, beyond what every API server does.
//!
//! Each decides on maps, purely; [`Lookup`] reads what it decides by from the registry's cache.

mod certificates;
mod gates;
mod limit_range;
mod lookup;
mod nodes;
mod not_ready;
mod pod_ranges;
mod pod_security;
mod pods;
mod policies;
mod priority;
mod quota;
mod registration;
mod runtime_class;
mod service_account;
mod services;
mod storage_class;
mod tolerations;
mod unenforced;

use std::sync::Arc;

use apiserver::admission::Admission;
use apiserver::auth::Auth;
use apiserver::registry::Registry;
use ipnet::IpNet;

pub use self::lookup::Lookup;
pub use self::priority::system_classes;
pub use self::services::outside as services_outside;
pub use self::unenforced::ENFORCE;
use crate::options::{NodeAdmission, ServiceRange};
use crate::pod_ranges::PodRange;

/// What new objects get, by the flags of the master.
#[derive(Clone, Debug, Default)]
pub struct Added {
    /// Gates of pods, the first to be taken off first.
    pub scheduling_gates: Vec<String>,
    /// Where addresses of services are taken from.
    pub service_ranges: Vec<ServiceRange>,
    /// Where nodes get the ranges of their pods from, the primary one first; empty where that is not for this master to say.
    pub pod_ranges: Vec<PodRange>,
    /// How a node registers.
    pub nodes: NodeAdmission,
}

/// What a write on the master has to pass in this order, after what it has to pass on every server.
pub fn all(registry: &Arc<Registry>, auth: &Arc<Auth>, added: Added) -> Vec<Arc<dyn Admission>> {
    let lookup = || Lookup::of(registry.clone());
    let services = added.service_ranges.iter().filter_map(|range| IpNet::new(range.network, range.bits).ok());
    let services = services.collect();
    vec![
        Arc::new(certificates::Undecided::new(registry.cache().clone())),
        Arc::new(service_account::ServiceAccounts::new(lookup())),
        Arc::new(nodes::NodeRestriction::new(lookup())),
        Arc::new(registration::Registration::new(lookup(), added.nodes)),
        // After who gives a Node the taints that were kept for it.
        Arc::new(not_ready::NotReady),
        Arc::new(limit_range::LimitRanges::new(lookup())),
        Arc::new(priority::Priorities::new(lookup())),
        Arc::new(storage_class::DefaultStorageClass::new(lookup())),
        Arc::new(tolerations::DefaultTolerations),
        Arc::new(runtime_class::RuntimeClasses::new(lookup())),
        Arc::new(gates::SchedulingGates::new(added.scheduling_gates, auth.clone())),
        Arc::new(pod_security::PodSecurity),
        Arc::new(unenforced::Unenforced),
        Arc::new(policies::Written::new(registry.clone(), auth.clone())),
        Arc::new(policies::Mutating::new(registry.clone(), auth.clone())),
        Arc::new(policies::Validating::new(registry.clone(), auth.clone())),
        // The last to refuse: what is reserved here is written.
        Arc::new(quota::ResourceQuotas::new(registry.clone())),
        // After whoever may refuse a Node: what is promised to one that is not written is kept for a while in vain.
        Arc::new(pod_ranges::PodRanges::new(registry.clone(), added.pod_ranges, services)),
        // After those who make another type of a service, and those who refuse it: nothing is kept for long for one of them.
        Arc::new(services::Addresses::new(registry.clone(), added.service_ranges)),
    ]
}
