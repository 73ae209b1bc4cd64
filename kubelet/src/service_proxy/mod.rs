//! Service proxy: makes the addresses of Services work on this node, by packet rules.
//!
//! [`plan`] computes the rules from the Services and their EndpointSlices. The loop here applies them after each
//! change, and again when another program has changed packet rules. [`health_check`] answers load balancers that ask
//! whether this node has endpoints.

mod health_check;
mod plan;

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use client::backoff::Backoff;
use tokio::sync::watch;

use self::health_check::HealthChecks;
use self::plan::{NodeFacts, plan};
use crate::cluster::services::ServiceSnapshot;
use crate::disk;
use crate::network::native::{self, Native};
use crate::network::nft::services::{Applied, ServiceNode, ServiceRules, ServiceTable};
use crate::network::nft::{Error, Watch};
use crate::network::record_event;
use crate::report::{Outbox, Severity};

/// First delay after a failure. It doubles with each further one.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Interval of full checks. Pod CIDRs and kernel settings may change without a notification.
const RESYNC_INTERVAL: Duration = Duration::from_secs(60);
/// Settings of the kernel that pass frames between pods through the rules for IP.
const BRIDGE_SETTINGS: [&str; 2] =
    ["/proc/sys/net/bridge/bridge-nf-call-iptables", "/proc/sys/net/bridge/bridge-nf-call-ip6tables"];

/// What the service proxy of a node depends on.
pub struct ServiceProxy {
    /// The node's name.
    pub node: String,
    /// The zone of the node; empty if it has none.
    pub zone: String,
    /// The pod network.
    pub native: Arc<Native>,
    /// The Services of the cluster.
    pub services: watch::Receiver<Arc<ServiceSnapshot>>,
    /// Receives events of the node.
    pub outbox: Arc<Outbox>,
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

/// The result of one application.
struct Outcome {
    table: Option<ServiceTable>,
    result: Result<Applied, Error>,
}

impl ServiceProxy {
    /// Serves Services until the kubelet stops. The rules stay in the kernel after that.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let mut health_checks = HealthChecks::default();
        let (mut table, mut failure) = (None, None);
        let mut planned: Option<(Arc<ServiceSnapshot>, NodeFacts, Arc<ServiceRules>)> = None;
        let mut rules_watch = None;
        loop {
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
                let is_current = planned
                    .as_ref()
                    .is_some_and(|(of, with, _)| Arc::ptr_eq(of, &snapshot) && *with == facts);
                if !is_current {
                    let plan = plan(&snapshot, &facts);
                    health_checks.set(plan.health_checks);
                    planned = Some((snapshot, facts, Arc::new(plan.rules)));
                }
                if let Some((_, facts, rules)) = &planned {
                    let outcome = self.apply(table.take(), facts, rules.clone()).await;
                    table = outcome.table;
                    delay = if outcome.result.is_ok() {
                        backoff.reset();
                        RESYNC_INTERVAL
                    } else {
                        backoff.next_delay()
                    };
                    self.report(outcome.result, &mut failure);
                }
            }
            tokio::select! {
                changed = self.services.changed() => if changed.is_err() { return },
                () = changed(&mut rules_watch) => {}
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    fn facts(&self) -> NodeFacts {
        NodeFacts { name: self.node.clone(), zone: self.zone.clone(), cidrs: self.native.all_pod_cidrs() }
    }

    async fn apply(
        &self,
        table: Option<ServiceTable>,
        facts: &NodeFacts,
        rules: Arc<ServiceRules>,
    ) -> Outcome {
        let (node, cidrs) = (self.node.clone(), facts.cidrs.clone());
        disk::run(move || {
            let opened = table.map_or_else(ServiceTable::open, Ok);
            let mut table = match opened {
                Ok(table) => table,
                Err(error) => return Outcome { table: None, result: Err(error) },
            };
            let name = table_of(&node);
            let filters_bridged = BRIDGE_SETTINGS
                .iter()
                .all(|path| fs::read_to_string(path).is_ok_and(|value| value.trim() == "1"));
            let node = ServiceNode { name, bridge: native::bridge_of(&node), cidrs, filters_bridged };
            let result = table.apply(&node, &rules);
            Outcome { table: Some(table), result }
        })
        .await
    }

    /// Reports a failure once, its end, and changes by other programs.
    fn report(&self, result: Result<Applied, Error>, failure: &mut Option<String>) {
        let note = |severity, reason, text| record_event(&self.outbox, &self.node, severity, reason, text);
        match result {
            Ok(applied) => {
                if failure.take().is_some() {
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
                tracing::debug!(
                    elements = applied.elements,
                    is_new = applied.is_new,
                    "packet rules of Services are current"
                );
            }
            Err(error) => {
                let text = format!("{error}; retrying, and see --service-proxy none");
                if failure.as_ref() != Some(&text) {
                    note(Severity::Warning, "ServiceProxyFailed", text.clone());
                }
                *failure = Some(text);
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
