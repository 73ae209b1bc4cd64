//! A node with a taint that the pod does not bear does not get it.

use super::Why;
use crate::scheduler::node::Node;
use crate::scheduler::pod::Pod;
use crate::scheduler::taints::unborne;

pub(super) fn refuses(pod: &Pod, node: &Node) -> Option<Why> {
    let taint = unborne(&pod.wants.tolerations, &node.taints)?;
    Some(Why::Taint(taint.key.clone(), taint.value.clone()))
}
