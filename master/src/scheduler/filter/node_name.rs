//! A pod that names its node is for that one.

use super::Why;
use crate::scheduler::node::Node;
use crate::scheduler::pod::Pod;

pub(super) fn refuses(pod: &Pod, node: &Node) -> Option<Why> {
    (!pod.node.is_empty() && pod.node != node.name).then_some(Why::OtherName)
}
