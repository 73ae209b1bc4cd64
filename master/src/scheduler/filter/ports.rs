//! A port of the host is one pod's.

use super::Why;
use crate::scheduler::node::Slot;
use crate::scheduler::pod::Pod;

pub(super) fn refuses(pod: &Pod, slot: &Slot) -> Option<Why> {
    let is_taken = |port| slot.ports.keys().any(|taken| taken.conflicts(port));
    pod.wants.ports.iter().any(is_taken).then_some(Why::Ports)
}
