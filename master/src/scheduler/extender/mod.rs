//! Somebody outside who has a say in where pods go: the stock scheduler's HTTP extender. Whether he is asked about a pod is decided
//! here; `wire` knows what is said, `call` how it gets there, `ask` in which order.

mod ask;
mod call;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;

pub use self::ask::Extenders;
pub use self::call::{Caller, Trust};
use super::filter::Why;
use super::pod::Pod;

/// One of them, as it was set. What has no verb he is not asked.
#[derive(Clone, Debug)]
pub struct Extender {
    /// How he is reached.
    pub caller: Caller,
    /// Which nodes he takes out.
    pub filter: Option<String>,
    /// Which he likes better.
    pub prioritize: Option<String>,
    /// Whom he would not have ended for a pod.
    pub preempt: Option<String>,
    /// He gives pods their nodes himself.
    pub bind: Option<String>,
    /// How much counts what he likes.
    pub weight: i64,
    /// He knows the nodes: their names are enough.
    pub knows_nodes: bool,
    /// He is asked about pods that ask for any of these, or about all where there are none.
    pub managed: Vec<String>,
    /// Those of them that nobody else counts.
    pub unheeded: Vec<String>,
    /// Pods get their nodes without him when he does not answer.
    pub is_ignorable: bool,
}

/// What they say of nodes for a pod.
#[derive(Clone, Debug, Default)]
pub struct Opinion {
    /// Those that may have it, and how much they are liked.
    pub scores: HashMap<String, i64>,
    /// Those that may not.
    pub refused: Vec<(String, Why)>,
}

/// A node that could be had if others went.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Its name.
    pub node: String,
    /// Who would go.
    pub victims: Vec<Arc<Pod>>,
    /// How many of them in spite of their budgets.
    pub violations: usize,
}

impl Extender {
    /// Whether he is asked about that pod at all.
    pub fn cares_for(&self, pod: &Pod) -> bool {
        self.managed.is_empty() || self.managed.iter().any(|name| pod.wants.requests.asks_for(name))
    }

    /// Whether he has to be asked before it is decided where that pod goes.
    pub fn chooses_for(&self, pod: &Pod) -> bool {
        (self.filter.is_some() || self.prioritize.is_some()) && self.cares_for(pod)
    }

    /// Whether it is he who gives that pod its node.
    pub fn binds_for(&self, pod: &Pod) -> bool {
        self.bind.is_some() && self.cares_for(pod)
    }

    /// Whether he has to be asked before others are ended for that pod.
    pub fn spares_for(&self, pod: &Pod) -> bool {
        self.preempt.is_some() && self.cares_for(pod)
    }
}
