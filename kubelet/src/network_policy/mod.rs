//! Enforces NetworkPolicies on the pods of this node, by packet rules.
//!
//! [`plan()`] computes the rules from the policies of the cluster and the pods. The loop here applies them after each
//! change, and again when another program has changed packet rules. A new pod is connected to the bridge only after
//! the rules cover it.

mod local;
mod plan;
mod unenforced;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use client::backoff::Backoff;
use tokio::sync::watch;
use tokio::time::Instant;

use self::local::{LocalPods, is_of_local_source};
use self::plan::{LocalPod, demand, plan};
use crate::cluster::policies::{Demand, PolicySnapshot};
use crate::desired::Desired;
use crate::disk;
use crate::network::native::{self, Covered, Native, PolicySandbox, SandboxId};
use crate::network::nft::policies::{Applied, PolicyNode, PolicyRules, PolicyTable};
use crate::network::nft::{Error, Watch};
use crate::network::record_event;
use crate::report::{Outbox, Severity};

pub use self::unenforced::report_unenforced;

/// First delay after a failure. It doubles with each further one.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Interval of full checks.
const RESYNC_INTERVAL: Duration = Duration::from_secs(60);
/// Shortest time between two plans. A new pod of this node is planned at once.
const MIN_PLAN_INTERVAL: Duration = Duration::from_millis(100);
/// Delay before the next plan, as a multiple of the time that the last plan and its application took. A new pod does
/// not wait for it.
const PLAN_SHARE: u32 = 10;
/// How long new pods wait after the start for the policies, if none are stored. Then pods of local sources start
/// without policies, because a node that never had contact to its API server must be able to run static pods. Pods of the
/// API server wait on.
const START_GRACE: Duration = Duration::from_secs(5);
/// How long the rules of an earlier kubelet stay after the start while the labels of a pod are not known yet. After
/// that time, or when all pods are known, the kubelet assumes that the pod no longer exists.
const PODS_GRACE: Duration = Duration::from_secs(10);
/// Settings of the kernel that pass frames between pods through the rules for IP.
const BRIDGE_SETTINGS: [&str; 2] =
    ["/proc/sys/net/bridge/bridge-nf-call-iptables", "/proc/sys/net/bridge/bridge-nf-call-ip6tables"];

/// What the enforcement depends on.
pub struct PolicyEnforcer {
    /// The node's name.
    pub node: String,
    /// The pod network.
    pub native: Arc<Native>,
    /// The policies of the cluster.
    pub policies: watch::Receiver<Arc<PolicySnapshot>>,
    /// Receives which peers must be known.
    pub demand: watch::Sender<Demand>,
    /// The desired pods.
    pub desired: watch::Receiver<Arc<Desired>>,
    /// Receives events of the node.
    pub outbox: Arc<Outbox>,
    /// Becomes true when the enforcement must stop.
    pub stopped: watch::Receiver<bool>,
}

/// Removes the tables of a node, for a kubelet that does not enforce policies.
///
/// # Errors
/// If the kernel rejects the change.
pub async fn remove(node: &str) -> io::Result<()> {
    let table = native::policy_table_of(&native::bridge_of(node));
    let removed = disk::run(move || PolicyTable::open().and_then(|mut open| open.remove(&table)));
    removed.await.map_err(io::Error::other)
}

/// What was reported and still lasts.
#[derive(Default)]
struct Reported {
    failure: Option<String>,
    lacks_bridge: Option<String>,
}

/// The result of one application.
struct Outcome {
    table: Option<PolicyTable>,
    rules: PolicyRules,
    result: Result<Applied, Error>,
}

impl PolicyEnforcer {
    /// Enforces policies until the kubelet stops. The rules stay in the kernel after that.
    pub async fn run(mut self) {
        let start = Instant::now();
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let (mut table, mut reported, mut rules_watch) = (None, Reported::default(), None);
        let mut pods = LocalPods::default();
        let mut sandbox_changes = self.native.sandbox_changes();
        while !*self.stopped.borrow() {
            let snapshot = self.policies.borrow_and_update().clone();
            self.desired.mark_unchanged();
            sandbox_changes.mark_unchanged();
            let began = Instant::now();
            let mut delay = RESYNC_INTERVAL;
            if snapshot.is_known {
                // The subscription comes before the check of the rules, so that no change is missed.
                if rules_watch.is_none() {
                    let opened = Watch::new().inspect_err(|error| {
                        tracing::warn!(%error, "cannot watch the packet rules of NetworkPolicies; checking them once a minute");
                    });
                    rules_watch = opened.ok();
                }
                // A sandbox is created after its pod is desired, so every listed sandbox of a new pod is known then.
                let sandboxes = self.native.policy_sandboxes();
                let desired = self.desired.borrow_and_update().clone();
                if snapshot.policies.is_empty()
                    || pods.knows_all(&sandboxes, &desired)
                    || start.elapsed() >= PODS_GRACE
                {
                    let local = pods.update(&sandboxes, &desired);
                    self.store_fields(&pods, &sandboxes).await;
                    self.require(demand(&snapshot, &local));
                    let outcome = self.apply(table.take(), snapshot, local).await;
                    table = outcome.table;
                    self.cover(&sandboxes, &outcome.rules, outcome.result.is_ok());
                    match &outcome.result {
                        Ok(_) => backoff.reset(),
                        Err(_) => delay = backoff.next_delay(),
                    }
                    self.report(outcome.result, &mut reported);
                } else {
                    // The rules of the earlier kubelet stay. They do not matter for namespaces without policies.
                    let is_free = |one: &PolicySandbox| is_without_policies(&snapshot, one);
                    self.cover_only(&sandboxes, is_free);
                    delay = PODS_GRACE.saturating_sub(start.elapsed());
                }
            } else if snapshot.is_forbidden {
                self.native.set_policy_coverage(Covered::All);
            } else if start.elapsed() >= START_GRACE {
                let desired = self.desired.borrow_and_update().clone();
                let is_local = |one: &PolicySandbox| is_of_local_source(&desired, &one.uid);
                self.cover_only(&self.native.policy_sandboxes(), is_local);
            } else {
                delay = START_GRACE.saturating_sub(start.elapsed());
            }
            let next_plan = Instant::now() + (began.elapsed() * PLAN_SHARE).max(MIN_PLAN_INTERVAL);
            let is_new_pod = tokio::select! {
                changed = sandbox_changes.changed() => { if changed.is_err() { return } true }
                changed = self.policies.changed() => { if changed.is_err() { return } false }
                changed = self.desired.changed() => { if changed.is_err() { return } false }
                stopped = self.stopped.changed() => { if stopped.is_err() { return } true }
                () = changed(&mut rules_watch) => false,
                () = tokio::time::sleep(delay) => true,
            };
            // Further changes are planned together, but a new pod does not wait.
            if !is_new_pod {
                tokio::select! {
                    changed = sandbox_changes.changed() => if changed.is_err() { return },
                    stopped = self.stopped.changed() => if stopped.is_err() { return },
                    () = tokio::time::sleep_until(next_plan) => {}
                }
            }
        }
    }

    /// Plans and applies the rules. Planning may take long, so it belongs on a blocking thread as well.
    async fn apply(
        &self,
        table: Option<PolicyTable>,
        snapshot: Arc<PolicySnapshot>,
        local: Vec<LocalPod>,
    ) -> Outcome {
        let node = self.node.clone();
        disk::run(move || {
            let rules = plan(&snapshot, &node, &local);
            let mut table = match table.map_or_else(PolicyTable::open, Ok) {
                Ok(table) => table,
                Err(error) => return Outcome { table: None, rules, result: Err(error) },
            };
            let name = native::policy_table_of(&native::bridge_of(&node));
            let policy_node = PolicyNode { name, bridge_mac: native::bridge_mac_of(&node) };
            let result = table.apply(&policy_node, &rules);
            Outcome { table: Some(table), rules, result }
        })
        .await
    }

    fn require(&self, demand: Demand) {
        self.demand.send_if_modified(|known| std::mem::replace(known, demand) != demand);
    }

    /// Lets covered sandboxes connect. If the rules could not be set, these are the ones that no policy isolates.
    fn cover(&self, sandboxes: &[PolicySandbox], rules: &PolicyRules, is_applied: bool) {
        let isolated: BTreeSet<&str> = rules.pods.iter().map(|pod| pod.port.as_str()).collect();
        self.cover_only(sandboxes, |one| is_applied || !isolated.contains(one.port.as_str()));
    }

    fn cover_only(&self, sandboxes: &[PolicySandbox], is_covered: impl Fn(&PolicySandbox) -> bool) {
        let covered = sandboxes.iter().filter(|one| is_covered(one));
        let ids: BTreeSet<SandboxId> = covered.map(|one| one.id.clone()).collect();
        self.native.set_policy_coverage(Covered::Only(Arc::new(ids)));
    }

    /// Stores the fields of pods on which policies depend, for the next kubelet.
    async fn store_fields(&self, pods: &LocalPods, sandboxes: &[PolicySandbox]) {
        let unstored = pods.unstored(sandboxes);
        if unstored.is_empty() {
            return;
        }
        if let Err(error) = self.native.store_policy_fields(unstored).await {
            tracing::warn!(%error, "cannot store the labels of pods; after a restart, all NetworkPolicies of their \
                 namespaces select them until their manifests are known");
        }
    }

    /// Reports a failure once, its end, and changes by other programs.
    fn report(&self, result: Result<Applied, Error>, reported: &mut Reported) {
        let note = |severity, reason, text| record_event(&self.outbox, &self.node, severity, reason, text);
        match result {
            Ok(applied) => {
                if reported.failure.take().is_some() {
                    let text = "NetworkPolicies are enforced again".to_owned();
                    note(Severity::Normal, "NetworkPolicyRecovered", text);
                }
                if applied.was_changed {
                    let table = native::policy_table_of(&native::bridge_of(&self.node));
                    let text = format!(
                        "another program changed the packet rules of NetworkPolicies (tables {table}): they were restored"
                    );
                    note(Severity::Warning, "NetworkPolicyRepaired", text);
                }
                let lacks_bridge = applied.lacks_bridge.filter(|_| !passes_bridged_frames());
                if let Some(why) = lacks_bridge.as_ref().filter(|_| reported.lacks_bridge.is_none()) {
                    let text = format!(
                        "NetworkPolicies do not apply between pods of this node: {why}. Load the module br_netfilter, and \
                         set net.bridge.bridge-nf-call-iptables and bridge-nf-call-ip6tables to 1"
                    );
                    note(Severity::Warning, "NetworkPolicyIncomplete", text);
                }
                reported.lacks_bridge = lacks_bridge;
            }
            Err(error) => {
                let text = format!("NetworkPolicies on this node are not up to date: {error}; retrying");
                if reported.failure.as_ref() != Some(&text) {
                    note(Severity::Warning, "NetworkPolicyFailed", text.clone());
                }
                reported.failure = Some(text);
            }
        }
    }
}

/// Whether the namespace of a sandbox is known and has no policies.
fn is_without_policies(snapshot: &PolicySnapshot, sandbox: &PolicySandbox) -> bool {
    let of_record = || sandbox.pod.split_once('/').map(|(namespace, _)| namespace);
    let stored = sandbox.fields.as_ref().map(|fields| fields.namespace.as_str());
    let has_policies = |namespace| snapshot.policies.keys().any(|(of, _)| of == namespace);
    stored.or_else(of_record).is_some_and(|namespace| !has_policies(namespace))
}

/// Whether frames between pods pass the rules for IP.
fn passes_bridged_frames() -> bool {
    BRIDGE_SETTINGS.iter().all(|path| fs::read_to_string(path).is_ok_and(|value| value.trim() == "1"))
}

/// Waits until a program has changed packet rules. Without a subscription, waits forever.
async fn changed(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
