//! The DaemonSet controller on a model: nodes that come, go and change, informers that lag, requests that fail, and
//! crashes between any two writes.

use std::time::{Duration, Instant};

use serde_json::json;

use super::cluster::{Chance, Kind, ModelPod};
use super::reconcile::{Fate, Stop, outcome};
use crate::controllers::daemon_set::backoff::{BackoffKey, FailedPodBackoff};
use crate::controllers::daemon_set::eligibility::{Eligibility, Placement};
use crate::controllers::daemon_set::plan::{Input, Limits, Plan, min_ready, plan};
use crate::controllers::daemon_set::pods::{DaemonNode, DaemonPod};
use crate::controllers::daemon_set::status::status;
use crate::controllers::workloads::expectations::{Expectations, Expected};
use crate::controllers::workloads::history::POD_REVISION_LABEL;
use crate::controllers::workloads::pod_writes::slow_start;
use crate::controllers::workloads::replica::Phase;
use crate::objects::{DaemonSet, StringMap, Taint};

const OWNER: &str = "d";
const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Debug, Default)]
pub struct ModelNode {
    labels: StringMap,
    taints: Vec<Taint>,
}

/// A pod of the DaemonSet, and the node for which it was created.
#[derive(Clone, Debug)]
pub struct Daemon {
    pod: ModelPod,
    target: &'static str,
    has_failed: bool,
}

impl Daemon {
    fn view(&self) -> DaemonPod<'_> {
        DaemonPod { replica: self.pod.replica(), node: self.target, has_failed: self.has_failed }
    }
}

/// What the controller saw when it planned.
struct Seen<'a> {
    set: &'a DaemonSet,
    nodes: &'a [DaemonNode<'a>],
    /// Names of the pods that were available.
    available: Vec<&'a str>,
}

pub struct Daemons {
    pub chance: Chance,
    pub seconds: i64,
    /// Whether pods fail or become unready without cause, and nodes with pods disappear.
    pub has_failures: bool,
    /// Whether requests fail and the controller crashes.
    pub is_stormy: bool,
    pub writes: usize,
    pub set: DaemonSet,
    nodes: Kind<ModelNode>,
    pods: Kind<Daemon>,
    expectations: Expectations,
    backoff: FailedPodBackoff,
    counter: u64,
    start: Instant,
    pub log: Vec<String>,
}

impl Daemons {
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let has_failures = chance.once_in(3);
        let min_ready = if chance.once_in(2) { 0 } else { 5 };
        let set =
            json!({"metadata": {"name": "agent", "uid": OWNER}, "spec": {"minReadySeconds": min_ready}});
        let mut daemons = Self {
            chance,
            seconds: 0,
            has_failures,
            is_stormy: true,
            writes: 0,
            set: serde_json::from_value(set).unwrap(),
            nodes: Kind::new(),
            pods: Kind::new(),
            expectations: Expectations::default(),
            backoff: FailedPodBackoff::default(),
            counter: 0,
            start: Instant::now(),
            log: Vec::new(),
        };
        daemons.edit_image();
        daemons.edit_strategy();
        for _ in 0..4 {
            daemons.edit_node();
        }
        daemons
    }

    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_800_000_000 + self.seconds).unwrap()
    }

    fn clock(&self) -> Instant {
        self.start + Duration::from_secs(u64::try_from(self.seconds).unwrap())
    }

    fn next(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    fn note(&mut self, what: String) {
        self.log.push(format!("{:>4} {what}", self.seconds));
    }

    fn edited(&mut self, what: String) {
        self.set.metadata.generation += 1;
        self.set.metadata.resource_version = self.next().into();
        self.note(format!("the user {what}"));
    }

    fn edit_image(&mut self) {
        let image = self.chance.below(3).to_string();
        self.set.metadata.annotations = [("image", image.as_str())].into_iter().collect();
        self.edited(format!("sets image {image}"));
    }

    fn edit_strategy(&mut self) {
        let limit = [json!(1), json!(2), json!("50%")][self.chance.below(3)].clone();
        let strategy = match self.chance.below(5) {
            0 => json!({"type": "OnDelete"}),
            1 | 2 => {
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": limit, "maxUnavailable": 0}})
            }
            _ => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": limit}}),
        };
        self.edited(format!("sets the strategy {strategy}"));
        self.set.spec.update_strategy = serde_json::from_value(strategy).unwrap();
    }

    fn edit(&mut self) {
        match self.chance.below(6) {
            0 | 1 => self.edit_image(),
            2 => self.edit_strategy(),
            3 => {
                let selector = [json!({}), json!({"zone": "x"})][self.chance.below(2)].clone();
                self.edited(format!("sets the node selector {selector}"));
                self.set.spec.template.spec.node_selector = serde_json::from_value(selector).unwrap();
            }
            _ => self.edit_node(),
        }
    }

    /// A node appears, disappears, or gets another label or taint.
    fn edit_node(&mut self) {
        let name = NODES[self.chance.below(NODES.len())];
        let has_pods = self.pods.truth.values().any(|pod| pod.target == name);
        if self.nodes.truth.contains_key(name) && self.chance.once_in(4) && (self.has_failures || !has_pods) {
            self.note(format!("node {name} disappears"));
            return self.nodes.remove(name);
        }
        let zone = ["x", "x", "y"][self.chance.below(3)];
        let taint = |effect: &str| Taint { key: "own".into(), effect: effect.into(), ..Taint::default() };
        let taints = match self.chance.below(6) {
            0 => vec![taint("NoSchedule")],
            1 => vec![taint("NoExecute")],
            _ => Vec::new(),
        };
        self.note(format!("node {name} is in zone {zone} with {} {taints:?}", taints.len()));
        self.nodes.put(name, ModelNode { labels: [("zone", zone)].into_iter().collect(), taints });
    }

    /// The scheduler, a kubelet or the pod garbage collector advances one pod. Returns true if there was any to
    /// advance.
    pub fn advance_pod(&mut self) -> bool {
        let exists = |daemon: &Daemon| self.nodes.truth.contains_key(daemon.target);
        let is_due = |daemon: &&Daemon| {
            let pod = &daemon.pod;
            let is_starting = exists(daemon) && pod.phase != Phase::Terminal && !pod.is_ready;
            pod.is_terminating || is_starting || (!exists(daemon) && !pod.node.is_empty())
        };
        let due: Vec<Daemon> = self.pods.truth.values().filter(is_due).cloned().collect();
        if due.is_empty() {
            return false;
        }
        let mut daemon = due[self.chance.below(due.len())].clone();
        let (name, is_missing) = (daemon.pod.name.clone(), !exists(&daemon));
        if daemon.pod.is_terminating || is_missing {
            self.note(format!("pod {name} ends"));
            self.pods.remove(&name);
            return true;
        }
        if daemon.pod.node.is_empty() {
            daemon.pod.node = daemon.target;
        } else {
            daemon.pod.phase = Phase::Running;
            (daemon.pod.is_ready, daemon.pod.ready_changed) = (true, Some(self.now()));
            self.note(format!("pod {name} is ready"));
        }
        self.pods.put(&name, daemon);
        true
    }

    /// A pod fails, becomes unready, or is deleted by the user.
    pub fn break_pod(&mut self) {
        let all: Vec<Daemon> = self.pods.truth.values().cloned().collect();
        if all.is_empty() {
            return;
        }
        let mut daemon = all[self.chance.below(all.len())].clone();
        let now = self.now();
        match self.chance.below(4) {
            0 => daemon.pod.is_terminating = true,
            breaks @ (1 | 2) => {
                (daemon.pod.phase, daemon.pod.is_ready) = (Phase::Terminal, false);
                daemon.has_failed = breaks == 1;
            }
            _ => (daemon.pod.is_ready, daemon.pod.ready_changed) = (false, Some(now)),
        }
        let name = daemon.pod.name.clone();
        self.note(format!("pod {name} breaks: {:?}", daemon.pod.phase));
        self.pods.put(&name, daemon);
    }

    /// The informers show some changes.
    pub fn follow(&mut self, most: usize) {
        for (name, _) in self.pods.follow(most) {
            self.expectations.observe(OWNER, &name);
        }
        self.nodes.follow(most);
    }

    pub fn is_current(&self) -> bool {
        self.nodes.is_current() && self.pods.is_current()
    }

    /// A restarted controller manager lists everything.
    pub fn restart(&mut self) {
        self.note("the controller restarts".to_owned());
        (self.expectations, self.backoff) = (Expectations::default(), FailedPodBackoff::default());
        self.nodes.relist();
        self.pods.relist();
    }

    /// Anything that may happen besides the controller.
    pub fn disturb(&mut self) {
        match self.chance.below(10) {
            0 => self.edit(),
            1 if self.has_failures => self.break_pod(),
            2..=4 => drop(self.advance_pod()),
            5..=8 => {
                let most = self.chance.below(6);
                self.follow(most);
            }
            _ => self.seconds += i64::try_from(self.chance.below(6)).unwrap(),
        }
    }

    fn fate(&mut self) -> Fate {
        if self.is_stormy && self.chance.once_in(4) {
            self.disturb();
        }
        self.writes += 1;
        match self.chance.below(60) {
            0 if self.is_stormy => Fate::Crash,
            1 if self.is_stormy => Fate::Lost,
            2 if self.is_stormy => Fate::Refused,
            _ => Fate::Answered,
        }
    }

    pub fn reconcile(&mut self) -> Result<(), Stop> {
        let (set, now) = (self.set.clone(), self.clock());
        for overdue in self.expectations.overdue(OWNER, now) {
            let live = self.pods.truth.get(&*overdue).cloned();
            self.expectations.confirm(OWNER, &overdue, live.as_ref().map(|live| live.pod.seen()), now);
        }
        let cached = &self.pods.cache;
        if !self.expectations.settle(OWNER, |name| cached.get(name).map(|daemon| daemon.pod.seen())) {
            return Ok(());
        }
        if self.is_stormy && self.chance.once_in(4) {
            self.disturb();
        }
        let (nodes, daemons) = (self.nodes.cache.clone(), self.pods.cache.clone());
        let nodes = eligible(&set, nodes.iter());
        let pods: Vec<DaemonPod<'_>> = daemons.values().map(Daemon::view).collect();
        let (hash, key) = (hash(&set), |node: &str| backoff_key(&set, node));
        let pauses: Vec<(&str, Option<Duration>)> =
            nodes.iter().map(|node| (node.name, self.backoff.remaining(&key(node.name), now))).collect();
        let backoff =
            |name: &str| pauses.iter().find(|(node, _)| *node == name).and_then(|(_, pause)| *pause);
        let input =
            Input { set: &set, nodes: &nodes, pods: &pods, hash: &hash, backoff: &backoff, now: self.now() };
        let plan = plan(input);
        let status = status(input);
        plan.ended.iter().for_each(|ended| self.backoff.record(key(ended.node), now));
        let available = pods.iter().filter(|pod| pod.is_available(min_ready(&set), input.now));
        let available = available.map(|pod| pod.replica.name).collect();
        let result = self.apply(&Seen { set: &set, nodes: &nodes, available }, &plan, &hash);
        if let Err(stop @ (Stop::Crash | Stop::Broken(_))) = result {
            return Err(stop);
        }
        if status != set.status {
            let fate = self.fate();
            let has_changed = self.set.metadata.resource_version != set.metadata.resource_version;
            if has_changed || matches!(fate, Fate::Refused) {
                return Err(Stop::Retry);
            }
            self.set.status = status;
            self.set.metadata.resource_version = self.next().into();
            outcome(fate)?;
        }
        result
    }

    fn apply(&mut self, seen: &Seen<'_>, plan: &Plan<'_>, hash: &str) -> Result<(), Stop> {
        let (mut result, mut next) = (Ok(()), plan.create.iter());
        for batch in slow_start(plan.create.len()) {
            for node in next.by_ref().take(batch) {
                match self.create(seen.set, node, hash) {
                    Err(Stop::Retry) => result = Err(Stop::Retry),
                    other => other?,
                }
            }
            if result.is_err() {
                break;
            }
        }
        for pod in &plan.delete {
            match self.delete(seen, pod.name, pod.uid) {
                Err(Stop::Retry) => result = Err(Stop::Retry),
                other => other?,
            }
        }
        result
    }

    fn create(&mut self, set: &DaemonSet, node: &str, hash: &str) -> Result<(), Stop> {
        let (target, uid) = (NODES.into_iter().find(|name| *name == node).unwrap(), self.next());
        let name = format!("agent-{uid}");
        self.expectations.expect(OWNER, &name, Expected::Created, self.clock());
        let fate = self.fate();
        if matches!(fate, Fate::Refused) {
            self.expectations.refused(OWNER, &name);
            return Err(Stop::Retry);
        }
        let pod = ModelPod {
            name: name.clone(),
            uid,
            labels: [(POD_REVISION_LABEL, hash)].into_iter().collect(),
            owner: None,
            node: "",
            phase: Phase::Pending,
            is_terminating: false,
            is_ready: false,
            ready_changed: None,
            created: self.now(),
        };
        let most = if Limits::of(set, 1).surge > 0 { 2 } else { 1 };
        let here = |daemon: &&Daemon| daemon.target == target;
        let live = self.live(target).len();
        let ending = self.pods.truth.values().filter(here).any(|daemon| daemon.pod.phase != Phase::Terminal);
        self.note(format!("creates pod {name} for node {node}"));
        if live + 1 > most || (most == 1 && ending) {
            return Err(Stop::Broken(format!("node {node} has {live} live pods beside the new one")));
        }
        self.pods.put(&name, Daemon { pod, target, has_failed: false });
        outcome(fate)
    }

    fn delete(&mut self, seen: &Seen<'_>, name: &str, uid: &str) -> Result<(), Stop> {
        let expected = Expected::Deleted { uid: uid.into() };
        self.expectations.expect(OWNER, name, expected, self.clock());
        let fate = self.fate();
        if matches!(fate, Fate::Refused) {
            self.expectations.refused(OWNER, name);
            return Err(Stop::Retry);
        }
        self.check_unavailable(seen, name)?;
        if let Some(mut daemon) = self.pods.truth.get(name).cloned() {
            daemon.pod.is_terminating = true;
            self.note(format!("deletes pod {name} on node {}", daemon.target));
            self.pods.put(name, daemon);
        }
        outcome(fate)
    }

    /// The deletion of the only pod of a node, which is available and should run, must leave enough other nodes
    /// available.
    fn check_unavailable(&self, seen: &Seen<'_>, name: &str) -> Result<(), Stop> {
        let Seen { set, nodes, available } = seen;
        let wanted: Vec<&str> =
            nodes.iter().filter(|node| node.eligibility == Eligibility::Run).map(|node| node.name).collect();
        let is_available = |daemon: &DaemonPod<'_>| daemon.is_available(min_ready(set), self.now());
        let Some(to_delete) = self.pods.truth.get(name) else { return Ok(()) };
        let is_last =
            matches!(&*self.live(to_delete.target), [pod] if pod.replica.name == name && is_available(pod));
        if self.has_failures
            || !available.contains(&name)
            || to_delete.pod.is_terminating
            || !is_last
            || !wanted.contains(&to_delete.target)
        {
            return Ok(());
        }
        let unavailable = wanted.iter().filter(|node| !self.live(node).iter().any(is_available)).count() + 1;
        let most = Limits::of(set, i64::try_from(wanted.len()).unwrap()).unavailable;
        if i64::try_from(unavailable).unwrap() > most {
            return Err(Stop::Broken(format!("deletes {name}: {unavailable} nodes unavailable of {most}")));
        }
        Ok(())
    }

    /// The pods for a node that have not ended and are not being deleted.
    fn live(&self, node: &str) -> Vec<DaemonPod<'_>> {
        let here = self.pods.truth.values().filter(|daemon| daemon.target == node);
        here.map(Daemon::view).filter(|daemon| daemon.replica.is_active()).collect()
    }

    /// Whether each node has the pods that it should have.
    pub fn check_goal(&self) -> Result<(), String> {
        let is_updated = |daemon: &&Daemon| daemon.view().is_updated(&hash(&self.set));
        let keeps_old = &*self.set.spec.update_strategy.r#type == "OnDelete";
        let nodes = eligible(&self.set, self.nodes.truth.iter());
        for node in &nodes {
            let here: Vec<&Daemon> = self.pods.truth.values().filter(|pod| pod.target == node.name).collect();
            let is_right = match node.eligibility {
                Eligibility::Run => {
                    here.len() == 1 && here[0].pod.is_ready && (keeps_old || here.iter().all(is_updated))
                }
                Eligibility::Continue => here.len() <= 1,
                Eligibility::Stop => here.is_empty(),
            };
            if !is_right {
                return Err(format!("{node:?} has {here:?}"));
            }
        }
        let stray = self.pods.truth.values().find(|pod| !self.nodes.truth.contains_key(pod.target));
        if let Some(stray) = stray {
            return Err(format!("{stray:?} has no node"));
        }
        let wanted = nodes.iter().filter(|node| node.eligibility == Eligibility::Run).count();
        let status = &self.set.status;
        let counts =
            [status.desired_number_scheduled, status.current_number_scheduled, status.number_available];
        if counts != [i64::try_from(wanted).unwrap(); 3] || status.number_unavailable != 0 {
            return Err(format!("{status:?}"));
        }
        Ok(())
    }
}

fn eligible<'a>(
    set: &DaemonSet,
    nodes: impl Iterator<Item = (&'a String, &'a ModelNode)>,
) -> Vec<DaemonNode<'a>> {
    let placement = Placement::of(&set.spec.template.spec);
    let on = |(name, node): (&'a String, &'a ModelNode)| DaemonNode {
        name,
        eligibility: placement.on_node(name, &node.labels, &node.taints),
    };
    nodes.map(on).collect()
}

fn hash(set: &DaemonSet) -> String {
    format!("image-{}", set.metadata.annotations.get("image").unwrap_or_default())
}

fn backoff_key(set: &DaemonSet, node: &str) -> BackoffKey {
    BackoffKey { uid: OWNER.into(), generation: set.status.observed_generation, node: node.into() }
}
