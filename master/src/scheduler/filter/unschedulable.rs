//! A node that is cordoned takes those alone that bear it.

use super::Why;
use crate::scheduler::node::Node;
use crate::scheduler::pod::Pod;
use crate::scheduler::taints::{Taint, are_borne};

/// The taint that a cordon counts as.
const KEY: &str = "node.kubernetes.io/unschedulable";

pub(super) fn refuses(pod: &Pod, node: &Node) -> Option<Why> {
    let is_borne = || {
        let taint = Taint { key: KEY.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
        are_borne(&pod.wants.tolerations, &taint)
    };
    (node.unschedulable && !is_borne()).then_some(Why::Unschedulable)
}
