//! Pod admission: decides which desired pods may run. Running pods take precedence, then pods in the order of their
//! sources.

mod demand;
mod pressure;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::quantity::{Format, Quantity};
use api::resources::{ResourceList, is_extended};
use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod};

use self::demand::Demand;
use super::{Desired, DesiredPod, SourceKind};
use crate::observed::{PodUid, Pressure};
use crate::spec::{self, Facts};

/// Reason for pods that use an unsupported field.
pub const UNSUPPORTED: &str = "UnsupportedField";

/// Reason of pods that request an AppArmor profile on a host without AppArmor.
pub const APP_ARMOR: &str = "AppArmor";

/// Prefix of huge page resource names.
const HUGE_PAGES: &str = "hugepages-";

/// The node's capacity and labels, as admission sees them.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Node labels; `None` skips the node affinity check.
    pub labels: Option<BTreeMap<String, String>>,
    /// Maximum number of pods, or `None` for no limit.
    pub max_pods: Option<usize>,
    /// Allocatable native resources. A resource that is not listed is unlimited, except huge pages, which are then zero.
    pub allocatable: ResourceList,
    /// Allocatable extended resources. Pods of the API server may also request resources that are not listed. The
    /// scheduler or an extender accounts for these.
    pub extended: ResourceList,
    /// Node facts for the checks of single pods.
    pub facts: Arc<Facts>,
    /// The active pressure conditions of the node. Under pressure it rejects new pods that are not critical. Under
    /// memory pressure alone it rejects only BestEffort pods.
    pub pressures: Vec<Pressure>,
}

impl Node {
    /// Capacity for pods of a source. `None` for no limit. As in the stock kubelet, a pod of the API server may
    /// request extended resources that its Node lacks. Local pods that request such resources are rejected.
    fn capacity(&self, name: &str, source: SourceKind) -> Option<Quantity> {
        let none = || Quantity::from_units(0, Format::DecimalSi);
        if is_extended(name) {
            let is_accounted_for = source == SourceKind::Api;
            return self.extended.get(name).copied().or_else(|| (!is_accounted_for).then(none));
        }
        let capacity = self.allocatable.get(name).copied();
        capacity.or_else(|| name.starts_with(HUGE_PAGES).then(none))
    }
}

/// The reason why admission rejected a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// CamelCase reason. It is that of the stock kubelet if there is one.
    pub reason: Cow<'static, str>,
    /// The message: which requirement of the pod is not met.
    pub message: String,
    /// Path of the field that admission rejects.
    pub path: String,
}

/// Result of an admission pass.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// Pods that may run. A pod whose edit was rejected keeps its previous version.
    pub run: BTreeMap<PodUid, Arc<DesiredPod>>,
    /// Rejected pods and rejected edits of running pods.
    pub rejected: BTreeMap<PodUid, Rejection>,
}

/// State of pod admission: the admitted pods and the resources they use.
#[derive(Debug, Default)]
pub struct Admission {
    admitted: BTreeMap<PodUid, Candidate>,
    waiting: BTreeMap<PodUid, Candidate>,
}

/// A pod with its demand, and the result of the checks that concern only this pod.
#[derive(Clone, Debug)]
struct Candidate {
    pod: Arc<DesiredPod>,
    demand: Demand,
    refused: Option<Rejection>,
    /// Whether the pod has terminated, so that it uses no resources.
    is_finished: bool,
}

impl Admission {
    /// Admits a pod that already runs in this version, without checks.
    pub fn adopt(&mut self, pod: Arc<DesiredPod>) {
        let demand = Demand::of(&pod.pod);
        self.admitted.insert(pod.uid.clone(), Candidate { pod, demand, refused: None, is_finished: false });
    }

    /// Removes a pod and frees its resources. If it is still desired, the next pass admits it again.
    pub fn release(&mut self, uid: &PodUid) {
        self.admitted.remove(uid);
    }

    /// Marks a pod as terminated. It stays admitted and uses no resources.
    pub fn finish(&mut self, uid: &PodUid) {
        if let Some(admitted) = self.admitted.get_mut(uid) {
            admitted.is_finished = true;
        }
    }

    /// Admits or rejects each desired pod that is not being deleted. A pod that is no longer desired keeps its
    /// resources until [`Self::release`].
    pub fn decide(&mut self, desired: &Desired, node: &Node) -> Decision {
        let mut decision = Decision::default();
        let (known, new): (Vec<_>, Vec<_>) = desired
            .order
            .iter()
            .filter_map(|uid| desired.pods.get(uid))
            .filter(|pod| !pod.is_terminating())
            .partition(|pod| self.admitted.contains_key(&pod.uid));
        let mut waiting = BTreeMap::new();
        for pod in known.into_iter().chain(new) {
            if self.runs(pod) {
                decision.run.insert(pod.uid.clone(), pod.clone());
                continue;
            }
            let candidate = self.candidate(pod, node);
            let rejection = candidate.refused.clone().or_else(|| self.conflict(&candidate, node));
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

    /// Whether this version is already admitted. An equal version is replaced by the new pointer.
    fn runs(&mut self, pod: &Arc<DesiredPod>) -> bool {
        let Some(admitted) = self.admitted.get_mut(&pod.uid) else { return false };
        let is_same = Arc::ptr_eq(&admitted.pod, pod) || admitted.pod == *pod;
        if is_same {
            admitted.pod = pod.clone();
        }
        is_same
    }

    /// The candidate of a pod. The previous candidate is reused if the pod is unchanged.
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

    /// The reason why the pod does not fit beside the admitted pods. The checks run in the order of the stock
    /// kubelet.
    fn conflict(&self, candidate: &Candidate, node: &Node) -> Option<Rejection> {
        let others = || {
            let holders = self.admitted.values().filter(|other| !other.is_finished);
            holders.filter(|other| other.pod.uid != candidate.pod.uid)
        };
        // An edit of a pod that runs adds no pod.
        let runs = self.admitted.get(&candidate.pod.uid).is_some_and(|before| !before.is_finished);
        if let Some(rejection) = pressure::rejection(&candidate.pod.pod, &node.pressures).filter(|_| !runs) {
            return Some(rejection);
        }
        if let Some(max_pods) = node.max_pods
            && others().count() >= max_pods
        {
            return Some(out_of("pods", 1, others().count(), max_pods));
        }
        for (name, requested) in candidate.demand.requests.iter().filter(|(_, amount)| !amount.is_zero()) {
            let Some(capacity) = node.capacity(name, candidate.pod.source) else { continue };
            let used = others().filter_map(|other| other.demand.requests.get(name).copied());
            let used = used.reduce(|sum, amount| sum.plus(amount));
            if used.map_or(*requested, |used| used.plus(*requested)) > capacity {
                let shown = |amount: Quantity| if name == "cpu" { amount.milli() } else { amount.units() };
                return Some(out_of(name, shown(*requested), used.map_or(0, shown), shown(capacity)));
            }
        }
        let pod = &candidate.pod.pod;
        // The scheduler has checked the labels of API server pods; new labels may not have arrived here yet.
        if let Some(labels) = node.labels.as_ref().filter(|_| candidate.pod.source != SourceKind::Api)
            && !matches_node_affinity(pod, labels, &node.facts.node_name)
        {
            let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
            return Some(Rejection {
                reason: "NodeAffinity".into(),
                message: message.to_owned(),
                path: "spec.affinity".to_owned(),
            });
        }
        let (port, other) =
            others().find_map(|other| candidate.demand.conflict(&other.demand).map(|port| (port, other)))?;
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

/// The reason why the pod cannot run on this node, regardless of other pods.
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
    if let Some((path, message)) = spec::unenforceable_app_armor(pod, &node.facts) {
        return Some(Rejection { reason: APP_ARMOR.into(), message, path });
    }
    let forbidden = spec::forbidden_sysctl(pod, &node.facts)?;
    Some(Rejection {
        reason: forbidden.reason.into(),
        message: forbidden.message,
        path: "spec.securityContext.sysctls".to_owned(),
    })
}

/// The rejection of the stock kubelet for an exhausted resource.
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

/// Labels of a node.
type Labels = BTreeMap<String, String>;

/// Whether the node matches the pod's node selector and required node affinity.
fn matches_node_affinity(pod: &Pod, labels: &Labels, node: &str) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| selects_node(required, labels, node))
}

/// Whether a term of the selector matches the labels or the name of the node.
pub fn selects_node(selector: &NodeSelector, labels: &Labels, node: &str) -> bool {
    let name = Labels::from([("metadata.name".to_owned(), node.to_owned())]);
    selector.node_selector_terms.iter().any(|term| holds(term, labels, &name))
}

/// Whether all requirements of a term match. An empty term matches no node.
fn holds(term: &NodeSelectorTerm, labels: &Labels, name: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|requirement| is_met(requirement, labels))
        && fields.iter().all(|requirement| is_met(requirement, name))
}

fn is_met(requirement: &NodeSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(has, than)| has > than),
        "Lt" => numbers().is_some_and(|(has, than)| has < than),
        _ => false,
    }
}
