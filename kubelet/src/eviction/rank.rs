//! Ranks pods for eviction, and explains an eviction. Pure.
//!
//! The order is that of the stock kubelet. For memory and disk: pods whose usage exceeds their request, then lower
//! priority, then more usage above the request. For process ids: lower priority, then more processes. A pod whose usage
//! is unknown precedes the others.

use std::cmp::Reverse;

use api::quantity::{Format, Quantity};

use super::decide::Met;
use crate::observed::PodUid;
use crate::options::Signal;

/// A pod that may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub uid: PodUid,
    pub priority: i32,
    /// The request of the resource: bytes. Zero for inodes and processes, which have no requests.
    pub request: u64,
    /// The usage: bytes, inodes or processes. `None` if it is unknown.
    pub usage: Option<u64>,
}

/// The usage of a container, for the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUse {
    pub name: String,
    pub used_bytes: u64,
    pub request: Quantity,
}

/// The resource of a signal, as the stock kubelet names it.
pub fn resource_of(signal: Signal) -> &'static str {
    match signal {
        Signal::MemoryAvailable => "memory",
        Signal::NodeFsAvailable | Signal::ImageFsAvailable => "ephemeral-storage",
        Signal::NodeFsInodesFree | Signal::ImageFsInodesFree => "inodes",
        Signal::PidAvailable => "pids",
    }
}

/// Sorts the pods: the first one is evicted first.
pub fn rank(signal: Signal, candidates: &mut [Candidate]) {
    let above = |pod: &Candidate| i128::from(pod.usage.unwrap_or_default()) - i128::from(pod.request);
    match signal {
        Signal::PidAvailable => {
            candidates.sort_by_key(|pod| (pod.priority, pod.usage.is_some(), Reverse(pod.usage)));
        }
        Signal::MemoryAvailable
        | Signal::NodeFsAvailable
        | Signal::NodeFsInodesFree
        | Signal::ImageFsAvailable
        | Signal::ImageFsInodesFree => candidates.sort_by_key(|pod| {
            let exceeds = pod.usage.is_none_or(|usage| usage > pod.request);
            (pod.usage.is_some(), !exceeds, pod.priority, Reverse(above(pod)))
        }),
    }
}

/// The message of an evicted pod, in the format of the stock kubelet.
pub fn message(met: &Met, containers: &[ContainerUse]) -> String {
    let signal = met.threshold.signal;
    let resource = resource_of(signal);
    let amount =
        |amount: u64, format| Quantity::from_units(i64::try_from(amount).unwrap_or(i64::MAX), format);
    let mut message = format!(
        "The node was low on resource: {resource}. Threshold quantity: {}, available: {}.",
        amount(met.quantity, signal.format()),
        amount(met.available, signal.format())
    );
    for container in containers {
        let used = amount(container.used_bytes, Format::BinarySi);
        if used > container.request {
            message.push_str(&format!(
                " Container {} was using {used}, request is {}, has larger consumption of {resource}.",
                container.name, container.request
            ));
        }
    }
    message
}

#[cfg(test)]
mod tests {
    //! The ranking of the stock documentation ("Pod selection for kubelet eviction"), and messages.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::options::{Threshold, ThresholdValue};

    fn pod(name: &str, priority: i32, request: u64, usage: Option<u64>) -> Candidate {
        Candidate { uid: PodUid::new(name), priority, request, usage }
    }

    fn ranked(signal: Signal, mut pods: Vec<Candidate>) -> String {
        rank(signal, &mut pods);
        pods.iter().map(|pod| pod.uid.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn memory_and_disk_rank_by_request_then_priority_then_usage() {
        let pods = vec![
            pod("guaranteed", 0, 100, Some(100)),
            pod("important", 1000, 0, Some(900)),
            pod("small", 0, 100, Some(150)),
            pod("large", 0, 100, Some(500)),
            pod("unknown", 5000, 100, None),
            pod("below", -1, 100, Some(10)),
        ];
        let expected = "unknown large small important below guaranteed";
        for signal in [Signal::MemoryAvailable, Signal::NodeFsAvailable, Signal::ImageFsInodesFree] {
            assert_eq!(ranked(signal, pods.clone()), expected, "{signal}");
        }
    }

    #[test]
    fn process_ids_rank_by_priority_then_number() {
        let pods = vec![
            pod("few", 0, 0, Some(2)),
            pod("many", 0, 0, Some(900)),
            pod("important", 1000, 0, Some(5000)),
            pod("unknown", 0, 0, None),
        ];
        assert_eq!(ranked(Signal::PidAvailable, pods), "unknown many few important");
    }

    #[test]
    fn message_names_threshold_and_containers_above_their_request() {
        let met = |signal, value, quantity, available| Met {
            threshold: Threshold { signal, value, grace: Duration::ZERO, minimum_reclaim: None },
            quantity,
            available,
        };
        let use_of = |name: &str, used_bytes, request: &str| ContainerUse {
            name: name.to_owned(),
            used_bytes,
            request: request.parse().unwrap(),
        };
        let uses =
            [use_of("app", 2 << 20, "1Mi"), use_of("helper", 1 << 20, "1Mi"), use_of("log", 4096, "0")];
        let of_memory = met(Signal::MemoryAvailable, ThresholdValue::Amount(100 << 20), 100 << 20, 98 << 20);
        assert_eq!(
            message(&of_memory, &uses),
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 98Mi. Container app was \
             using 2Mi, request is 1Mi, has larger consumption of memory. Container log was using 4Ki, request is 0, \
             has larger consumption of memory."
        );
        let of_inodes = met(Signal::NodeFsInodesFree, ThresholdValue::Share(5000), 50, 3);
        assert_eq!(
            message(&of_inodes, &[]),
            "The node was low on resource: inodes. Threshold quantity: 50, available: 3."
        );
    }

    proptest! {
        #[test]
        fn no_pod_within_its_request_precedes_one_above_it(
            pods in proptest::collection::vec((-5..5i32, 0..100u64, proptest::option::of(0..200u64)), 0..20)
        ) {
            let named = pods.into_iter().enumerate();
            let mut pods: Vec<_> = named
                .map(|(at, (priority, request, usage))| pod(&at.to_string(), priority, request, usage))
                .collect();
            rank(Signal::MemoryAvailable, &mut pods);
            let exceeds = |pod: &Candidate| pod.usage.is_none_or(|usage| usage > pod.request);
            for pair in pods.windows(2) {
                prop_assert!(exceeds(&pair[0]) || !exceeds(&pair[1]));
                let is_same_class = pair[0].usage.is_some() == pair[1].usage.is_some() && exceeds(&pair[0]) == exceeds(&pair[1]);
                prop_assert!(!is_same_class || pair[0].priority <= pair[1].priority);
            }
        }
    }
}
