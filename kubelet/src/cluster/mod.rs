//! The kubelet as a member of a cluster: node registration, node lease, events, the pods that the API server assigned,
//! the Services, and the peer nodes.
//!
//! `reflector` lists and watches any resource. `registration` maintains the Node, `lease` its heartbeat, `events` posts
//! events, and `pods` is the pod source of the API server. These modules are pure: `node` computes what is written to
//! the Node, `membership` computes the peer nodes for the pod network. `members_file` stores the membership on disk, and `stored` has what the informers share.

mod backoff;
mod events;
pub mod ingresses;
mod lease;
mod lease_holder;
mod members_file;
mod membership;
mod node;
mod pods;
pub mod policies;
mod reflector;
mod registration;
pub mod services;
mod stored;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::resources::ResourceList;
use apiserver::tasks::Tasks;
use client::{Delta, Kind, Scope};
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use self::events::EventPoster;
use self::ingresses::IngressSnapshot;
use self::lease::NodeLease;
use self::members_file::MembersFile;
use self::membership::{Change, Membership, PartialNode};
use self::reflector::reflect;
use self::registration::NodeRegistration;
use self::services::ServiceSnapshot;
use crate::desired::{Desired, Snapshot};
use crate::identity::{Api, ApiError, ClusterAccess, EventReporter};
use crate::network::Members;
use crate::report::{Events, Outbox, Reports};

/// How often the membership is computed again if the watch reports nothing.
const RESYNC_INTERVAL: Duration = Duration::from_secs(60);
/// If the API server does not show other nodes to this node, the kubelet lists them again after this time. A new
/// role may allow it by then.
const LIST_ALL_RETRY: Duration = Duration::from_secs(60);
/// Changes of other nodes within this time are published together. When many nodes join at once, each of them
/// receives all the others.
const SETTLE_DELAY: Duration = Duration::from_millis(50);
/// Additional delay per known node, because the work of an update grows with the number of nodes.
const SETTLE_DELAY_PER_NODE: Duration = Duration::from_millis(1);
/// The API path of Nodes.
const NODES: &str = "/api/v1/nodes";

/// Inputs and outputs of the cluster tasks.
#[derive(Debug)]
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// The kubelet's root directory, where the membership and the pods are stored.
    pub root_dir: PathBuf,
    /// The pod CIDRs of `--pod-cidr`; empty without the flag.
    pub wanted: Vec<IpNet>,
    /// The pod CIDRs that the node selected itself.
    pub chosen: Vec<IpNet>,
    /// How to reach the API server.
    pub access: watch::Receiver<Option<ClusterAccess>>,
    /// The Node object that this kubelet wants to write.
    pub shown: watch::Receiver<Arc<Map<String, Value>>>,
    /// Receives the pods that the API server assigned to this node.
    pub snapshots: mpsc::Sender<Arc<Snapshot>>,
    /// Pod statuses to write to the API server.
    pub reports: Arc<Reports>,
    /// Events to post to the API server.
    pub events: Arc<Events>,
    /// Receives the extended resources that the Node has as allocatable.
    pub extended: watch::Sender<ResourceList>,
    /// The desired pods of all sources.
    pub desired: watch::Receiver<Arc<Desired>>,
    /// Receives the Services and EndpointSlices of the cluster. `None` if this kubelet does not need them.
    pub services: Option<watch::Sender<Arc<ServiceSnapshot>>>,
    /// Connects the NetworkPolicies of the cluster with their enforcement. `None` if this kubelet does not enforce them.
    pub policies: Option<policies::Outputs>,
    /// Receives the Ingresses of the cluster. `None` if this kubelet serves none.
    pub ingresses: Option<watch::Sender<Arc<IngressSnapshot>>>,
    /// Receives the zone of this node, by the label of its Node; empty without one.
    pub zone: watch::Sender<String>,
}

/// Starts all cluster tasks. `members_sender` first receives the members that are stored on disk.
pub fn start(
    settings: Settings,
    members_sender: watch::Sender<Option<Arc<Members>>>,
    outbox: &Arc<Outbox>,
    tasks: &mut Tasks,
) {
    let reporter = || EventReporter::new(&settings.node, outbox.clone());
    let client = connect(settings.access.clone(), reporter(), tasks);
    let (granted, apis) = watch::channel(None);
    let instance = lease_holder::instance(&settings.root_dir).inspect_err(|error| {
        tracing::warn!(%error, "cannot detect a second machine with this node's name: the root directory cannot be used");
    });
    let (missing, version) = (Arc::new(Notify::new()), watch::channel(String::new()).0);
    let register = NodeRegistration {
        node: settings.node.clone(),
        wanted: settings.wanted,
        chosen: settings.chosen,
        members: members_sender.subscribe(),
        apis: apis.clone(),
        shown: settings.shown,
        missing: missing.clone(),
        version: version.subscribe(),
        extended: settings.extended,
        reporter: reporter(),
    };
    tasks.spawn("node registration", register.run());
    let lease = NodeLease {
        node: settings.node.clone(),
        instance: instance.ok(),
        apis: client.clone(),
        granted,
        reporter: reporter(),
    };
    tasks.spawn("node lease", lease.run());
    let pods = pods::Settings {
        node: settings.node.clone(),
        root_dir: settings.root_dir.clone(),
        apis: apis.clone(),
        snapshots: settings.snapshots,
        reports: settings.reports,
        desired: settings.desired,
        outbox: outbox.clone(),
    };
    let mirror_pods = pods::start(pods, reporter, tasks);
    let known_uid = Box::new(move |uid: &str| mirror_pods.hash_of(uid));
    let event_poster = EventPoster { events: settings.events, apis: client, known_uid };
    tasks.spawn("event poster", event_poster.run());
    if let Some(services) = settings.services {
        services::start(&settings.root_dir, &apis, services, reporter, tasks);
    }
    if let Some(policies) = settings.policies {
        policies::start(&settings.node, &settings.root_dir, &apis, policies, reporter, tasks);
    }
    if let Some(ingresses) = settings.ingresses {
        let (node, outbox) = (settings.node.clone(), outbox.clone());
        let reporter = move || EventReporter::new(&node, outbox.clone());
        ingresses::start(&settings.root_dir, &apis, ingresses, &settings.node, reporter, tasks);
    }
    let (node, visibility_reporter) = (settings.node.clone(), reporter());
    let list_all_retry = LIST_ALL_RETRY;
    let reflector = NodeReflector {
        node,
        reporter: reporter(),
        visibility_reporter,
        list_all_retry,
        members_sender,
        missing,
        version,
        zone: settings.zone,
    };
    tasks.spawn("node reflector", reflector.run(apis, MembersFile::under(&settings.root_dir)));
}

/// The directory of stored cluster state.
fn directory(root_dir: &Path) -> PathBuf {
    root_dir.join("cluster")
}

/// Builds an API client for each new `access`. Requests in progress keep their client.
fn connect(
    mut access: watch::Receiver<Option<ClusterAccess>>,
    mut reporter: EventReporter,
    tasks: &mut Tasks,
) -> watch::Receiver<Option<Arc<Api>>> {
    let (shown, apis) = watch::channel(None);
    tasks.spawn("API clients", async move {
        let mut has_failed = false;
        loop {
            let known = access.borrow_and_update().clone();
            let api = match known.as_ref().map(Api::new).transpose() {
                Ok(api) => {
                    if api.is_some() && std::mem::take(&mut has_failed) {
                        let text = "the access to the API server is valid again".to_owned();
                        reporter.info_once("ClusterAccessRestored", text, Timestamp::now());
                    }
                    api.map(Arc::new)
                }
                Err(error) => {
                    has_failed = true;
                    reporter.warn(
                        "ClusterAccessInvalid",
                        format!("the access to the API server is invalid: {error}"),
                        jiff::Timestamp::now(),
                    );
                    None
                }
            };
            shown.send_replace(api);
            if access.changed().await.is_err() {
                return;
            }
        }
    });
    apis
}

/// Lists and watches Nodes, and publishes the members for the pod network.
struct NodeReflector {
    node: String,
    reporter: EventReporter,
    /// Reports that the API server shows the other nodes again.
    visibility_reporter: EventReporter,
    /// How long to wait before all nodes are listed again after a rejection.
    list_all_retry: Duration,
    members_sender: watch::Sender<Option<Arc<Members>>>,
    /// Notified if the API server has no Node for this node.
    missing: Arc<Notify>,
    /// Receives the `resourceVersion` of this node's Node with each change.
    version: watch::Sender<String>,
    /// Receives the zone of this node.
    zone: watch::Sender<String>,
}

impl NodeReflector {
    /// Publishes the stored members, then follows the API server and stores what it shows.
    async fn run(self, apis: watch::Receiver<Option<Arc<Api>>>, kept: MembersFile) {
        if let Some(members) = kept.read().await {
            self.members_sender.send_replace(Some(Arc::new(members)));
        }
        let members = self.members_sender.subscribe();
        tokio::join!(self.follow(apis), kept.write(members));
    }

    async fn follow(mut self, apis: watch::Receiver<Option<Arc<Api>>>) {
        let membership = Mutex::new(Membership::new(&self.node));
        let changed = Notify::new();
        let (all, own) = (Scope::default(), Scope::object("", &self.node));
        let (mut sees_all, mut are_hidden) = (true, false);
        loop {
            let scope = if sees_all { &all } else { &own };
            let (node, members_sender, missing, version, own_zone) =
                (&self.node, &self.members_sender, &self.missing, &self.version, &self.zone);
            let locked = || membership.lock().unwrap_or_else(PoisonError::into_inner);
            let apply = |delta: Option<Delta<PartialNode>>| {
                let mut membership = locked();
                if let Some(delta) = delta {
                    if let Some((shown, zone)) = membership::own_node(&delta, node) {
                        version.send_replace(shown.to_owned());
                        own_zone.send_if_modified(|known| {
                            let is_new = known != zone;
                            zone.clone_into(known);
                            is_new
                        });
                    }
                    let change = membership.apply(delta);
                    if !membership.contains(node) {
                        missing.notify_one();
                    }
                    match change {
                        Change::None => return,
                        Change::OfOthers => return changed.notify_one(),
                        Change::OfOwn => {}
                    }
                }
                publish(&mut membership, members_sender);
            };
            let settled = || async {
                changed.notified().await;
                let each =
                    SETTLE_DELAY_PER_NODE.saturating_mul(u32::try_from(locked().len()).unwrap_or(u32::MAX));
                tokio::time::sleep(SETTLE_DELAY + each).await;
            };
            locked().set_sees_all(sees_all);
            let list_all_retry = Instant::now() + self.list_all_retry;
            let visibility_reporter = &mut self.visibility_reporter;
            let mut handle = |delta| {
                if sees_all && matches!(delta, Delta::Replaced(..)) && std::mem::take(&mut are_hidden) {
                    let text = "the API server lists the other nodes again".to_owned();
                    visibility_reporter.info("NodesListed", text);
                }
                apply(Some(delta));
            };
            let reporter = &mut self.reporter;
            let on_error = |error: &ApiError| {
                if !is_certificate_error(error) {
                    let text = format!(
                        "cannot watch the nodes of the cluster: {error}; pods run on with the last known state"
                    );
                    reporter.warn("NodeWatchFailed", text, Timestamp::now());
                }
            };
            let refused = {
                let mut following = pin!(reflect(apis.clone(), Kind::NODE, scope, &mut handle, on_error));
                loop {
                    tokio::select! {
                        ended = &mut following => match ended {
                            Some(error) => break Some(error),
                            None => return,
                        },
                        () = settled() => apply(None),
                        // The grace period of missing peers may be over.
                        () = tokio::time::sleep(RESYNC_INTERVAL) => apply(None),
                        () = tokio::time::sleep_until(list_all_retry), if !sees_all => break None,
                    }
                }
            };
            match refused {
                Some(error) if sees_all => {
                    (sees_all, are_hidden) = (false, true);
                    self.report_hidden_nodes(&error);
                }
                Some(_) => tokio::time::sleep_until(list_all_retry).await,
                None => sees_all = true,
            }
        }
    }

    /// Reports that the API server does not show other nodes. A stock API server shows a node only its own Node.
    fn report_hidden_nodes(&mut self, error: &ApiError) {
        let text = format!(
            "the API server does not let this node list other nodes ({error}), so pods here cannot reach pods of other nodes. \
             Allow it: kubectl create clusterrole nodes-read-nodes --verb=get,list,watch --resource=nodes, and kubectl \
             create clusterrolebinding nodes-read-nodes --clusterrole=nodes-read-nodes --group=system:nodes"
        );
        self.reporter.warn("NodesNotListed", text, jiff::Timestamp::now());
    }
}

/// Publishes the current members if they changed.
fn publish(membership: &mut Membership, members_sender: &watch::Sender<Option<Arc<Members>>>) {
    members_sender.send_if_modified(|before| {
        let Some(members) = membership.members(before.as_deref(), Instant::now()) else { return false };
        if before.as_deref() == Some(&members) {
            return false;
        }
        *before = Some(Arc::new(members));
        true
    });
}

/// Whether the error concerns the client certificate. The certificate manager reports such errors.
fn is_certificate_error(error: &ApiError) -> bool {
    error.is_unregistered() || error.has_code(401)
}
