//! A pod is for nodes with the labels and names that it asks for.

use super::Why;
use crate::scheduler::node::Node;
use crate::scheduler::pod::Pod;

pub(super) fn refuses(pod: &Pod, node: &Node) -> Option<Why> {
    (!lets_through(pod, node)).then_some(Why::Affinity)
}

/// Whether the selector and the required affinity of a pod let it on that node.
pub fn lets_through(pod: &Pod, node: &Node) -> bool {
    let wants = &pod.wants;
    wants.node_labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && wants
            .node_terms
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| term.holds(&node.name, &node.labels)))
}
