//! A pod as the scheduler sees it: what it asks of a node, read once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::Arc;

use api::quantity::{Format, Quantity};
use api::resources::{pod_requests, slim_spec};
use apiserver::auth::nodes::names::MIRROR;
use jiff::Timestamp;
use serde_json::Value;

use super::amounts::Amounts;
use super::labels::{Labels, Requirement, Selector};
use super::read::{at, labels, list, text, text_at, texts};
use super::taints::Toleration;
use super::terms::{Clause, Term};
use crate::controllers::Json;

/// What a container without a request counts for in scores, as with the stock scheduler: a tenth of a core, and 200 MiB.
const UNSAID_CPU_MILLI: i64 = 100;
const UNSAID_MEMORY: i64 = 200 * 1024 * 1024;
/// The weight that a required affinity of a pod that is there has in scores; the stock `hardPodAffinityWeight`.
const HARD_WEIGHT: i64 = 1;
/// Who places pods that name nobody.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The condition of a pod that is ended by the cluster, and its reason where that is for another pod.
pub const DISRUPTED: &str = "DisruptionTarget";
pub const PREEMPTED: &str = "PreemptionByScheduler";

/// What is read of a Pod.
pub const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.deletionTimestamp",
    "metadata.ownerReferences",
    "metadata.labels",
    "metadata.annotations.[kubernetes.io/config.mirror]",
    "spec.nodeName",
    "spec.schedulerName",
    "spec.priority",
    "spec.preemptionPolicy",
    "spec.schedulingGates",
    "spec.nodeSelector",
    "spec.affinity",
    "spec.tolerations",
    "spec.topologySpreadConstraints",
    "spec.overhead",
    "spec.volumes.name",
    "spec.volumes.persistentVolumeClaim",
    "spec.volumes.ephemeral",
    "spec.resources",
    "spec.containers.name",
    "spec.containers.image",
    "spec.containers.ports",
    "spec.containers.resources",
    "spec.initContainers.name",
    "spec.initContainers.image",
    "spec.initContainers.ports",
    "spec.initContainers.resources",
    "spec.initContainers.restartPolicy",
    "status.phase",
    "status.containerStatuses.name",
    "status.containerStatuses.resources",
    "status.containerStatuses.allocatedResources",
    "status.initContainerStatuses.name",
    "status.initContainerStatuses.resources",
    "status.initContainerStatuses.allocatedResources",
    "status.conditions",
    "status.nominatedNodeName",
    "status.startTime",
];

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Identity.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The version of it.
    pub revision: String,
    /// Its node, empty while it has none.
    pub node: String,
    /// Who is to place it.
    pub scheduler: String,
    /// It has come to its end and needs nothing any more.
    pub is_over: bool,
    /// Why it could not be placed, as it says itself: reason and message.
    pub told: Option<(String, String)>,
    /// The node that it is promised, as it says itself.
    pub nominated: String,
    /// Nobody is ended for it.
    pub never_preempts: bool,
    /// It is ended for another one.
    pub is_preempted: bool,
    /// Its node has it from elsewhere: to delete it frees nothing.
    pub is_mirror: bool,
    /// When its node took it on.
    pub started: Option<Timestamp>,
    /// The identity of who made it, empty where that is nobody.
    pub owner: String,
    /// What decides where it may run.
    pub wants: Arc<Wants>,
}

/// What decides where a pod may run: when it changes, it is looked at anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// It is being deleted.
    pub is_ending: bool,
    /// Somebody has yet to let it be placed.
    pub is_gated: bool,
    /// Who comes first; the largest does.
    pub priority: i64,
    /// Its labels.
    pub labels: Labels,
    /// What it asks for.
    pub requests: Amounts,
    /// The same for scores.
    pub scored: Amounts,
    /// Ports of the host.
    pub ports: Vec<Port>,
    /// Labels that its node must have.
    pub node_labels: Labels,
    /// One of these its node must be, where there are any to choose from.
    pub node_terms: Option<Vec<NodeTerm>>,
    /// What its node should rather be, and how much that counts.
    pub preferred_nodes: Vec<(i64, NodeTerm)>,
    /// The taints that it bears.
    pub tolerations: Vec<Toleration>,
    /// Pods that must be where it is: a term a topology key, of pods that fulfil all of its terms.
    pub near: Vec<Arc<Term>>,
    /// Pods that must not be where it is.
    pub apart: Vec<Arc<Term>>,
    /// Pods that should be where it is; less than nothing for those that should not.
    pub drawn: Vec<(i64, Arc<Term>)>,
    /// The same as others are to count it: with what it requires.
    pub draws: Vec<(i64, Arc<Term>)>,
    /// How its like is spread.
    pub spread: Vec<Spread>,
    /// The images of its containers, as nodes name them.
    pub images: Vec<String>,
    /// The claims that it uses.
    pub claims: Vec<ClaimName>,
}

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName {
    /// Its name, in the namespace of the pod.
    pub name: String,
    /// It is made for the pod and goes with it.
    pub is_ephemeral: bool,
}

impl ClaimName {
    /// Reads a volume of a pod of that name.
    fn of(volume: &Value, pod: &str) -> Option<Self> {
        let is = |field: &str| volume.get(field).filter(|of| of.is_object());
        if let Some(claim) = is("persistentVolumeClaim") {
            return Some(Self { name: text(claim, "claimName").to_owned(), is_ephemeral: false });
        }
        is("ephemeral").map(|_| Self { name: format!("{pod}-{}", text(volume, "name")), is_ephemeral: true })
    }
}

/// A port of the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The address it is taken on; `0.0.0.0` is all of them.
    pub address: String,
    /// Its number.
    pub number: i64,
}

/// The field of a node that is its name.
const NODE_NAME: &str = "metadata.name";

/// What a node may be asked to be: all of it holds, and an empty one never does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTerm {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

impl NodeTerm {
    /// Reads one.
    pub fn of(term: &Value) -> Self {
        let read = |field: &str| list(term.get(field)).map(Requirement::of).collect();
        Self { labels: read("matchExpressions"), fields: read("matchFields") }
    }

    /// Whether a node of that name and these labels is one.
    pub fn holds(&self, name: &str, labels: &Labels) -> bool {
        let is_empty = self.labels.is_empty() && self.fields.is_empty();
        let field = |key: &str| (key == NODE_NAME).then_some(name);
        !is_empty
            && self.fields.iter().all(|requirement| requirement.holds_of(field))
            && self.labels.iter().all(|requirement| requirement.holds(labels))
    }

    /// The names of the nodes that it is for, where it names them.
    fn names(&self) -> Option<BTreeSet<&str>> {
        let names = self.fields.iter().filter_map(|requirement| match requirement {
            Requirement::In(key, names) if key == NODE_NAME => {
                Some(names.iter().map(String::as_str).collect::<BTreeSet<_>>())
            }
            _ => None,
        });
        names.reduce(|some, others| some.intersection(&others).copied().collect())
    }
}

/// How pods like this one are spread over the values of a label of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Which pods, and over the values of which label.
    pub term: Arc<Term>,
    /// By how many a value may have more than the one that has least.
    pub max_skew: i64,
    /// How many values there must be, else the least counts as none.
    pub min_domains: i64,
    /// The pod waits when no node keeps the skew; otherwise it only would be better.
    pub is_hard: bool,
    /// Only nodes count that the pod's selector and affinity let through.
    pub honors_affinity: bool,
    /// Only nodes count whose taints the pod bears.
    pub honors_taints: bool,
    /// The pod is itself one of those that are spread.
    pub selects_itself: bool,
}

impl Pod {
    /// Reads a Pod.
    pub fn of(object: &Json) -> Self {
        Self::with(object, Arc::new(Wants::of(object)))
    }

    /// Reads a Pod that wants this.
    pub fn with(object: &Json, wants: Arc<Wants>) -> Self {
        let conditions = |kind| {
            list(at(object, "status.conditions")).filter(move |condition| text(condition, "type") == kind)
        };
        let scheduled = conditions("PodScheduled");
        let is_controller =
            |owner: &&Value| owner.get("controller").and_then(Value::as_bool).unwrap_or_default();
        let owner = list(at(object, "metadata.ownerReferences")).find(is_controller);
        let mut disrupted = conditions(DISRUPTED);
        let refused = scheduled.filter(|condition| text(condition, "status") == "False");
        let told = refused.map(|said| (text(said, "reason").to_owned(), text(said, "message").to_owned()));
        let scheduler = match text_at(object, "spec.schedulerName") {
            none if none.is_empty() => DEFAULT_SCHEDULER.to_owned(),
            scheduler => scheduler,
        };
        Self {
            uid: text_at(object, "metadata.uid"),
            namespace: text_at(object, "metadata.namespace"),
            name: text_at(object, "metadata.name"),
            revision: text_at(object, "metadata.resourceVersion"),
            node: text_at(object, "spec.nodeName"),
            scheduler,
            is_over: matches!(text_at(object, "status.phase").as_str(), "Succeeded" | "Failed"),
            told: told.last(),
            nominated: text_at(object, "status.nominatedNodeName"),
            never_preempts: text_at(object, "spec.preemptionPolicy") == "Never",
            is_preempted: disrupted
                .any(|said| text(said, "status") == "True" && text(said, "reason") == PREEMPTED),
            is_mirror: at(object, "metadata.annotations").is_some_and(|all| all.get(MIRROR).is_some()),
            started: text_at(object, "status.startTime").parse().ok(),
            owner: owner.map(|owner| text(owner, "uid").to_owned()).unwrap_or_default(),
            wants,
        }
    }

    /// When it began; one that has not yet has done so last.
    pub fn began(&self) -> Timestamp {
        self.started.unwrap_or(Timestamp::MAX)
    }

    /// The order of those who are spared: a high priority first, then who began first.
    pub fn importance(&self) -> (Reverse<i64>, Timestamp) {
        (Reverse(self.wants.priority), self.began())
    }

    /// Namespace and name, as a log has them.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Wants {
    /// The names of the nodes that its required affinity is for, where each of its terms names them.
    pub fn named_nodes(&self) -> Option<BTreeSet<&str>> {
        let terms = self.node_terms.as_ref()?.iter();
        let names: Vec<_> = terms.map(NodeTerm::names).collect::<Option<_>>()?;
        let names: BTreeSet<&str> = names.into_iter().flatten().collect();
        (!names.is_empty()).then_some(names)
    }

    /// Whether it takes the same of a node as that one.
    pub fn takes_as(&self, other: &Self) -> bool {
        self.requests == other.requests && self.ports == other.ports && self.claims == other.claims
    }

    /// A number that is another one when anything is that [`Self::of`] reads; nobody outside can tell which.
    pub fn mark(object: &Json, hashes: &RandomState) -> u64 {
        let mut hasher = hashes.build_hasher();
        for path in ["metadata.name", "metadata.namespace", "metadata.labels", "metadata.deletionTimestamp"] {
            at(object, path).hash(&mut hasher);
        }
        // A node is not what it wants, but what it gets.
        let spec = object.get("spec").and_then(Value::as_object).into_iter().flatten();
        spec.filter(|(field, _)| *field != "nodeName").for_each(|field| field.hash(&mut hasher));
        for path in STATUSES {
            for status in list(at(object, path)).filter(|status| status.get("resources").is_some()) {
                status.hash(&mut hasher);
            }
        }
        is_in_vain(object).hash(&mut hasher);
        hasher.finish()
    }

    /// Reads what a Pod wants.
    pub fn of(object: &Json) -> Self {
        let namespace = text_at(object, "metadata.namespace");
        let own = labels(at(object, "metadata.labels"));
        let spec = |field: &str| object.get("spec").and_then(|spec| spec.get(field));
        let affinity = |path: &str| {
            spec("affinity").and_then(|of| path.split('.').try_fold(of, |at, name| at.get(name)))
        };
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
        let pods = |side: &str| -> Vec<(Clause, String)> {
            let terms = list(affinity(&format!("{side}.{REQUIRED}")));
            terms
                .map(|term| (Clause::of(term, &namespace, &own), text(term, "topologyKey").to_owned()))
                .collect()
        };
        let (near, apart) = (pods("podAffinity"), pods("podAntiAffinity"));
        let all: Vec<Clause> = near.iter().map(|(clause, _)| clause.clone()).collect();
        let mut drawn = Vec::new();
        for (side, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            for weighted in list(affinity(&format!("{side}.{PREFERRED}"))) {
                let weight = weighted.get("weight").and_then(Value::as_i64).unwrap_or_default();
                let Some(term) = weighted.get("podAffinityTerm") else { continue };
                let clause = Clause::of(term, &namespace, &own);
                drawn.push((sign * weight, Arc::new(Term::of(clause, text(term, "topologyKey")))));
            }
        }
        let single = |(clause, key): &(Clause, String)| Arc::new(Term::of(clause.clone(), key));
        let required = near.iter().map(|term| (HARD_WEIGHT, single(term)));
        let draws = required.chain(drawn.iter().cloned()).collect();
        let preferred = list(affinity(&format!("nodeAffinity.{PREFERRED}"))).map(|preference| {
            let weight = preference.get("weight").and_then(Value::as_i64).unwrap_or_default();
            (weight, preference.get("preference").map(NodeTerm::of).unwrap_or_default())
        });
        let terms = affinity(&format!("nodeAffinity.{REQUIRED}.nodeSelectorTerms"));
        let containers = || list(spec("containers")).chain(list(spec("initContainers")));
        let (requests, scored) = amounts(object);
        Self {
            is_ending: at(object, "metadata.deletionTimestamp").is_some_and(|time| !time.is_null()),
            is_gated: list(spec("schedulingGates")).next().is_some(),
            priority: spec("priority").and_then(Value::as_i64).unwrap_or_default(),
            requests,
            scored,
            ports: list(spec("containers"))
                .chain(list(spec("initContainers")).filter(|of| text(of, "restartPolicy") == "Always"))
                .flat_map(|container| list(container.get("ports")).filter_map(Port::of))
                .collect(),
            node_labels: labels(spec("nodeSelector")),
            node_terms: terms.map(|terms| list(Some(terms)).map(NodeTerm::of).collect()),
            preferred_nodes: preferred.collect(),
            tolerations: list(spec("tolerations")).map(Toleration::of).collect(),
            near: near
                .iter()
                .map(|(_, key)| Arc::new(Term { clauses: all.clone(), ..Term::of(Clause::default(), key) }))
                .collect(),
            apart: apart.iter().map(single).collect(),
            drawn,
            draws,
            spread: list(spec("topologySpreadConstraints"))
                .map(|spread| Spread::of(spread, &namespace, &own))
                .collect(),
            claims: list(spec("volumes"))
                .filter_map(|volume| ClaimName::of(volume, &text_at(object, "metadata.name")))
                .collect(),
            images: containers().map(|container| image_name(text(container, "image"))).collect(),
            labels: own,
        }
    }
}

impl Spread {
    /// One that need not be kept, of a pod that its term means.
    pub fn rather(term: Arc<Term>, max_skew: i64) -> Self {
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

    fn of(constraint: &Value, namespace: &str, own: &Labels) -> Self {
        let number = |field: &str| constraint.get(field).and_then(Value::as_i64).unwrap_or(1);
        let mut selector = Selector::of(constraint.get("labelSelector"));
        pin(&mut selector, &texts(constraint.get("matchLabelKeys")), own);
        let selects_itself = selector.selects(own);
        let clause = Clause { namespaces: vec![namespace.to_owned()], in_namespaces: None, selector };
        let term = Term { skips_ending: true, ..Term::of(clause, text(constraint, "topologyKey")) };
        Self {
            term: Arc::new(term),
            max_skew: number("maxSkew"),
            min_domains: number("minDomains"),
            is_hard: text(constraint, "whenUnsatisfiable") != "ScheduleAnyway",
            honors_affinity: text(constraint, "nodeAffinityPolicy") != "Ignore",
            honors_taints: text(constraint, "nodeTaintsPolicy") == "Honor",
            selects_itself,
        }
    }
}

impl Clause {
    fn of(term: &Value, namespace: &str, own: &Labels) -> Self {
        let mut selector = Selector::of(term.get("labelSelector"));
        pin(&mut selector, &texts(term.get("matchLabelKeys")), own);
        for key in texts(term.get("mismatchLabelKeys")) {
            if let Some(value) = own.get(&key) {
                selector.0.push(Requirement::NotIn(key, vec![value.clone()]));
            }
        }
        let in_namespaces = term.get("namespaceSelector").filter(|selector| selector.is_object());
        let in_namespaces = in_namespaces.map(|selector| Selector::of(Some(selector)));
        let mut namespaces = texts(term.get("namespaces"));
        if namespaces.is_empty() && in_namespaces.is_none() {
            namespaces.push(namespace.to_owned());
        }
        Self { namespaces, in_namespaces, selector }
    }
}

/// Pods of the same revision alone: those with the same values of these labels. Servers that have written it into the selector
/// already change nothing by it.
fn pin(selector: &mut Selector, keys: &[String], own: &Labels) {
    for key in keys {
        let Some(value) = own.get(key) else { continue };
        let same = Requirement::In(key.clone(), vec![value.clone()]);
        if !selector.0.contains(&same) {
            selector.0.push(same);
        }
    }
}

impl Port {
    fn of(port: &Value) -> Option<Self> {
        let number = port.get("hostPort").and_then(Value::as_i64).filter(|number| *number > 0)?;
        let or = |field: &str, usual: &str| match text(port, field) {
            "" => usual.to_owned(),
            given => given.to_owned(),
        };
        Some(Self { protocol: or("protocol", "TCP"), address: or("hostIP", ANY), number })
    }

    /// Whether nobody else can have it beside that one.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address || self.address == ANY || other.address == ANY)
    }
}

/// Every address of a node.
const ANY: &str = "0.0.0.0";

/// What a pod asks for, and what it counts for in scores.
fn amounts(object: &Json) -> (Amounts, Amounts) {
    let Some(spec) = object.get("spec").and_then(Value::as_object) else { return Default::default() };
    let mut slim = slim_spec(spec);
    let is_in_vain = is_in_vain(object);
    for container in slim.containers.iter_mut().chain(slim.init_containers.iter_mut().flatten()) {
        let Some(had) = had(object, &container.name) else { continue };
        let own = container.resources.get_or_insert_default().requests.get_or_insert_default();
        if is_in_vain {
            own.clear();
        }
        for (name, amount) in had {
            let asked = own.get(&name).and_then(|asked| Quantity::of(asked).ok());
            own.insert(name, asked.unwrap_or_default().max(amount).to_text());
        }
    }
    let requests = Amounts::of(&pod_requests(&slim));
    for container in slim.containers.iter_mut().chain(slim.init_containers.iter_mut().flatten()) {
        let resources = container.resources.get_or_insert_default();
        let own: &mut BTreeMap<_, _> = resources.requests.get_or_insert_default();
        for (name, amount) in [
            ("cpu", Quantity::from_milli(UNSAID_CPU_MILLI)),
            ("memory", Quantity::from_units(UNSAID_MEMORY, Format::BinarySi)),
        ] {
            own.entry(name.to_owned()).or_insert_with(|| amount.to_text());
        }
    }
    (requests, Amounts::of(&pod_requests(&slim)))
}

/// Where it stands what containers have.
const STATUSES: [&str; 2] = ["status.containerStatuses", "status.initContainerStatuses"];

/// Whether the pod asks for a change of its resources that its node will never make.
fn is_in_vain(object: &Json) -> bool {
    let said = |of: &Value| text(of, "type") == "PodResizePending" && text(of, "reason") == "Infeasible";
    list(at(object, "status.conditions")).any(said)
}

/// The most of what a container of that name was given and has, whatever it asks for now; nothing where its node does not say that.
fn had(object: &Json, name: &str) -> Option<BTreeMap<String, Quantity>> {
    let mut statuses = STATUSES.into_iter().flat_map(|path| list(at(object, path)));
    let status = statuses.find(|status| text(status, "name") == name)?;
    let has = status.get("resources").filter(|has| has.is_object())?;
    let all = [has.get("requests"), status.get("allocatedResources")];
    let mut had = BTreeMap::<String, Quantity>::new();
    for (name, amount) in all.into_iter().flatten().filter_map(Value::as_object).flatten() {
        if let Some(amount) = amount.as_str().and_then(|amount| amount.parse::<Quantity>().ok()) {
            had.entry(name.clone()).and_modify(|most| *most = (*most).max(amount)).or_insert(amount);
        }
    }
    Some(had)
}

/// An image as nodes name it: with a tag.
fn image_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}
