//! The scheduler's view of a pod, which is parsed once.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::Arc;

use api::quantity::{Format, Quantity};
use api::resources::pod_requests;
use jiff::Timestamp;

use super::resource::Resource;
use super::topology_counts::{PodSelector, Term};
use crate::objects::labels::{Labels, Requirement, Selector};
use crate::objects::node::Toleration;
use crate::objects::node_affinity::{NodeSelectorTerm, RequiredNodeAffinity};
use crate::objects::pod::{self, PodAffinityTerm, TopologySpreadConstraint};
use crate::objects::resources::quantities;
use crate::objects::{self, List};

/// CPU that scoring assumes for a container without requests: 0.1 CPU, as in the stock scheduler.
const DEFAULT_CPU_MILLI: i64 = 100;
/// Memory that scoring assumes for a container without requests: 200 MiB, as in the stock scheduler.
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;
/// Weight of an existing pod's required affinity in scores, as the stock `hardPodAffinityWeight`.
const HARD_POD_AFFINITY_WEIGHT: i64 = 1;
/// Scheduler name of pods that do not set `spec.schedulerName`.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Condition type of pods that the control plane terminates, and its reason for preemption.
pub const DISRUPTED: &str = "DisruptionTarget";
pub const PREEMPTED: &str = "PreemptionByScheduler";

/// The fields of a Pod that scheduling reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `spec.nodeName`; empty for a pending pod.
    pub node: String,
    /// `spec.schedulerName`, or the default.
    pub scheduler_name: String,
    /// Whether the phase is Succeeded or Failed, so that the pod uses no resources.
    pub is_terminal: bool,
    /// Reason and message of the PodScheduled condition, if its status is False.
    pub unschedulable_condition: Option<(String, String)>,
    /// `status.nominatedNodeName`.
    pub nominated_node: String,
    /// Whether `spec.preemptionPolicy` is Never.
    pub never_preempts: bool,
    /// Whether the scheduler has preempted the pod.
    pub is_preempted: bool,
    /// Whether the pod is a mirror pod of a static pod. Its deletion frees no resources.
    pub is_mirror: bool,
    /// `status.startTime`.
    pub start_time: Option<Timestamp>,
    /// UID of the controlling owner, or empty if there is none.
    pub owner: String,
    /// The part that decides where the pod may run.
    pub spec: Arc<SchedulingSpec>,
}

/// The part of a pod that decides where it may run. When it changes, a pending pod is scheduled again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulingSpec {
    /// Whether `metadata.deletionTimestamp` is set.
    pub is_terminating: bool,
    /// Whether `spec.schedulingGates` is not empty.
    pub is_gated: bool,
    /// `spec.priority`. The pod with the highest priority is scheduled first.
    pub priority: i64,
    /// `metadata.labels`.
    pub labels: Labels,
    /// Effective resource requests.
    pub requests: Resource,
    /// Requests for scoring, with defaults for containers that request nothing.
    pub non_zero_requested: Resource,
    /// Host ports of all containers.
    pub host_ports: Vec<HostPort>,
    /// `spec.nodeSelector` and the required node affinity.
    pub required_node_affinity: RequiredNodeAffinity,
    /// Preferred node affinity, with weights.
    pub preferred_node_terms: Vec<(i64, NodeSelectorTerm)>,
    /// `spec.tolerations`.
    pub tolerations: List<Toleration>,
    /// Required pod affinity: one term per topology key. Each term is for pods that match the selectors of all
    /// required terms.
    pub required_affinity: Vec<Arc<Term>>,
    /// Required pod anti-affinity.
    pub required_anti_affinity: Vec<Arc<Term>>,
    /// Preferred pod affinity with weights. The weights of anti-affinity are negative.
    pub preferred_affinity: Vec<(i64, Arc<Term>)>,
    /// Terms that add to the scores of other pods: the preferred terms, and the required affinity.
    pub symmetric_terms: Vec<(i64, Arc<Term>)>,
    /// `spec.topologySpreadConstraints`.
    pub topology_spread: Vec<SpreadConstraint>,
    /// Images of all containers, each with a tag, as nodes report them.
    pub images: Vec<String>,
    /// Claims that the volumes use.
    pub claims: Vec<ClaimRef>,
}

/// A PersistentVolumeClaim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// Name, in the namespace of the pod.
    pub name: String,
    /// Whether the volume is a generic ephemeral volume, whose claim is created for the pod and owned by it.
    pub is_ephemeral: bool,
}

impl ClaimRef {
    /// Returns the claim of a volume. `pod` is the name of the pod.
    fn of(volume: &pod::Volume, pod: &str) -> Option<Self> {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(Self { name: claim.claim_name.to_string(), is_ephemeral: false });
        }
        let name = || format!("{pod}-{}", volume.name);
        volume.ephemeral.as_ref().map(|_| Self { name: name(), is_ephemeral: true })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Host IP. `0.0.0.0` means all addresses.
    pub address: String,
    /// Port number.
    pub number: i64,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq)]
pub struct SpreadConstraint {
    /// The pods that count, and the topology key.
    pub term: Arc<Term>,
    /// `maxSkew`: the maximum difference to the topology value with the fewest pods.
    pub max_skew: i64,
    /// `minDomains`: if there are fewer topology values, the smallest count is taken as 0.
    pub min_domains: i64,
    /// Whether the constraint is hard: `whenUnsatisfiable: DoNotSchedule`. Soft constraints only affect scores.
    pub is_hard: bool,
    /// `nodeAffinityPolicy: Honor`: only nodes that match the pod's node affinity count.
    pub honors_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: only nodes whose taints the pod tolerates count.
    pub honors_taints: bool,
    /// Whether the pod matches the selector itself.
    pub selects_itself: bool,
}

impl Pod {
    /// Parses a Pod.
    pub fn of(object: objects::Pod) -> Self {
        let spec = Arc::new(SchedulingSpec::of(&object));
        Self::with(object, spec)
    }

    /// Parses a Pod whose scheduling spec is known.
    pub fn with(object: objects::Pod, spec: Arc<SchedulingSpec>) -> Self {
        let objects::Pod { metadata, spec: object, status } = object;
        let unschedulable =
            status.conditions.of_type("PodScheduled").filter(|found| &*found.status == "False");
        let is_preempted = |found: &objects::Condition| found.is_true() && &*found.reason == PREEMPTED;
        let scheduler_name = match &*object.scheduler_name {
            "" => DEFAULT_SCHEDULER.to_owned(),
            name => name.to_owned(),
        };
        Self {
            owner: metadata.controller().map(|owner| owner.uid.to_string()).unwrap_or_default(),
            uid: metadata.uid.into(),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            resource_version: metadata.resource_version.into(),
            node: object.node_name.into(),
            scheduler_name,
            is_terminal: status.is_terminal(),
            unschedulable_condition: unschedulable
                .map(|found| (found.reason.to_string(), found.message.to_string())),
            never_preempts: &*object.preemption_policy == "Never",
            is_preempted: status.conditions.of_type(DISRUPTED).is_some_and(is_preempted),
            is_mirror: metadata.annotations.mirror.is_some(),
            start_time: status.start_time,
            nominated_node: status.nominated_node_name.into(),
            spec,
        }
    }

    /// Returns the start time. Pods that have not started come last.
    pub fn start_time_or_max(&self) -> Timestamp {
        self.start_time.unwrap_or(Timestamp::MAX)
    }

    /// Returns the sort key of importance: higher priority first, then earlier start.
    pub fn importance(&self) -> (Reverse<i64>, Timestamp) {
        (Reverse(self.spec.priority), self.start_time_or_max())
    }

    /// `namespace/name`, for logs.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl SchedulingSpec {
    /// Whether both pods use the same resources, host ports and claims.
    pub fn has_same_usage(&self, other: &Self) -> bool {
        self.requests == other.requests && self.host_ports == other.host_ports && self.claims == other.claims
    }

    /// Returns a hash of all fields that [`Self::of`] reads. The hash is keyed, so users cannot provoke collisions.
    pub fn fingerprint(object: &mut objects::Pod, hashes: &RandomState) -> u64 {
        let objects::Pod { metadata, spec, status } = object;
        let mut hasher = hashes.build_hasher();
        (&metadata.name, &metadata.namespace, &metadata.labels, metadata.is_terminating()).hash(&mut hasher);
        // `spec.nodeName` is the result of scheduling, not an input.
        let node_name = std::mem::take(&mut spec.node_name);
        spec.hash(&mut hasher);
        spec.node_name = node_name;
        for container in container_statuses(status).filter(|container| container.resources.is_some()) {
            container.hash(&mut hasher);
        }
        is_resize_infeasible(status).hash(&mut hasher);
        hasher.finish()
    }

    /// Parses the scheduling spec of a Pod.
    pub fn of(object: &objects::Pod) -> Self {
        let objects::Pod { metadata, spec, .. } = object;
        let (requests, non_zero_requested) = pod_resources(object);
        let sidecars = spec.init_containers.iter().filter(|container| container.is_sidecar());
        let ports = spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
        let containers = spec.containers.iter().chain(&spec.init_containers);
        let parsed = Self {
            is_terminating: metadata.is_terminating(),
            is_gated: !spec.scheduling_gates.is_empty(),
            priority: spec.priority,
            labels: metadata.labels.clone(),
            requests,
            non_zero_requested,
            host_ports: ports.filter_map(HostPort::of).collect(),
            required_node_affinity: RequiredNodeAffinity::of(
                &spec.node_selector,
                spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.required.as_ref()),
            ),
            tolerations: spec.tolerations.clone(),
            topology_spread: spec
                .topology_spread_constraints
                .iter()
                .map(|constraint| SpreadConstraint::of(constraint, metadata))
                .collect(),
            images: containers.map(|container| image_name(&container.image)).collect(),
            claims: spec.volumes.iter().filter_map(|volume| ClaimRef::of(volume, &metadata.name)).collect(),
            ..Self::default()
        };
        match &spec.affinity {
            Some(affinity) => parsed.with_affinity(affinity, metadata),
            None => parsed,
        }
    }

    /// Adds the terms of `spec.affinity`.
    fn with_affinity(mut self, affinity: &pod::Affinity, own: &PodMeta) -> Self {
        let single =
            |term: &PodAffinityTerm| Arc::new(Term::of(PodSelector::of(term, own), &term.topology_key));
        let weighted = |sign: i64, side: &pod::PodAffinity| -> Vec<(i64, Arc<Term>)> {
            let preferred = side.preferred.iter();
            preferred.map(|one| (sign * one.weight, single(&one.pod_affinity_term))).collect()
        };
        let pod::Affinity { node_affinity, pod_affinity, pod_anti_affinity } = affinity;
        let preferred = node_affinity.preferred.iter();
        self.preferred_node_terms =
            preferred.map(|one| (one.weight, NodeSelectorTerm::of(&one.preference))).collect();
        let required = &pod_affinity.required;
        let pod_selectors: Vec<PodSelector> =
            required.iter().map(|term| PodSelector::of(term, own)).collect();
        let of_all = |term: &PodAffinityTerm| Term {
            pod_selectors: pod_selectors.clone(),
            key: term.topology_key.to_string(),
            skips_terminating: false,
        };
        self.required_affinity = required.iter().map(|term| Arc::new(of_all(term))).collect();
        self.required_anti_affinity = pod_anti_affinity.required.iter().map(single).collect();
        self.preferred_affinity = weighted(1, pod_affinity);
        self.preferred_affinity.extend(weighted(-1, pod_anti_affinity));
        let required = required.iter().map(|term| (HARD_POD_AFFINITY_WEIGHT, single(term)));
        self.symmetric_terms = required.chain(self.preferred_affinity.iter().cloned()).collect();
        self
    }
}

/// Metadata of the pod whose terms are parsed.
type PodMeta = objects::ObjectMeta<pod::PodAnnotations>;

impl SpreadConstraint {
    /// Creates a soft constraint of a pod that matches its own selector.
    pub fn soft(term: Arc<Term>, max_skew: i64) -> Self {
        Self {
            term,
            max_skew,
            min_domains: 1,
            is_hard: false,
            honors_affinity: true,
            honors_taints: false,
            selects_itself: true,
        }
    }

    fn of(constraint: &TopologySpreadConstraint, own: &PodMeta) -> Self {
        let mut selector = Selector::of(constraint.label_selector.as_ref());
        add_match_label_keys(&mut selector, &constraint.match_label_keys, &own.labels);
        let selects_itself = selector.matches(&own.labels);
        let clause =
            PodSelector { namespaces: vec![own.namespace.to_string()], namespace_selector: None, selector };
        let term = Term { skips_terminating: true, ..Term::of(clause, &constraint.topology_key) };
        Self {
            term: Arc::new(term),
            max_skew: constraint.max_skew.unwrap_or(1),
            min_domains: constraint.min_domains.unwrap_or(1),
            is_hard: &*constraint.when_unsatisfiable != "ScheduleAnyway",
            honors_affinity: &*constraint.node_affinity_policy != "Ignore",
            honors_taints: &*constraint.node_taints_policy == "Honor",
            selects_itself,
        }
    }
}

impl PodSelector {
    fn of(term: &PodAffinityTerm, own: &PodMeta) -> Self {
        let mut selector = Selector::of(term.label_selector.as_ref());
        add_match_label_keys(&mut selector, &term.match_label_keys, &own.labels);
        for key in &term.mismatch_label_keys {
            if let Some(value) = own.labels.get(key) {
                selector.0.push(Requirement::NotIn(key.to_string(), vec![value.to_owned()]));
            }
        }
        let namespace_selector = term.namespace_selector.as_ref();
        let namespace_selector = namespace_selector.map(|selector| Selector::of(Some(selector)));
        let mut namespaces: Vec<String> = term.namespaces.iter().map(|name| name.to_string()).collect();
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.push(own.namespace.to_string());
        }
        Self { namespaces, namespace_selector, selector }
    }
}

/// Adds the requirements of `matchLabelKeys`: only pods with the same values of these labels match. Changes nothing
/// if the API server has already merged them into the selector.
fn add_match_label_keys(selector: &mut Selector, keys: &[Box<str>], own: &Labels) {
    for key in keys {
        let Some(value) = own.get(key) else { continue };
        let same = Requirement::In(key.to_string(), vec![value.to_owned()]);
        if !selector.0.contains(&same) {
            selector.0.push(same);
        }
    }
}

impl HostPort {
    fn of(port: &pod::ContainerPort) -> Option<Self> {
        let or =
            |given: &str, default: &str| if given.is_empty() { default.to_owned() } else { given.to_owned() };
        (port.host_port > 0).then(|| Self {
            protocol: or(&port.protocol, "TCP"),
            address: or(&port.host_ip, ANY_ADDRESS),
            number: port.host_port,
        })
    }

    /// Whether both ports cannot be used on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address || self.address == ANY_ADDRESS || other.address == ANY_ADDRESS)
    }
}

/// The host IP that means all addresses of a node.
const ANY_ADDRESS: &str = "0.0.0.0";

/// Returns the effective requests of a pod, and its requests for scoring.
fn pod_resources(object: &objects::Pod) -> (Resource, Resource) {
    let mut slim = object.spec.resources_only();
    let is_resize_infeasible = is_resize_infeasible(&object.status);
    for container in slim.containers.iter_mut().chain(slim.init_containers.iter_mut().flatten()) {
        let Some(amounts) = allocated(&object.status, &container.name) else { continue };
        let own = container.resources.get_or_insert_default().requests.get_or_insert_default();
        if is_resize_infeasible {
            own.clear();
        }
        for (name, amount) in amounts {
            let requested = own.get(&name).and_then(|requested| Quantity::of(requested).ok());
            own.insert(name, requested.unwrap_or_default().max(amount).to_text());
        }
    }
    let requests = Resource::of(&pod_requests(&slim));
    for container in slim.containers.iter_mut().chain(slim.init_containers.iter_mut().flatten()) {
        let resources = container.resources.get_or_insert_default();
        let own: &mut BTreeMap<_, _> = resources.requests.get_or_insert_default();
        for (name, amount) in [
            ("cpu", Quantity::from_milli(DEFAULT_CPU_MILLI)),
            ("memory", Quantity::from_units(DEFAULT_MEMORY, Format::BinarySi)),
        ] {
            own.entry(name.to_owned()).or_insert_with(|| amount.to_text());
        }
    }
    (requests, Resource::of(&pod_requests(&slim)))
}

/// Whether the kubelet has rejected the pending in-place resize as infeasible.
fn is_resize_infeasible(status: &pod::PodStatus) -> bool {
    let resize = status.conditions.of_type("PodResizePending");
    resize.is_some_and(|found| &*found.reason == "Infeasible")
}

fn container_statuses(status: &pod::PodStatus) -> impl Iterator<Item = &pod::ContainerStatus> {
    status.container_statuses.iter().chain(&status.init_container_statuses)
}

/// Returns the larger of the actual and the allocated requests of a container, or `None` if the kubelet does not
/// report them.
fn allocated(status: &pod::PodStatus, name: &str) -> Option<BTreeMap<String, Quantity>> {
    let status = container_statuses(status).find(|status| &*status.name == name)?;
    let requests = &status.resources.as_ref()?.requests;
    let mut amounts = quantities(requests);
    for (name, amount) in quantities(&status.allocated_resources) {
        amounts.entry(name).and_modify(|most| *most = (*most).max(amount)).or_insert(amount);
    }
    Some(amounts)
}

/// Returns the image name with a tag, as nodes report it.
fn image_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}
