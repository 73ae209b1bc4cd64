//! Pods that wait for a node that is promised to them: they count there for pods of no higher priority.

use std::collections::HashMap;
use std::sync::Arc;

use super::pod::Pod;

#[derive(Clone, Debug)]
struct Nominee {
    pod: Arc<Pod>,
    node: String,
}

/// All of them, by identity.
#[derive(Debug, Default)]
pub struct Nominees(HashMap<String, Nominee>);

impl Nominees {
    /// Takes in a pod that waits, as the server has it. What was promised here and the server does not say yet holds; what the
    /// server said and does not say any more is over. True where a node is promised to it no more.
    pub fn take_in(&mut self, pod: &Arc<Pod>) -> bool {
        let before = self.node_of(&pod.uid).map(str::to_owned);
        match self.0.get_mut(&pod.uid) {
            Some(known) if pod.nominated.is_empty() && known.pod.nominated.is_empty() => {
                known.pod = pod.clone();
            }
            _ if pod.nominated.is_empty() => drop(self.0.remove(&pod.uid)),
            _ => self.promise(pod.clone(), &pod.nominated),
        }
        before.is_some_and(|before| self.node_of(&pod.uid) != Some(&before))
    }

    /// Promises a node to a pod.
    pub fn promise(&mut self, pod: Arc<Pod>, node: &str) {
        self.0.insert(pod.uid.clone(), Nominee { pod, node: node.to_owned() });
    }

    /// Nothing is promised to that pod any more; the node that was.
    pub fn remove(&mut self, uid: &str) -> Option<String> {
        self.0.remove(uid).map(|nominee| nominee.node)
    }

    /// The node that is promised to a pod.
    pub fn node_of(&self, uid: &str) -> Option<&str> {
        self.0.get(uid).map(|nominee| nominee.node.as_str())
    }

    /// Those whom that pod has to leave room for, each with its node.
    pub fn before(&self, pod: &Pod) -> impl Iterator<Item = (&str, &Arc<Pod>)> {
        let is_before =
            |other: &&Nominee| other.pod.wants.priority >= pod.wants.priority && other.pod.uid != pod.uid;
        self.0.values().filter(is_before).map(|other| (other.node.as_str(), &other.pod))
    }

    /// Those who are promised that node and have to make way for that pod.
    pub fn outdone(&self, pod: &Pod, node: &str) -> Vec<Arc<Pod>> {
        let is_outdone =
            |other: &&Nominee| other.node == node && other.pod.wants.priority < pod.wants.priority;
        self.0.values().filter(is_outdone).map(|other| other.pod.clone()).collect()
    }
}
