//! A node gives no more than it has.

use super::Why;
use crate::scheduler::node::{Node, Slot};
use crate::scheduler::pod::Pod;

pub(super) fn refuses(pod: &Pod, slot: &Slot, node: &Node, unheeded: &[String]) -> Option<Vec<Why>> {
    let (asked, has, used) = (&pod.wants.requests, &node.allocatable, &slot.used);
    let is_short = |asked: i64, has: i64, used: i64| asked > 0 && asked > has - used;
    let common = [
        ("cpu", asked.cpu_milli, has.cpu_milli, used.cpu_milli),
        ("memory", asked.memory, has.memory, used.memory),
        ("ephemeral-storage", asked.ephemeral, has.ephemeral, used.ephemeral),
    ];
    let more = || {
        let counted = asked.more.iter().filter(|(name, _)| !unheeded.contains(name));
        counted.map(|(name, asked)| (name.as_str(), *asked, has.other(name), used.other(name)))
    };
    let is_full = slot.pods + 1 > node.most_pods;
    let mut fits = !is_full && !common.iter().any(|(_, asked, has, used)| is_short(*asked, *has, *used));
    fits &= more().all(|(_, asked, has, used)| !is_short(asked, has, used));
    if fits {
        return None;
    }
    let short =
        common.into_iter().chain(more()).filter(|(_, asked, has, used)| is_short(*asked, *has, *used));
    let short =
        short.map(|(name, asked, has, _)| Why::Insufficient { name: name.to_owned(), never: asked > has });
    Some(is_full.then_some(Why::TooManyPods).into_iter().chain(short).collect())
}
