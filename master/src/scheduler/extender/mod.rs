//! Scheduler extenders: external HTTP services that filter, score, preempt or bind pods, with the protocol of the
//! stock scheduler.
//!
//! This file decides which extender handles a pod. `wire` defines the messages, `client` sends them, and
//! `extenders` runs all of them.

mod client;
mod extenders;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;

pub use self::client::{ExtenderClient, TlsConfig};
pub use self::extenders::Extenders;
use super::filter::Reason;
use super::pod::Pod;

/// A configured extender. The scheduler does not call it for a verb that it does not have.
#[derive(Clone, Debug)]
pub struct Extender {
    /// Sends the requests to the extender's URL.
    pub client: ExtenderClient,
    /// `filterVerb`: path of the filter request.
    pub filter: Option<String>,
    /// `prioritizeVerb`: path of the request for scores.
    pub prioritize: Option<String>,
    /// `preemptVerb`: path of the request to choose victims.
    pub preempt: Option<String>,
    /// `bindVerb`: path of the request to bind a pod.
    pub bind: Option<String>,
    /// Factor of the extender's scores.
    pub weight: i64,
    /// `nodeCacheCapable`: the extender receives node names instead of whole nodes.
    pub node_cache_capable: bool,
    /// Resources that the extender manages. It receives only pods that request one of them, or all pods if the list
    /// is empty.
    pub managed_resources: Vec<String>,
    /// Managed resources that the scheduler itself does not check.
    pub ignored_resources: Vec<String>,
    /// Whether errors of this extender are ignored.
    pub is_ignorable: bool,
}

/// The combined filter and prioritize results for a pod.
#[derive(Clone, Debug, Default)]
pub struct ExtenderResults {
    /// Remaining nodes, each with the sum of the weighted extender scores.
    pub scores: HashMap<String, i64>,
    /// Rejected nodes, each with the reason.
    pub refused: Vec<(String, Reason)>,
}

/// A node where preemption would make the pod schedulable.
#[derive(Clone, Debug)]
pub struct PreemptionOffer {
    /// Name of the node.
    pub node: String,
    /// Pods to delete.
    pub victims: Vec<Arc<Pod>>,
    /// Number of PodDisruptionBudget violations.
    pub violations: usize,
}

impl Extender {
    /// Whether the extender handles this pod.
    pub fn is_interested(&self, pod: &Pod) -> bool {
        self.managed_resources.is_empty()
            || self.managed_resources.iter().any(|name| pod.spec.requests.includes(name))
    }

    /// Whether the extender filters or scores nodes for this pod.
    pub fn filters_or_prioritizes(&self, pod: &Pod) -> bool {
        (self.filter.is_some() || self.prioritize.is_some()) && self.is_interested(pod)
    }

    /// Whether the extender binds this pod.
    pub fn is_binder(&self, pod: &Pod) -> bool {
        self.bind.is_some() && self.is_interested(pod)
    }

    /// Whether the extender takes part in preemption for this pod.
    pub fn supports_preemption(&self, pod: &Pod) -> bool {
        self.preempt.is_some() && self.is_interested(pod)
    }
}
