//! The admission plugins of the master: their registry, and one file for each plugin that is not part of
//! `apiserver`.
//!
//! Each plugin decides on JSON objects by pure functions. [`Lister`] reads other objects from the watch cache.

mod always_pull_images;
mod claim_resize;
mod csr_limits;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod limit_ranger;
mod lister;
mod node_registration;
mod node_restriction;
mod pod_cidrs;
mod pod_security;
mod pods;
mod policies;
mod priority;
mod resource_quota;
mod runtime_class;
mod scheduling_gates;
mod service_account;
#[cfg(test)]
mod service_ip_tests;
mod storage_object_protection;
mod taint_nodes_by_condition;
mod unenforced_warnings;
mod workload_warnings;

use std::sync::Arc;

use apiserver::admission::{
    Admission, NamespaceLifecycle, NamespaceRecheck, NestingLimit, ServiceIpAllocator,
};
use apiserver::auth::{
    Auth, CertificateApproval, CertificateRequester, CertificateSigning, CertificateSubjectRestriction,
    EscalationCheck,
};
use apiserver::crd::Definitions;
use apiserver::registry::Registry;
use ipnet::IpNet;

pub use self::lister::Lister;
pub use self::priority::system_classes;
pub use self::unenforced_warnings::ENFORCE;
use crate::options::{AdmissionPlugins, Controllers, NodeAdmission, ServiceRange};
use crate::pod_cidrs::ClusterCidr;

/// Configuration of the admission plugins, from the master's flags.
#[derive(Clone, Debug, Default)]
pub struct AdmissionConfig {
    /// Plugins that users enable and disable.
    pub plugins: AdmissionPlugins,
    /// Scheduling gates that new pods get, in the order in which they are removed.
    pub scheduling_gates: Vec<String>,
    /// The service CIDRs.
    pub service_ranges: Vec<ServiceRange>,
    /// The cluster CIDRs, primary first. They are empty if this master does not allocate pod CIDRs.
    pub pod_ranges: Vec<ClusterCidr>,
    /// How nodes register.
    pub nodes: NodeAdmission,
    /// The controllers of the master.
    pub controllers: Controllers,
}

/// When a plugin is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The plugin is always active, because the API depends on it. It has no name for users.
    Always,
    /// The plugin is active unless `--disable-admission-plugins` names it.
    Default,
    /// The plugin is active only if `--enable-admission-plugins` names it.
    OnRequest,
}

/// The parts of the master from which plugins are built.
struct Parts<'a> {
    registry: &'a Arc<Registry>,
    auth: &'a Arc<Auth>,
    config: &'a AdmissionConfig,
}

impl Parts<'_> {
    fn lister(&self) -> Lister {
        Lister::new(self.registry.clone())
    }
}

/// A row of the registry. Plugins of the stock API server have their stock names.
struct Plugin {
    name: &'static str,
    active: Use,
    build: fn(&Parts<'_>) -> Arc<dyn Admission>,
}

const fn always(name: &'static str, build: fn(&Parts<'_>) -> Arc<dyn Admission>) -> Plugin {
    Plugin { name, active: Use::Always, build }
}

const fn default(name: &'static str, build: fn(&Parts<'_>) -> Arc<dyn Admission>) -> Plugin {
    Plugin { name, active: Use::Default, build }
}

const fn on_request(name: &'static str, build: fn(&Parts<'_>) -> Arc<dyn Admission>) -> Plugin {
    Plugin { name, active: Use::OnRequest, build }
}

/// All admission plugins in execution order. `docs/contributing/admission-plugin.md` shows how to add one.
const PLUGINS: &[Plugin] = &[
    default("NamespaceLifecycle", |with| NamespaceLifecycle::new(with.registry.clone())),
    always("NestingLimit", |_| Arc::new(NestingLimit)),
    always("CustomResourceDefinitions", |with| Definitions::new(with.registry.clone())),
    always("EscalationCheck", |with| EscalationCheck::new(with.auth.clone())),
    always("CertificateRequester", |_| Arc::new(CertificateRequester)),
    default("CertificateApproval", |with| Arc::new(CertificateApproval(with.auth.clone()))),
    default("CertificateSigning", |with| Arc::new(CertificateSigning(with.auth.clone()))),
    default("CertificateSubjectRestriction", |_| Arc::new(CertificateSubjectRestriction)),
    always("CsrLimits", |with| Arc::new(csr_limits::CsrLimits::new(with.registry.cache().clone()))),
    default("ServiceAccount", |with| Arc::new(service_account::ServiceAccount::new(with.lister()))),
    default("NodeRestriction", |with| Arc::new(node_restriction::NodeRestriction::new(with.lister()))),
    always("NodeRegistration", |with| {
        Arc::new(node_registration::NodeRegistration::new(with.lister(), with.config.nodes.clone()))
    }),
    // After NodeRegistration, which restores the taints of a reserved Node.
    default("TaintNodesByCondition", |_| Arc::new(taint_nodes_by_condition::TaintNodesByCondition)),
    on_request("AlwaysPullImages", |_| Arc::new(always_pull_images::AlwaysPullImages)),
    default("LimitRanger", |with| Arc::new(limit_ranger::LimitRanger::new(with.lister()))),
    default("Priority", |with| Arc::new(priority::Priority::new(with.lister()))),
    default("DefaultStorageClass", |with| {
        Arc::new(default_storage_class::DefaultStorageClass::new(with.lister()))
    }),
    default("StorageObjectInUseProtection", |_| {
        Arc::new(storage_object_protection::StorageObjectInUseProtection)
    }),
    default("PersistentVolumeClaimResize", |with| {
        Arc::new(claim_resize::PersistentVolumeClaimResize::new(with.lister()))
    }),
    default("DefaultIngressClass", |with| {
        Arc::new(default_ingress_class::DefaultIngressClass::new(with.lister()))
    }),
    default("DefaultTolerationSeconds", |_| Arc::new(default_toleration_seconds::DefaultTolerationSeconds)),
    default("RuntimeClass", |with| Arc::new(runtime_class::RuntimeClass::new(with.lister()))),
    always("SchedulingGates", |with| {
        let gates = with.config.scheduling_gates.clone();
        Arc::new(scheduling_gates::SchedulingGates::new(gates, with.auth.clone()))
    }),
    default("PodSecurity", |_| Arc::new(pod_security::PodSecurity)),
    always("UnenforcedWarnings", |_| Arc::new(unenforced_warnings::UnenforcedWarnings)),
    always("WorkloadWarnings", |with| {
        let controllers = with.config.controllers.clone();
        Arc::new(workload_warnings::WorkloadWarnings::new(with.lister(), controllers))
    }),
    always("PolicyValidation", |with| {
        Arc::new(policies::PolicyValidation::new(with.registry.clone(), with.auth.clone()))
    }),
    default("MutatingAdmissionPolicy", |with| {
        Arc::new(policies::MutatingAdmissionPolicy::new(with.registry.clone(), with.auth.clone()))
    }),
    default("ValidatingAdmissionPolicy", |with| {
        Arc::new(policies::ValidatingAdmissionPolicy::new(with.registry.clone(), with.auth.clone()))
    }),
    // After all plugins that may reject the request, because this plugin writes its reservation into the status of the
    // quota.
    default("ResourceQuota", |with| Arc::new(resource_quota::ResourceQuota::new(with.registry.clone()))),
    // After all plugins that may reject a Node: a reservation for a rejected Node would block its CIDR for a while.
    always("PodCidrAllocator", |with| {
        let services = with.config.service_ranges.iter();
        let services = services.filter_map(|range| IpNet::new(range.network, range.bits).ok()).collect();
        let ranges = with.config.pod_ranges.clone();
        Arc::new(pod_cidrs::PodCidrAllocator::new(with.registry.clone(), ranges, services))
    }),
    // After policies that may change the type of a Service or reject it, so that no address is reserved unnecessarily.
    always("ServiceIpAllocator", |with| {
        let ranges = with.config.service_ranges.clone();
        Arc::new(ServiceIpAllocator::new(with.registry.clone(), ranges))
    }),
    // The second check of this plugin, after plugins that may take long.
    default("NamespaceLifecycle", |with| {
        Arc::new(NamespaceRecheck(NamespaceLifecycle::new(with.registry.clone())))
    }),
];

/// The active admission plugins in execution order.
pub fn plugins(
    registry: &Arc<Registry>,
    auth: &Arc<Auth>,
    config: AdmissionConfig,
) -> Vec<Arc<dyn Admission>> {
    let with = Parts { registry, auth, config: &config };
    PLUGINS
        .iter()
        .filter(|plugin| plugin.is_active(&config.plugins))
        .map(|plugin| (plugin.build)(&with))
        .collect()
}

impl Plugin {
    fn is_active(&self, chosen: &AdmissionPlugins) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == self.name);
        match self.active {
            Use::Always => true,
            Use::Default => !is_in(&chosen.disabled),
            Use::OnRequest => is_in(&chosen.enabled),
        }
    }
}

/// Names that `--enable-admission-plugins` and `--disable-admission-plugins` accept, in execution order.
pub fn plugin_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for plugin in PLUGINS.iter().filter(|plugin| plugin.active != Use::Always) {
        if !names.contains(&plugin.name) {
            names.push(plugin.name);
        }
    }
    names
}

#[cfg(test)]
mod tests;
