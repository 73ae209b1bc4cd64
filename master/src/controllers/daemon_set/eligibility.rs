//! Decides which nodes run a pod of a DaemonSet. Pure.
//!
//! The scheduler binds the pods, so resources and host ports do not count here.

use crate::controllers::object::Object;
use crate::objects::daemon_set::DaemonPodSpec;
use crate::objects::node_affinity::RequiredNodeAffinity;
use crate::objects::{List, StringMap, Taint, Toleration};

/// Taints that all pods of DaemonSets tolerate without limit: key and effect. A pod on a node with problems stays.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The taint that pods in the network of their node tolerate as well.
const NETWORK_UNAVAILABLE: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Returns key and effect of the taints that the pods of a DaemonSet tolerate by default. The operator is `Exists`.
pub fn default_tolerations(uses_host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOLERATED.into_iter().chain(uses_host_network.then_some(NETWORK_UNAVAILABLE))
}

/// Whether a node runs a pod of a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// The node should run a pod.
    Run,
    /// A pod that runs on the node stays, but no new one is created: the pod does not tolerate a `NoSchedule` taint.
    Continue,
    /// The node must not run a pod.
    Stop,
}

/// The fields of a pod template that decide where the pods of a DaemonSet run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The only node that may run a pod. Empty for all nodes.
    node_name: Box<str>,
    affinity: RequiredNodeAffinity,
    /// Tolerations of the pods, with the default ones.
    tolerations: List<Toleration>,
}

impl Placement {
    /// Reads a pod template.
    pub fn of(spec: &DaemonPodSpec) -> Self {
        let node_affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = node_affinity.and_then(|affinity| affinity.required.as_ref());
        let defaults = default_tolerations(spec.host_network).map(|(key, effect)| Toleration {
            key: key.into(),
            operator: "Exists".into(),
            effect: effect.into(),
            ..Toleration::default()
        });
        Self {
            node_name: spec.node_name.clone(),
            affinity: RequiredNodeAffinity::of(&spec.node_selector, required),
            tolerations: spec.tolerations.iter().cloned().chain(defaults).collect(),
        }
    }

    /// Decides on a cached node.
    pub fn on(&self, node: &Object) -> Eligibility {
        self.on_node(&node.name, &node.labels, &node.node().spec.taints)
    }

    /// Decides on a node with this name, labels and taints.
    pub fn on_node(&self, name: &str, labels: &StringMap, taints: &[Taint]) -> Eligibility {
        let is_other = !self.node_name.is_empty() && *self.node_name != *name;
        if is_other || !self.affinity.matches(name, labels) {
            return Eligibility::Stop;
        }
        if self.tolerations.first_untolerated(taints).is_none() {
            return Eligibility::Run;
        }
        let ends = |taint: &Taint| &*taint.effect == "NoExecute" && !self.tolerations.tolerate(taint);
        if taints.iter().any(ends) { Eligibility::Stop } else { Eligibility::Continue }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    fn eligibility(template: &Value, labels: &Value, taints: &Value) -> Eligibility {
        let spec: DaemonPodSpec = serde_json::from_value(template.clone()).unwrap();
        let labels: StringMap = serde_json::from_value(labels.clone()).unwrap();
        let taints: List<Taint> = serde_json::from_value(taints.clone()).unwrap();
        Placement::of(&spec).on_node("n", &labels, &taints)
    }

    #[test]
    fn pods_run_on_the_nodes_that_the_template_selects() {
        use Eligibility::{Run, Stop};
        let required = |term: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            }}})
        };
        let zone =
            |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let field = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]}]});
        for (template, expected) in [
            (json!({}), Run),
            (json!({"nodeName": "n"}), Run),
            (json!({"nodeName": "m"}), Stop),
            (json!({"nodeSelector": {"zone": "a"}}), Run),
            (json!({"nodeSelector": {"zone": "b"}}), Stop),
            (required(zone("a")), Run),
            (required(zone("b")), Stop),
            (required(field("m")), Run),
            (required(field("n")), Stop),
            // Preferences do not count.
            (json!({"affinity": {"nodeAffinity": null, "podAntiAffinity": {}}}), Run),
        ] {
            assert_eq!(eligibility(&template, &json!({"zone": "a"}), &json!([])), expected, "{template}");
        }
    }

    #[test]
    fn a_no_schedule_taint_prevents_new_pods_and_a_no_execute_taint_ends_pods() {
        use Eligibility::{Continue, Run, Stop};
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        let tolerates =
            |effect: &str| json!({"tolerations": [{"key": "own", "operator": "Exists", "effect": effect}]});
        for (template, taints, expected) in [
            (json!({}), vec![taint("own", "NoSchedule")], Continue),
            (json!({}), vec![taint("own", "NoExecute")], Stop),
            (json!({}), vec![taint("own", "PreferNoSchedule")], Run),
            (tolerates("NoSchedule"), vec![taint("own", "NoSchedule")], Run),
            (tolerates("NoSchedule"), vec![taint("own", "NoExecute")], Stop),
            (tolerates(""), vec![taint("own", "NoExecute"), taint("own", "NoSchedule")], Run),
            (tolerates("NoExecute"), vec![taint("own", "NoExecute"), taint("own", "NoSchedule")], Continue),
        ] {
            assert_eq!(eligibility(&template, &json!({}), &json!(taints)), expected, "{template} {taints:?}");
        }
    }

    #[test]
    fn pods_tolerate_the_taints_of_node_problems() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        for (key, effect) in TOLERATED {
            assert_eq!(eligibility(&json!({}), &json!({}), &taint(key, effect)), Eligibility::Run, "{key}");
        }
        // A template may limit how long a pod tolerates a node that is not ready. The default has no limit.
        let limited = json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]});
        let not_ready = taint("node.kubernetes.io/not-ready", "NoExecute");
        assert_eq!(eligibility(&limited, &json!({}), &not_ready), Eligibility::Run);
        let (key, effect) = NETWORK_UNAVAILABLE;
        for (uses_host_network, expected) in [(true, Eligibility::Run), (false, Eligibility::Continue)] {
            let template = json!({"hostNetwork": uses_host_network});
            assert_eq!(eligibility(&template, &json!({}), &taint(key, effect)), expected);
        }
    }
}
