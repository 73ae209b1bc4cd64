//! Which of the pods that should run here may: what runs already comes first, then the order of the sources.

mod affinity;
mod demand;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::resources::ResourceList;
use k8s_openapi::api::core::v1::Pod;

use self::demand::Demand;
use super::{Desired, DesiredPod, SourceKind};
use crate::observed::PodUid;
use crate::spec::{self, Facts};

/// The reason of a pod that asks for what is not supported yet.
pub const UNSUPPORTED: &str = "UnsupportedField";

/// What pods share.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Labels; `None` when they are not known, and then not asked for.
    pub labels: Option<BTreeMap<String, String>>,
    /// Most pods; `None` for no limit.
    pub max_pods: Option<usize>,
    /// What pods may use in all; what is not listed is not limited.
    pub allocatable: ResourceList,
    /// Facts of the node.
    pub facts: Arc<Facts>,
}

/// Why a pod may not run here, in the words of its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// One word in CamelCase, those of the stock kubelet where it has one.
    pub reason: Cow<'static, str>,
    /// What does not fit.
    pub message: String,
    /// The field that asks for it.
    pub path: String,
}

/// What may run.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// Pods that may run, each in the version that may: the one before where an edit is rejected.
    pub run: BTreeMap<PodUid, Arc<DesiredPod>>,
    /// Pods and edits of pods that may not.
    pub rejected: BTreeMap<PodUid, Rejection>,
}

/// Who has been admitted so far and holds what.
#[derive(Debug, Default)]
pub struct Admission {
    admitted: BTreeMap<PodUid, Candidate>,
    waiting: BTreeMap<PodUid, Candidate>,
}

/// A pod and what can be said of it without looking at others.
#[derive(Clone, Debug)]
struct Candidate {
    pod: Arc<DesiredPod>,
    demand: Demand,
    refused: Option<Rejection>,
    /// It holds nothing any more.
    is_finished: bool,
}

impl Admission {
    /// The pod runs already, in that version: it is not asked whether it fits.
    pub fn adopt(&mut self, pod: Arc<DesiredPod>) {
        let demand = Demand::of(&pod.pod);
        self.admitted.insert(pod.uid.clone(), Candidate { pod, demand, refused: None, is_finished: false });
    }

    /// Nothing of the pod is left: what it held is free. One that is still desired holds it again from the next decision on.
    pub fn release(&mut self, uid: &PodUid) {
        self.admitted.remove(uid);
    }

    /// The pod has run to its end, as it is: it stays admitted and holds nothing any more.
    pub fn finish(&mut self, uid: &PodUid) {
        if let Some(admitted) = self.admitted.get_mut(uid) {
            admitted.is_finished = true;
        }
    }

    /// Decides about all that is desired and not to go. A pod that is no longer desired keeps what it holds until it is released.
    pub fn decide(&mut self, desired: &Desired, node: &Node) -> Decision {
        let mut decision = Decision::default();
        let (known, new): (Vec<_>, Vec<_>) = desired
            .order
            .iter()
            .filter_map(|uid| desired.pods.get(uid))
            .filter(|pod| !pod.is_doomed())
            .partition(|pod| self.admitted.contains_key(&pod.uid));
        let mut waiting = BTreeMap::new();
        for pod in known.into_iter().chain(new) {
            if self.runs(pod) {
                decision.run.insert(pod.uid.clone(), pod.clone());
                continue;
            }
            let candidate = self.candidate(pod, node);
            let rejection = candidate.refused.clone().or_else(|| self.clash(&candidate, node));
            let Some(rejection) = rejection else {
                self.admitted.insert(pod.uid.clone(), candidate);
                decision.run.insert(pod.uid.clone(), pod.clone());
                continue;
            };
            decision.rejected.insert(pod.uid.clone(), rejection);
            if let Some(before) = self.admitted.get(&pod.uid) {
                decision.run.insert(pod.uid.clone(), before.pod.clone());
            }
            waiting.insert(pod.uid.clone(), candidate);
        }
        self.waiting = waiting;
        decision
    }

    /// True when this very version has been admitted; an equal one takes its place.
    fn runs(&mut self, pod: &Arc<DesiredPod>) -> bool {
        let Some(admitted) = self.admitted.get_mut(&pod.uid) else { return false };
        let is_same = Arc::ptr_eq(&admitted.pod, pod) || admitted.pod == *pod;
        if is_same {
            admitted.pod = pod.clone();
        }
        is_same
    }

    /// What can be said of the pod alone, from last time when it has not changed since.
    fn candidate(&mut self, pod: &Arc<DesiredPod>, node: &Node) -> Candidate {
        match self.waiting.remove(&pod.uid) {
            Some(candidate) if Arc::ptr_eq(&candidate.pod, pod) => candidate,
            _ => Candidate {
                pod: pod.clone(),
                demand: Demand::of(&pod.pod),
                refused: refused(&pod.pod, node),
                is_finished: false,
            },
        }
    }

    /// Why the pod does not fit beside those that were admitted, in the order in which the stock kubelet looks.
    fn clash(&self, candidate: &Candidate, node: &Node) -> Option<Rejection> {
        let others = || {
            let holders = self.admitted.values().filter(|other| !other.is_finished);
            holders.filter(|other| other.pod.uid != candidate.pod.uid)
        };
        if let Some(max_pods) = node.max_pods
            && others().count() >= max_pods
        {
            return Some(out_of("pods", 1, others().count(), max_pods));
        }
        for (name, capacity) in &node.allocatable {
            let Some(requested) = candidate.demand.requests.get(name).filter(|amount| !amount.is_zero())
            else {
                continue;
            };
            let used = others().filter_map(|other| other.demand.requests.get(name).copied());
            let used = used.reduce(|sum, amount| sum.plus(amount));
            if used.map_or(*requested, |used| used.plus(*requested)) > *capacity {
                let shown = |amount: api::quantity::Quantity| {
                    if name == "cpu" { amount.milli() } else { amount.units() }
                };
                return Some(out_of(name, shown(*requested), used.map_or(0, shown), shown(*capacity)));
            }
        }
        let pod = &candidate.pod.pod;
        // Labels that the master gives this node are its scheduler's to know, and may be news here.
        if let Some(labels) = node.labels.as_ref().filter(|_| candidate.pod.source != SourceKind::Api)
            && !affinity::fits(pod, labels, &node.facts.node_name)
        {
            let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
            return Some(Rejection {
                reason: "NodeAffinity".into(),
                message: message.to_owned(),
                path: "spec.affinity".to_owned(),
            });
        }
        let (port, other) =
            others().find_map(|other| candidate.demand.clash(&other.demand).map(|port| (port, other)))?;
        let metadata = &other.pod.pod.metadata;
        let message = format!(
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: {port} is taken by \
             the pod {}/{}",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        );
        Some(Rejection { reason: "NodePorts".into(), message, path: port.path.clone() })
    }
}

/// Why a pod may not run on this node whatever else runs there.
fn refused(pod: &Pod, node: &Node) -> Option<Rejection> {
    let refusals = spec::refusals(pod);
    if let Some(first) = refusals.first() {
        let all: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        return Some(Rejection {
            reason: UNSUPPORTED.into(),
            message: all.join("; "),
            path: first.path.clone(),
        });
    }
    let os = pod.spec.as_ref().and_then(|spec| spec.os.as_ref());
    if let Some(os) = os.filter(|os| os.name != "linux") {
        let message = format!(
            "Failed to admit pod as the OS field doesn't match node OS: spec.os.name is {:?}, the node runs linux",
            os.name
        );
        let path = "spec.os.name".to_owned();
        return Some(Rejection { reason: "PodOSNotSupported".into(), message, path });
    }
    let forbidden = spec::forbidden_sysctl(pod, &node.facts)?;
    Some(Rejection {
        reason: forbidden.reason.into(),
        message: forbidden.message,
        path: "spec.securityContext.sysctls".to_owned(),
    })
}

/// The stock kubelet's words for what there is not enough of.
fn out_of(
    what: &str,
    requested: impl std::fmt::Display,
    used: impl std::fmt::Display,
    capacity: impl std::fmt::Display,
) -> Rejection {
    Rejection {
        reason: format!("OutOf{what}").into(),
        path: "spec.containers".to_owned(),
        message: format!(
            "Node didn't have enough resource: {what}, requested: {requested}, used: {used}, capacity: {capacity}"
        ),
    }
}
