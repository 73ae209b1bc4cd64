//! Reconciler of the pod network. It repairs the bridge, veths, rules and routes when another program changes them,
//! and applies the cluster membership.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use client::backoff::Backoff;
use tokio::sync::watch;
use tokio::time::Instant;

use super::bridge::Missing;
use super::links::Link;
use super::netlink::Netlink;
use super::netlink_events::{Due, NetlinkEvents};
use super::peers::PeerUpdate;
use super::pod_cidr::list;
use super::record::Record;
use super::state::{Key, Process};
use super::{CloseResult, Native, packet_rules};
use crate::network::nft::Watch;
use crate::network::{Members, record_event};
use crate::report::{Outbox, Severity};
use crate::runtime::netns::Namespace;

/// Changes within this time are handled together. They come in groups, including those of the kubelet itself.
const SETTLE_DELAY: Duration = Duration::from_millis(200);
/// First delay after a failed reconcile. It doubles with each failure.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Interval of full resyncs. They are necessary because the kernel does not report all changes of routes and of
/// iptables-legacy.
const RESYNC_INTERVAL: Duration = Duration::from_secs(60);

/// The cluster membership, or `None` while it is not known.
pub type Cluster = watch::Receiver<Option<Arc<Members>>>;
/// Whether the pod network is healthy; otherwise the reason.
pub type Health = watch::Sender<Result<(), String>>;

/// Reconciles on each change until the kubelet stops. `cluster` is `None` for a lone node. Without
/// `serves_new_pods`, only existing pods use this network, and it is removed with the last of them.
pub async fn reconcile(
    native: Arc<Native>,
    outbox: Arc<Outbox>,
    cluster: Option<Cluster>,
    serves_new_pods: bool,
    health: Health,
) {
    let (status, reported) = (Status::default(), BTreeSet::new());
    let mut reconciler = Reconciler { native, outbox, cluster, serves_new_pods, health, status, reported };
    loop {
        match reconciler.run().await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot watch the pod network; retrying");
            }
        }
        tokio::time::sleep(INITIAL_BACKOFF).await;
    }
}

struct Reconciler {
    native: Arc<Native>,
    outbox: Arc<Outbox>,
    cluster: Option<Cluster>,
    /// Whether new pods get addresses in this network.
    serves_new_pods: bool,
    health: Health,
    status: Status,
    /// Warnings that were reported and are still valid.
    reported: BTreeSet<String>,
}

/// The result of the last check of each part.
struct Status {
    links: Result<(), String>,
    rules: Result<(), String>,
    pod_cidrs: Result<(), String>,
    /// Errors of single pods, which do not make the node unhealthy.
    pod_errors: BTreeSet<String>,
    /// Warnings about peer nodes.
    warnings: BTreeSet<String>,
    failed: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        let (pod_errors, warnings) = (BTreeSet::new(), BTreeSet::new());
        Self { links: Ok(()), rules: Ok(()), pod_cidrs: Ok(()), pod_errors, warnings, failed: None }
    }
}

/// The cluster that the node belongs to.
enum ClusterState {
    Standalone,
    /// The node is part of a cluster whose membership is not known yet.
    Unknown,
    Member(Arc<Members>),
}

/// Result of one reconcile. `None` for parts that were not checked.
struct Outcome {
    repaired: Vec<String>,
    links: Option<Result<(), String>>,
    pod_errors: BTreeSet<String>,
    rules: Option<Result<(), String>>,
    peers: Option<PeerUpdate>,
}

impl Reconciler {
    /// Runs until the network is no longer needed.
    async fn run(&mut self) -> io::Result<()> {
        let mut events = NetlinkEvents::subscribe(self.cluster.is_none())?;
        let mut rules = Watch::new().map_err(io::Error::other)?;
        // The first run checks everything, because changes before it were not seen.
        let mut due = Due::ALL;
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let mut retry_delay = INITIAL_BACKOFF;
        let mut wake_at = None;
        loop {
            if !self.serves_new_pods && self.native.state().is_empty() {
                self.tear_down(&mut events).await;
                return Ok(());
            }
            // The membership may have changed while another event was handled.
            due.routes |= self.cluster.as_ref().is_some_and(|cluster| cluster.has_changed().unwrap_or(false));
            let cluster_state = self.cluster_state();
            let outcome = self.native.run(move |native| native.reconcile_once(due, &cluster_state)).await;
            self.record(outcome);
            let has_failed = self.has_failed();
            if due == Due::ALL {
                retry_delay = if has_failed {
                    backoff.next_delay()
                } else {
                    backoff.reset();
                    INITIAL_BACKOFF
                };
                wake_at = None;
            }
            let delay = if has_failed { retry_delay } else { RESYNC_INTERVAL };
            // Other events do not postpone the resync.
            let at = Instant::now() + delay;
            wake_at = Some(wake_at.map_or(at, |next| at.min(next)));
            due = tokio::select! {
                found = events.next(&self.native) => found,
                () = rules.changed() => Due { rules: true, ..Due::default() },
                () = changed(&mut self.cluster) => Due { routes: true, ..Due::default() },
                () = self.native.emptied.notified(), if !self.serves_new_pods => continue,
                () = sleep_until(wake_at) => Due::ALL,
            };
            if due.links || due.routes {
                tokio::time::sleep(SETTLE_DELAY).await;
                due = events.drain(&self.native, due);
            }
        }
    }

    /// Removes the network of earlier pods as soon as none of them is left.
    async fn tear_down(&self, events: &mut NetlinkEvents) {
        self.health.send_if_modified(|known| std::mem::replace(known, Ok(())).is_err());
        let bridge = &self.native.bridge.name;
        let mut before = None;
        loop {
            let closed = self.native.run(Native::close).await.map_err(|error| error.to_string());
            if closed == Ok(CloseResult::Down) {
                tracing::info!(%bridge, "no pod uses the kubelet's pod network any more: it was removed");
                return;
            }
            if before.as_ref() != Some(&closed) {
                match &closed {
                    Ok(closed) => closed.log(bridge),
                    Err(error) => {
                        tracing::warn!(%bridge, %error, "cannot remove the bridge of this node; retrying");
                    }
                }
            }
            before = Some(closed);
            tokio::select! {
                _ = events.next(&self.native) => tokio::time::sleep(SETTLE_DELAY).await,
                () = tokio::time::sleep(RESYNC_INTERVAL) => {}
            }
            // One check covers all pending events.
            events.drain(&self.native, Due::default());
        }
    }

    fn cluster_state(&mut self) -> ClusterState {
        match &mut self.cluster {
            None => ClusterState::Standalone,
            Some(cluster) => match cluster.borrow_and_update().clone() {
                Some(members) => ClusterState::Member(members),
                None => ClusterState::Unknown,
            },
        }
    }

    fn has_failed(&self) -> bool {
        let Status { links, rules, pod_errors, failed, .. } = &self.status;
        links.is_err() || rules.is_err() || !pod_errors.is_empty() || failed.is_some()
    }

    /// Records the result: updates health, and reports each new warning once.
    fn record(&mut self, outcome: Outcome) {
        let Outcome { mut repaired, links, pod_errors, rules, peers } = outcome;
        let status = &mut self.status;
        if links.is_some() {
            status.pod_errors = pod_errors;
        }
        status.links = links.unwrap_or_else(|| status.links.clone());
        status.rules = rules.unwrap_or_else(|| status.rules.clone());
        let mut events = Vec::new();
        if let Some(peers) = peers {
            repaired.extend(peers.repaired);
            events = peers.notices;
            (status.pod_cidrs, status.warnings, status.failed) = (peers.status, peers.warnings, peers.failed);
        }
        let node = &self.native.node;
        let note = |severity, reason, text| record_event(&self.outbox, node, severity, reason, text);
        events.into_iter().for_each(|text| note(Severity::Normal, "PodCIDRChanged", text));
        repaired.into_iter().for_each(|text| note(Severity::Warning, "PodNetworkRepaired", text));
        let Status { links, rules, pod_cidrs, pod_errors, warnings, failed } = status;
        // If the engine gives new pods their network, the node needs no pod CIDR.
        let counted =
            if self.serves_new_pods { vec![&*links, rules, pod_cidrs] } else { vec![&*links, rules] };
        let whole = counted.into_iter().find(|one| one.is_err()).unwrap_or(&Ok(())).clone();
        self.health.send_if_modified(|known| std::mem::replace(known, whole.clone()) != whole);
        let errors = [&*links, rules, pod_cidrs].into_iter().filter_map(|one| one.as_ref().err());
        let others = pod_errors.iter().chain(&*warnings).chain(failed.as_ref());
        let now: BTreeSet<String> = errors.chain(others).cloned().collect();
        for text in now.difference(&self.reported) {
            note(Severity::Warning, "PodNetworkFailed", text.clone());
        }
        if now.is_empty() && !self.reported.is_empty() {
            let text = "the pod network works again";
            note(Severity::Normal, "PodNetworkRecovered", text.to_owned());
        }
        self.reported = now;
    }
}

/// Waits for a change of the membership. If there cannot be one, waits forever.
async fn changed(cluster: &mut Option<Cluster>) {
    if let Some(cluster) = cluster
        && cluster.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The event message for a repaired bridge.
fn repair_message(bridge: &str, missing: &Missing) -> String {
    match missing {
        Missing::Bridge => {
            format!("the bridge {bridge} was missing: it was created again, and pods are connected to it")
        }
        Missing::Down => format!("the bridge {bridge} was down: it was brought up again"),
        Missing::Addresses(gone) => {
            let gone = list(gone, " and ");
            format!("the bridge {bridge} had lost its address {gone}: it was added again")
        }
        Missing::UnreachableRoutes(ranges) => {
            let ranges = list(ranges, " and ");
            format!(
                "the unreachable route for {ranges}, needed while the bridge {bridge} does not exist, was missing: it \
                 was added again"
            )
        }
        Missing::Settings(names) => {
            let (names, are) = (list(names, " and "), if names.len() == 1 { "was" } else { "were" });
            format!("{names} {are} off, so packets of pods were not forwarded: turned on again")
        }
    }
}

fn opened_message(chain: String) -> String {
    format!("the chain {chain} dropped packets of pods: it accepts them now")
}

impl Native {
    /// Checks and repairs what is due. Blocks.
    fn reconcile_once(&self, due: Due, cluster_state: &ClusterState) -> Outcome {
        let (repaired, pod_errors) = (Vec::new(), BTreeSet::new());
        let mut outcome = Outcome { repaired, links: None, pod_errors, rules: None, peers: None };
        let done = self.work(|| {
            if due.links {
                let repaired = self.repair_links(&mut outcome.repaired, &mut outcome.pod_errors);
                outcome.links = Some(repaired.map_err(|error| error.to_string()));
            }
            if due.rules {
                outcome.rules =
                    Some(self.repair_rules(&mut outcome.repaired).map_err(|error| error.to_string()));
            }
            if due == Due::ALL {
                outcome.repaired.extend(self.try_open_legacy_firewall().into_iter().map(opened_message));
            }
            match cluster_state {
                ClusterState::Member(members) if due.routes => {
                    let peers = self.apply_members(members);
                    self.readiness.set(&peers.status);
                    outcome.peers = Some(peers);
                }
                ClusterState::Standalone if due.routes => self.leave_cluster()?,
                ClusterState::Member(_) | ClusterState::Standalone | ClusterState::Unknown => {}
            }
            Ok(())
        });
        if let Err(error) = done {
            outcome.links = Some(Err(error.to_string()));
        }
        outcome
    }

    /// Checks and repairs the bridge and every veth. An error of one pod does not stop the others.
    fn repair_links(&self, repaired: &mut Vec<String>, pod_errors: &mut BTreeSet<String>) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        let cidrs = &self.ranges().own;
        let (bridge, missing) = self.bridge.ensure(&mut netlink, &cidrs.all())?;
        let name = &self.bridge.name;
        let is_new = missing.contains(&Missing::Bridge);
        repaired.extend(missing.iter().map(|missing| repair_message(name, missing)));
        let veths = self.bridge.veths(&mut netlink, &bridge)?;
        let expected: Vec<_> = self
            .state()
            .all_up()
            .filter(|(_, record, _)| cidrs.has(&record.addresses))
            .map(|(key, record, to)| (key.clone(), record.clone(), to))
            .collect();
        for (key, record, leads_to) in expected {
            let veth = self.bridge.veth(&key);
            let (done, what) = match veths.get(&veth) {
                Some(link) if link.is_up && link.bridge == Some(bridge.index) => continue,
                Some(link) => {
                    let attached_veths = self.bridge.attach_to_bridge(&mut netlink, &bridge, link);
                    (attached_veths.map(|()| !is_new), format!("was down or not on {name}"))
                }
                // The veth was created while the veths were listed.
                None if netlink.find(&veth)?.is_some() => continue,
                None => (
                    self.recreate_veth(&mut netlink, &bridge, &key, &record, leads_to),
                    "was missing".to_owned(),
                ),
            };
            match done {
                Ok(true) => repaired.push(format!("{veth} {what}: pod {} is connected again", record.pod())),
                Ok(false) => {}
                Err(error) => {
                    let pod = record.pod();
                    pod_errors.insert(format!("{veth} {what}, and pod {pod} cannot be connected: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Checks the packet rules and restores them.
    fn repair_rules(&self, repaired: &mut Vec<String>) -> io::Result<()> {
        let repairs = self.ensure_rules()?;
        if repairs.table {
            repaired.push(format!(
                "the table {} of packet rules was missing or changed: it was restored",
                self.bridge.name
            ));
        }
        if repairs.antispoof_table {
            repaired.push(format!(
                "the table {} of anti-spoofing rules was missing or changed: it was restored",
                self.bridge.name
            ));
        }
        if repairs.pod_addresses {
            repaired.push(
                "the source addresses that pods may use were changed in the packet rules: they were restored"
                    .to_owned(),
            );
        }
        if repairs.cluster {
            repaired
                .push("the pod addresses in the packet rules were changed: they were restored".to_owned());
        }
        if !repairs.ports.is_empty() {
            repaired.push("host ports of pods were missing or changed: they were restored".to_owned());
        }
        repaired.extend(packet_rules::closed_warnings(&repairs));
        repaired.extend(repairs.opened.into_iter().map(opened_message));
        Ok(())
    }

    /// Creates a lost veth again. Returns false if the sandbox's network namespace is gone, which is the usual
    /// reason.
    fn recreate_veth(
        &self,
        netlink: &mut Netlink,
        bridge: &Link,
        key: &Key,
        record: &Record,
        leads_to: Option<Process>,
    ) -> io::Result<bool> {
        let Some((pid, number)) = leads_to else { return Ok(false) };
        let Some(namespace) = Namespace::of_pod(pid).ok().filter(|found| found.number == number) else {
            return Ok(false);
        };
        self.bridge.create_veth(netlink, bridge, &self.ranges().own.all(), (key, record), &namespace)?;
        Ok(true)
    }
}
