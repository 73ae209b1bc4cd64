//! Service proxy: makes the addresses of Services work on this node, by packet rules.
//!
//! [`plan()`] computes the rules from the Services and their EndpointSlices. The loop here applies them after each
//! change, and again when another program has changed packet rules. [`health_check`] answers load balancers that ask
//! whether this node has endpoints.

mod health_check;
mod plan;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use client::backoff::Backoff;
use tokio::sync::watch;
use tokio::time::Instant;

use self::health_check::HealthChecks;
use self::plan::{NodeFacts, Plan, plan};
use crate::cluster::services::{ServiceName, ServiceSnapshot};
use crate::disk;
use crate::network::native::{self, Native};
use crate::network::nft::services::{AFFINITY_SIZE, Applied, ServiceNode, ServiceRules, ServiceTable};
use crate::network::nft::{Error, Watch};
use crate::network::record_event;
use crate::report::{Outbox, Severity};

/// First delay after a failure. It doubles with each further one.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Interval of full checks. Pod CIDRs and kernel settings may change without a notification.
const RESYNC_INTERVAL: Duration = Duration::from_secs(60);
/// Shortest time between two plans, the default of a stock kube-proxy. The first change after a pause is planned at
/// once.
const MIN_PLAN_INTERVAL: Duration = Duration::from_secs(1);
/// A plan and its application take at most one part of this many of the time.
const PLAN_SHARE: u32 = 10;
/// Settings of the kernel that pass frames between pods through the rules for IP.
const BRIDGE_SETTINGS: [&str; 2] =
    ["/proc/sys/net/bridge/bridge-nf-call-iptables", "/proc/sys/net/bridge/bridge-nf-call-ip6tables"];

/// What the service proxy of a node depends on.
pub struct ServiceProxy {
    /// The node's name.
    pub node: String,
    /// The zone of the node; empty if it has none.
    pub zone: watch::Receiver<String>,
    /// The pod network.
    pub native: Arc<Native>,
    /// The Services of the cluster.
    pub services: watch::Receiver<Arc<ServiceSnapshot>>,
    /// Receives events of the node.
    pub outbox: Arc<Outbox>,
    /// Becomes true when the service proxy must stop.
    pub stopped: watch::Receiver<bool>,
}

/// The name of a node's table.
pub fn table_of(node: &str) -> String {
    native::services_table_of(&native::bridge_of(node))
}

/// Removes the table of a node, for a kubelet that does not serve Services.
///
/// # Errors
/// If the kernel rejects the change.
pub async fn remove(node: &str) -> io::Result<()> {
    let table = table_of(node);
    let removed = disk::run(move || ServiceTable::open().and_then(|mut open| open.remove(&table)));
    removed.await.map_err(io::Error::other)
}

/// The plan for a snapshot.
#[derive(Clone)]
struct Planned {
    snapshot: Arc<ServiceSnapshot>,
    facts: Arc<NodeFacts>,
    rules: Arc<ServiceRules>,
    health_checks: Arc<BTreeMap<u16, (Arc<ServiceName>, usize)>>,
}

impl Planned {
    fn new(snapshot: Arc<ServiceSnapshot>, facts: Arc<NodeFacts>) -> Self {
        let Plan { rules, health_checks } = plan(&snapshot, &facts);
        Self { snapshot, facts, rules: Arc::new(rules), health_checks: Arc::new(health_checks) }
    }
}

/// The result of one application.
struct Outcome {
    table: Option<ServiceTable>,
    planned: Planned,
    result: Result<Applied, Error>,
}

/// What was reported and still lasts.
#[derive(Default)]
struct Reported {
    failure: Option<String>,
    is_affinity_full: bool,
}

impl ServiceProxy {
    /// Serves Services until the kubelet stops. The rules stay in the kernel after that.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let (outbox, node) = (self.outbox.clone(), self.node.clone());
        let mut health_checks = HealthChecks::new(move |text| {
            record_event(&outbox, &node, Severity::Warning, "FailedToStartServiceHealthcheck", text);
        });
        let (mut table, mut reported) = (None, Reported::default());
        let mut planned: Option<Planned> = None;
        let mut next_plan = Instant::now();
        let mut rules_watch = None;
        while !*self.stopped.borrow() {
            let snapshot = self.services.borrow_and_update().clone();
            let mut delay = RESYNC_INTERVAL;
            if snapshot.is_known {
                // The subscription comes before the check of the rules, so that no change is missed.
                if rules_watch.is_none() {
                    let opened = Watch::new().inspect_err(|error| {
                        tracing::warn!(%error, "cannot watch the packet rules of Services; checking them once a minute");
                    });
                    rules_watch = opened.ok();
                }
                let facts = self.facts();
                let start = Instant::now();
                let is_current =
                    |planned: &Planned| Arc::ptr_eq(&planned.snapshot, &snapshot) && *planned.facts == facts;
                let usable = planned.take().filter(|planned| is_current(planned) || start < next_plan);
                let is_outdated = usable.as_ref().is_some_and(|planned| !is_current(planned));
                let is_new = usable.is_none();
                let outcome = self.apply(table.take(), usable, snapshot, facts).await;
                if is_new {
                    next_plan = start + (start.elapsed() * PLAN_SHARE).max(MIN_PLAN_INTERVAL);
                }
                table = outcome.table;
                health_checks.set(&outcome.planned.health_checks, outcome.result.is_ok());
                planned = Some(outcome.planned);
                if outcome.result.as_ref().is_ok_and(|applied| !applied.is_incomplete) {
                    backoff.reset();
                } else {
                    delay = backoff.next_delay();
                }
                if is_outdated {
                    delay = delay.min(next_plan.saturating_duration_since(Instant::now()));
                }
                self.report(outcome.result, &mut reported);
            }
            tokio::select! {
                changed = self.services.changed() => if changed.is_err() { return },
                // The zone of a lone node never changes, and its sender is closed.
                Ok(()) = self.zone.changed() => {}
                stopped = self.stopped.changed() => if stopped.is_err() { return },
                () = changed(&mut rules_watch) => {}
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    fn facts(&mut self) -> NodeFacts {
        let zone = self.zone.borrow_and_update().clone();
        NodeFacts { name: self.node.clone(), zone, cidrs: self.native.all_pod_cidrs() }
    }

    /// Applies the plan, or a new one without it. Planning may take long, so it belongs on a blocking thread as well.
    async fn apply(
        &self,
        table: Option<ServiceTable>,
        planned: Option<Planned>,
        snapshot: Arc<ServiceSnapshot>,
        facts: NodeFacts,
    ) -> Outcome {
        let node = self.node.clone();
        disk::run(move || {
            let planned = planned.unwrap_or_else(|| Planned::new(snapshot, Arc::new(facts)));
            let opened = table.map_or_else(ServiceTable::open, Ok);
            let mut table = match opened {
                Ok(table) => table,
                Err(error) => return Outcome { table: None, planned, result: Err(error) },
            };
            let name = table_of(&node);
            let filters_bridged = BRIDGE_SETTINGS
                .iter()
                .all(|path| fs::read_to_string(path).is_ok_and(|value| value.trim() == "1"));
            let cidrs = planned.facts.cidrs.clone();
            let node = ServiceNode { name, bridge: native::bridge_of(&node), cidrs, filters_bridged };
            let result = table.apply(&node, &planned.rules);
            Outcome { table: Some(table), planned, result }
        })
        .await
    }

    /// Reports a failure once, its end, changes by other programs, and that there is no space for more clients.
    fn report(&self, result: Result<Applied, Error>, reported: &mut Reported) {
        let note = |severity, reason, text| record_event(&self.outbox, &self.node, severity, reason, text);
        match result {
            Ok(applied) => {
                if reported.failure.take().is_some() {
                    note(Severity::Normal, "ServiceProxyRecovered", "Services work again".to_owned());
                }
                if applied.was_changed {
                    let table = table_of(&self.node);
                    let text = format!(
                        "another program changed the packet rules of Services (table inet {table}): they \
                         were restored"
                    );
                    note(Severity::Warning, "ServiceProxyRepaired", text);
                }
                if let Some(is_full) = applied.is_affinity_full {
                    if is_full && !reported.is_affinity_full {
                        let text = format!(
                            "there is no space for more clients with session affinity ({AFFINITY_SIZE} per IP family): \
                             each new connection of further clients goes to a random endpoint"
                        );
                        note(Severity::Warning, "SessionAffinityFull", text);
                    }
                    reported.is_affinity_full = is_full;
                }
                tracing::debug!(
                    elements = applied.elements,
                    is_new = applied.is_new,
                    "packet rules of Services are current"
                );
            }
            Err(error) => {
                let text = format!("{error}; retrying, and see --service-proxy none");
                if reported.failure.as_ref() != Some(&text) {
                    note(Severity::Warning, "ServiceProxyFailed", text.clone());
                }
                reported.failure = Some(text);
            }
        }
    }
}

/// Waits until a program has changed packet rules. Without a subscription, waits forever.
async fn changed(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
