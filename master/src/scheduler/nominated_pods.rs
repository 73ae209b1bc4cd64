//! Nominated pods: preemptors that wait for their node. When filters check a pod of the same or a lower priority,
//! they count nominated pods on the nominated node.

use std::collections::HashMap;
use std::sync::Arc;

use super::pod::Pod;

#[derive(Clone, Debug)]
struct NominatedPod {
    pod: Arc<Pod>,
    node: String,
}

/// Nominated pods by UID.
#[derive(Debug, Default)]
pub struct NominatedPods(HashMap<String, NominatedPod>);

impl NominatedPods {
    /// Updates a pending pod from the API server. Returns true if the pod lost the node that was nominated before.
    ///
    /// A nomination of this scheduler holds until the API server reports another one, or has reported and cleared
    /// it.
    pub fn update(&mut self, pod: &Arc<Pod>) -> bool {
        let previous = self.node_for(&pod.uid).map(str::to_owned);
        match self.0.get_mut(&pod.uid) {
            Some(known) if pod.nominated_node.is_empty() && known.pod.nominated_node.is_empty() => {
                known.pod = pod.clone();
            }
            _ if pod.nominated_node.is_empty() => drop(self.0.remove(&pod.uid)),
            _ => self.nominate(pod.clone(), &pod.nominated_node),
        }
        previous.is_some_and(|previous| self.node_for(&pod.uid) != Some(&previous))
    }

    pub fn nominate(&mut self, pod: Arc<Pod>, node: &str) {
        self.0.insert(pod.uid.clone(), NominatedPod { pod, node: node.to_owned() });
    }

    /// Removes the nomination of a pod and returns its node.
    pub fn remove(&mut self, uid: &str) -> Option<String> {
        self.0.remove(uid).map(|nominated_node| nominated_node.node)
    }

    /// The node that is nominated for a pod.
    pub fn node_for(&self, uid: &str) -> Option<&str> {
        self.0.get(uid).map(|nominated_node| nominated_node.node.as_str())
    }

    /// Nominated pods of the same or a higher priority, each with its node.
    pub fn at_least_as_important(&self, pod: &Pod) -> impl Iterator<Item = (&str, &Arc<Pod>)> {
        let is_before =
            |other: &&NominatedPod| other.pod.spec.priority >= pod.spec.priority && other.pod.uid != pod.uid;
        self.0.values().filter(is_before).map(|other| (other.node.as_str(), &other.pod))
    }

    /// Nominated pods on the node with a lower priority than the pod.
    pub fn less_important_on(&self, pod: &Pod, node: &str) -> Vec<Arc<Pod>> {
        let is_less_important =
            |other: &&NominatedPod| other.node == node && other.pod.spec.priority < pod.spec.priority;
        self.0.values().filter(is_less_important).map(|other| other.pod.clone()).collect()
    }
}
