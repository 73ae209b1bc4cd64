//! Nodes that are silent are told so, what nodes say becomes taints, and nodes that stay away lose their pods one after another
//! (`docs/node-lifecycle.md`).
//!
//! A sign of life is a lease that changed or a heartbeat of the Node; each is heard as it comes, and a node is looked at when
//! its grace would be over. Nothing follows from silence while nothing can be heard.

mod beats;
mod conditions;
mod key;
mod taints;
mod zones;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;

pub use self::conditions::Ready;
pub use self::taints::{NO_EXECUTE, ending};

use self::beats::Beats;
use self::key::Key;
use self::taints::{Plan, Turn};
use self::zones::{News, Place, Zones};
use super::agenda::Next;
use super::awake::{Awake, PULSE};
use super::client::{Client, Error, Json, Kind};
use super::object::{Object, at, text};
use super::queue::{Controller, Queue};
use super::tell::{Told, tell};
use super::world::{Change, World};
use crate::options::NodeLifecycle;

/// Its name in `--controllers`, that of the stock one.
pub const NAME: &str = "node-lifecycle-controller";
/// Who tells of it, as in a stock cluster.
const TELLS: &str = "node-controller";
/// Where nodes have their leases.
const LEASES: &str = "kube-node-lease";
/// How long a node may take to say anything at all; the stock `--node-startup-grace-period`.
const STARTUP: Duration = Duration::from_secs(60);
/// Nodes and pods that are looked at at once; the stock controller's.
const WORKERS: usize = 8;

/// The controller.
#[derive(Debug)]
pub struct Lifecycle {
    client: Client,
    reader: Client,
    world: World,
    grace: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    beats: Beats,
    awake: Awake,
    zones: Zones,
}

impl Lifecycle {
    /// Looks after the Nodes of that world; who reads everything asks for leases.
    pub fn new(client: Client, reader: Client, world: World, wanted: &NodeLifecycle) -> Self {
        let pulse = PULSE.min(wanted.grace / 10);
        let zones = Zones::new(wanted.eviction_pace, wanted.grace);
        let state = State { beats: Beats::default(), awake: Awake::new(pulse), zones };
        Self { client, reader, world, grace: wanted.grace, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when every sign of life is heard; `None` while none is.
    fn hears_since(&self) -> Option<Instant> {
        let (nodes, leases) = (self.world.followed(&Kind::NODE)?, self.world.followed(&Kind::LEASE)?);
        Some(self.state().awake.at_earliest(nodes.max(leases)))
    }

    fn hear_lease(&self, change: &Change) {
        if let Some(lease) = change.now.as_ref().filter(|lease| lease.namespace == LEASES) {
            self.state().beats.renewed(&lease.name, Instant::now());
        }
    }

    fn hear_node(&self, change: &Change, queue: &Queue) {
        let now = Instant::now();
        let Some(node) = &change.now else {
            let Some(gone) = &change.before else { return };
            let mut state = self.state();
            state.beats.forget(&gone.name);
            let zone = state.zones.zone_of(&gone.name).map(str::to_owned);
            let news = state.zones.remove(&gone.name);
            drop(state);
            self.follow(news, [zone, None], queue);
            return;
        };
        let before = change.before.as_ref().map(|before| &before.kept);
        let (was, is) = (before.map(Ready::of), Ready::of(&node.kept));
        let mut state = self.state();
        state.beats.meet(&node.name, now);
        if before.is_some_and(|before| conditions::heartbeat(before) != conditions::heartbeat(&node.kept)) {
            state.beats.heard(&node.name, now);
        }
        let place = Place::of(&node.kept, is == Ready::Yes);
        let zone = place.zone.clone();
        let left = state.zones.zone_of(&node.name).filter(|left| *left != zone).map(str::to_owned);
        let news = state.zones.put(&node.name, place);
        // Whichever master wrote it, and when it did where that was before this one looked.
        match before {
            Some(before) if !taints::ends(before) && taints::ends(&node.kept) => {
                state.zones.done(&node.name, now);
            }
            Some(_) => {}
            None => {
                let age = taints::ended_since(&node.kept).map(|since| Timestamp::now().duration_since(since));
                // A clock that is wrong makes it just now at the latest.
                let age = age.map(|age| age.max(SignedDuration::ZERO).unsigned_abs());
                if let Some(at) = age.and_then(|age| now.checked_sub(age)) {
                    state.zones.done(&node.name, at);
                }
            }
        }
        drop(state);
        self.follow(news, [left, Some(zone)], queue);
        queue.add(&Key::Node(&node.name).write());
        if before.is_none() {
            queue.add(&Key::Pulse.write());
        }
        if is == Ready::Unknown && was != Some(is) {
            let pods = self.world.pods_on(&node.name);
            pods.iter().for_each(|pod| queue.add(&Key::Pod(&pod.namespace, &pod.name).write()));
        }
    }

    /// A pod that comes to a node which nobody hears.
    fn hear_pod(&self, change: &Change, queue: &Queue) {
        let Some(pod) = &change.now else { return };
        let came = change.before.as_ref().is_none_or(|before| before.node != pod.node);
        if came && pod.is_ready && self.ready(&pod.node) == Some(Ready::Unknown) {
            queue.add(&Key::Pod(&pod.namespace, &pod.name).write());
        }
    }

    fn follow(&self, news: News, zones: [Option<String>; 2], queue: &Queue) {
        match news {
            News::None => {}
            News::Pace => zones.iter().flatten().for_each(|zone| queue.add(&Key::Zone(zone).write())),
            News::Stopped | News::Resumed => {
                if news == News::Stopped {
                    tracing::info!("no node is ready: none loses its pods until one is");
                } else {
                    tracing::info!("a node is ready again: every other one gets its whole grace");
                    self.state().awake.doubt(Instant::now());
                }
                for node in self.world.list(&Kind::NODE, "") {
                    queue.add(&Key::Node(&node.name).write());
                }
            }
        }
    }

    fn ready(&self, node: &str) -> Option<Ready> {
        self.world.get(&Kind::NODE, "", node).map(|node| Ready::of(&node.kept))
    }

    /// Looks whether nodes can be heard: a master whose store is away hears none, and serves what it knows all the same.
    async fn beat(&self) -> Next {
        if let Err(error) = self.reader.is_ready().await {
            tracing::debug!(%error, "no node can be heard now");
            self.state().awake.doubt(Instant::now());
        }
        let has_nodes = !self.world.list(&Kind::NODE, "").is_empty();
        let pulse = self.state().awake.pulse();
        if has_nodes { Next::In(pulse) } else { Next::Change }
    }

    async fn look_at_node(&self, name: &str, queue: &Queue) -> Result<Next, Error> {
        let Some(seen) = self.world.get(&Kind::NODE, "", name) else { return Ok(Next::Change) };
        let left = self.left(&seen);
        self.settle(&seen, left, queue).await?;
        match left {
            Some(left) => Ok(Next::In(left)),
            None if conditions::silenced(&seen.kept, Timestamp::UNIX_EPOCH).is_none() => Ok(Next::Change),
            None => self.silence(&seen).await,
        }
    }

    /// How long a node may still be silent, or until it is known how long; nothing when it was for too long.
    fn left(&self, seen: &Object) -> Option<Duration> {
        let Some(since) = self.hears_since() else { return Some(PULSE) };
        let grace = if Ready::of(&seen.kept) == Ready::Unsaid { STARTUP.max(self.grace) } else { self.grace };
        self.state().beats.left(&seen.name, since, grace, Instant::now())
    }

    /// Tells that a node is silent, if it is.
    async fn silence(&self, seen: &Object) -> Result<Next, Error> {
        let asked = self.ask(seen).await;
        if asked.is_err() {
            // Nodes may not have been able to say anything either.
            self.state().awake.doubt(Instant::now());
        }
        let Some(mut node) = asked? else {
            self.state().beats.renewed(&seen.name, Instant::now());
            return Ok(Next::In(self.grace));
        };
        let was = Ready::of(&node);
        let Some(conditions) = conditions::silenced(&node, Timestamp::now()) else { return Ok(Next::Change) };
        if let Some(status) = node.entry("status").or_insert_with(|| json!({})).as_object_mut() {
            status.insert("conditions".to_owned(), conditions.into());
        }
        let uid = text(at(&node, "/metadata/uid"));
        let written = self.client.update(&Kind::NODE, "status", node).await;
        if written.as_ref().is_err_and(|error| !error.is_conflict()) {
            self.state().awake.doubt(Instant::now());
        }
        written?;
        let (name, grace) = (&seen.name, self.grace.as_secs());
        tracing::warn!(node = name, grace, "a node was not heard for its whole grace");
        if was == Ready::Yes {
            let message = format!("Node {name} status is now: NodeNotReady");
            self.tell(&Kind::NODE, "", name, &uid, (false, "NodeNotReady", &message)).await;
        }
        Ok(Next::Change)
    }

    /// The Node of one that is silent as far as was heard; `None` when the server knows of a sign of life that was not.
    async fn ask(&self, seen: &Object) -> Result<Option<Json>, Error> {
        let name = &seen.name;
        let lease = self.reader.named(&Kind::LEASE, LEASES, name).await?;
        let lease = lease.map(|lease| text(at(&lease, "/metadata/resourceVersion")));
        let heard = self.world.get(&Kind::LEASE, LEASES, name).map(|lease| lease.revision.clone());
        let node = self.client.find(&Kind::NODE, "", name).await?;
        let is_silent =
            |node: &Json| lease == heard && conditions::heartbeat(node) == conditions::heartbeat(&seen.kept);
        Ok(node.filter(is_silent))
    }

    /// Puts the taints of a node that come at once, and has it wait for those that do not.
    async fn settle(&self, seen: &Object, left: Option<Duration>, queue: &Queue) -> Result<(), Error> {
        let (turn, plan, zone) = self.planned(seen, left);
        if let Some(zone) = zone {
            queue.add(&Key::Zone(&zone).write());
        }
        if !plan.is_done() {
            self.taint(&seen.name, turn).await?;
        }
        Ok(())
    }

    /// What is to be done about the taints of a node, and in which zone it waits if it does.
    fn planned(&self, seen: &Object, left: Option<Duration>) -> (Turn, Plan, Option<String>) {
        let zones = &mut self.state().zones;
        let turn = if zones.is_stopped() { Turn::Never } else { Turn::Wait };
        let plan = taints::plan(&seen.kept, turn);
        let waits = plan.waits && !may_speak(seen, left);
        if waits {
            zones.wait(&seen.name, Instant::now());
        } else {
            zones.leave(&seen.name);
        }
        let zone = zones.zone_of(&seen.name).filter(|_| waits).map(str::to_owned);
        (turn, plan, zone)
    }

    /// Writes the taints of a node as it is now; whether it has one then that ends its pods.
    async fn taint(&self, name: &str, turn: Turn) -> Result<bool, Error> {
        let Some(mut node) = self.client.find(&Kind::NODE, "", name).await? else { return Ok(false) };
        let (plan, mut ends) = (taints::plan(&node, turn), taints::ends(&node));
        if !plan.is_done() {
            taints::write(&mut node, &plan, Timestamp::now());
            ends = taints::ends(&node);
            self.client.update(&Kind::NODE, "", node).await?;
            tracing::info!(node = name, add = ?plan.add, remove = ?plan.remove, "the taints of a node follow what it says");
        }
        Ok(ends)
    }

    async fn look_at_zone(&self, zone: &str, queue: &Queue) -> Result<Next, Error> {
        loop {
            let next = self.state().zones.next(zone, Instant::now());
            let node = match next {
                zones::Next::Now(node) => node,
                zones::Next::In(pause) => return Ok(Next::In(pause)),
                zones::Next::Never => return Ok(Next::Change),
            };
            let seen = self.world.get(&Kind::NODE, "", &node);
            if seen.is_some_and(|seen| may_speak(&seen, self.left(&seen))) {
                // Since it began to wait there was a time when it could not be heard.
                self.state().zones.leave(&node);
                queue.add(&Key::Node(&node).write());
                continue;
            }
            let ends = self.taint(&node, Turn::Now).await?;
            let mut state = self.state();
            if ends {
                state.zones.done(&node, Instant::now());
            } else {
                state.zones.leave(&node);
            }
        }
    }

    /// Says of a pod whose node is silent that it is not ready.
    async fn look_at_pod(&self, namespace: &str, name: &str) -> Result<Next, Error> {
        let Some(pod) = self.client.find(&Kind::POD, namespace, name).await? else { return Ok(Next::Change) };
        if self.ready(&text(at(&pod, "/spec/nodeName"))) != Some(Ready::Unknown) {
            return Ok(Next::Change);
        }
        let Some(condition) = conditions::unready(&pod, Timestamp::now()) else { return Ok(Next::Change) };
        let (uid, revision) = (text(at(&pod, "/metadata/uid")), text(at(&pod, "/metadata/resourceVersion")));
        let patch = json!({
            "metadata": {"uid": uid, "resourceVersion": revision}, "status": {"conditions": [condition]},
        });
        self.client.patch_part(&Kind::POD, namespace, name, "status", patch).await?;
        self.tell(&Kind::POD, namespace, name, &uid, (true, "NodeNotReady", "Node is not ready")).await;
        Ok(Next::Change)
    }

    async fn tell(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        (is_warning, reason, message): (bool, &str, &str),
    ) {
        let told = Told { kind, namespace, name, uid, is_warning, reason, message, component: TELLS };
        tell(&self.client, told).await;
    }
}

#[async_trait]
impl Controller for Lifecycle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if change.kind.is(&Kind::LEASE) {
            self.hear_lease(change);
        } else if change.kind.is(&Kind::NODE) {
            self.hear_node(change, queue);
        } else if change.kind.is(&Kind::POD) {
            self.hear_pod(change, queue);
        }
    }

    async fn look(&self, key: &str, queue: &Queue) -> Result<Next, Error> {
        self.state().awake.look(Instant::now());
        match Key::read(key) {
            Some(Key::Pulse) => Ok(self.beat().await),
            Some(Key::Node(name)) => self.look_at_node(name, queue).await,
            Some(Key::Zone(zone)) => self.look_at_zone(zone, queue).await,
            Some(Key::Pod(namespace, name)) => self.look_at_pod(namespace, name).await,
            None => Ok(Next::Change),
        }
    }
}

/// Whether a node that was silent has a part of its grace left, as when nobody could hear it; it waits for no turn meanwhile.
fn may_speak(seen: &Object, left: Option<Duration>) -> bool {
    left.is_some() && Ready::of(&seen.kept) == Ready::Unknown
}

#[cfg(test)]
mod tests;
