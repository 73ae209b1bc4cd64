//! The state between those who tell it what there is and who asks it what to do next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::labels::Labels;
use super::node::{self, Node};
use super::pod::{self, Pod};
use super::preempt::{self, Budget};
use super::read::{at, labels, text_at};
use super::state::{Decision, State};
use crate::controllers::{Json, Sieve, Table};

/// The state, shared.
#[derive(Debug, Default)]
pub struct Mind {
    state: Mutex<State>,
    wake: Notify,
}

impl Mind {
    /// Waits for the next decision.
    pub async fn next(&self) -> Decision {
        loop {
            let decided = self.lock().next(Instant::now());
            match decided {
                Ok(decision) => return decision,
                Err(None) => self.wake.notified().await,
                Err(Some(at)) => {
                    let _ = tokio::time::timeout_at(at, self.wake.notified()).await;
                }
            }
        }
    }

    /// Has something taken in.
    pub fn tell(&self, what: impl FnOnce(&mut State, Instant)) {
        what(&mut self.lock(), Instant::now());
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table of pods.
pub struct Pods(pub Arc<Mind>);
/// The table of nodes.
pub struct Nodes(pub Arc<Mind>);
/// The table of budgets.
pub struct Budgets(pub Arc<Mind>);
/// The table of namespaces.
pub struct Namespaces(pub Arc<Mind>);

fn sieve(fields: &[&'static str]) -> Sieve {
    fields.iter().copied().fold(Sieve::nothing(), Sieve::with)
}

impl Table for Pods {
    type Kept = Pod;

    fn sieve(&self) -> Sieve {
        sieve(pod::FIELDS)
    }

    fn keep(&self, object: &Json) -> Pod {
        Pod::of(object)
    }

    fn replace(&self, pods: Vec<Pod>) {
        self.0.tell(|state, now| state.replace_pods(pods, now));
    }

    fn put(&self, pod: Pod) {
        self.0.tell(|state, now| state.put_pod(pod, now));
    }

    fn remove(&self, pod: Pod) {
        self.0.tell(|state, now| state.remove_pod(&pod.uid, now));
    }
}

impl Table for Nodes {
    type Kept = Node;

    fn sieve(&self) -> Sieve {
        sieve(node::FIELDS)
    }

    fn keep(&self, object: &Json) -> Node {
        Node::of(object)
    }

    fn replace(&self, nodes: Vec<Node>) {
        self.0.tell(|state, now| state.replace_nodes(nodes, now));
    }

    fn put(&self, node: Node) {
        self.0.tell(|state, now| state.put_node(node, now));
    }

    fn remove(&self, node: Node) {
        self.0.tell(|state, now| state.remove_node(&node.name, now));
    }
}

impl Table for Namespaces {
    type Kept = (String, Labels);

    fn sieve(&self) -> Sieve {
        sieve(&["metadata.name", "metadata.labels", "metadata.resourceVersion"])
    }

    fn keep(&self, object: &Json) -> Self::Kept {
        (text_at(object, "metadata.name"), labels(at(object, "metadata.labels")))
    }

    fn replace(&self, namespaces: Vec<Self::Kept>) {
        self.0.tell(|state, now| state.replace_namespaces(namespaces, now));
    }

    fn put(&self, (name, labels): Self::Kept) {
        self.0.tell(|state, now| state.put_namespace(&name, Some(labels), now));
    }

    fn remove(&self, (name, _): Self::Kept) {
        self.0.tell(|state, now| state.put_namespace(&name, None, now));
    }
}

impl Table for Budgets {
    type Kept = Budget;

    fn sieve(&self) -> Sieve {
        sieve(preempt::FIELDS)
    }

    fn keep(&self, object: &Json) -> Budget {
        Budget::of(object)
    }

    fn replace(&self, budgets: Vec<Budget>) {
        self.0.tell(|state, _| state.replace_budgets(budgets));
    }

    fn put(&self, budget: Budget) {
        self.0.tell(|state, _| state.put_budget(budget));
    }

    fn remove(&self, budget: Budget) {
        self.0.tell(|state, _| state.remove_budget(&budget));
    }
}
