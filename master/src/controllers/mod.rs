//! Runs the controllers: each watches objects through shared informers and reconciles them through its own API client.
//!
//! All controllers share one [`SharedInformers`] cache, which one reflector per resource keeps current. A change adds
//! keys to the work queues of the controllers concerned. A worker takes a key and reconciles it. Nothing polls.

mod act_as;
mod addons;
mod certificates;
mod cron_job;
mod daemon_set;
mod deployment;
mod discovery;
mod disruption;
mod endpoints;
mod event_recorder;
mod event_ttl;
mod fields;
mod garbage_collector;
mod horizontal_pod_autoscaler;
mod informers;
mod ingress_status;
mod job;
mod leader_election;
mod namespace;
mod node_ipam;
mod node_lifecycle;
mod node_trust;
mod object;
mod outage;
mod persistent_volumes;
mod pod_gc;
mod problems;
mod rate_limited_queue;
mod reflector;
mod remote;
mod replica_set;
mod resource_quota;
mod root_ca_publisher;
mod service_account_tokens;
mod service_accounts;
mod stateful_set;
mod suspend;
mod taint_eviction;
mod ttl_after_finished;
mod wall_clock;
mod work_queue;
mod workloads;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use client::{Client, DeleteOptions, Error, Json, Kind};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

pub use self::act_as::ActAs;
pub use self::addons::{run as run_addons, set_aside as set_addons_aside};
pub use self::certificates::{NAME_IN_USE, Webhook};
use self::informers::{Change, EventHandler, SharedInformers};
pub use self::leader_election::{LeaderElector, RELEASE_TIMEOUT};
pub use self::persistent_volumes::{
    BOUND_BY_CONTROLLER, CLAIM, CLAIM_PROTECTION, CLASS, SELECTED_NODE, VOLUME, VOLUME_PROTECTION,
};
use self::persistent_volumes::{binder, protection};
pub use self::problems::ProblemReporter;
use self::reflector::InformerStore;
pub use self::reflector::{Store, run_reflector};
pub use self::remote::{Address, Remote, connect};
use self::replica_set::{REPLICA_SET, REPLICATION_CONTROLLER, ReplicaSetController};
use self::work_queue::{Controller, Registered, WorkQueue};
use crate::options::{Approval, Controllers, NodeAdmission, NodeLifecycle};
use crate::pki::{Names, Pki};

/// The user that lists and watches all resources. It is also the name of the stock leader-election lease. Each
/// controller writes as its own service account.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// The leader-election lease of masters that run only [`complementary_names`], beside a stock controller
/// manager.
pub const COMPLEMENTARY_LEASE: &str = "coracle-master-controllers";
/// The leader-election lease of controllers that run outside a master. They cannot sign certificates, so they do
/// not replace the controllers inside a master.
pub const EXTERNAL_LEASE: &str = "coracle-controllers";
const MASTER_PREFIX: &str = "master-";
/// Resources that are not watched: `events.events.k8s.io` is another name of `events`.
const IGNORED: &[&str] = &["events.events.k8s.io"];
/// Resources whose objects define other resources. A change to such an object triggers discovery.
const DEFINITIONS: &[&str] =
    &["customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"];
/// Maximum time from a change of a definition until the API server serves the resource. Discovery runs once more after
/// this time.
const REDISCOVER_DELAY: Duration = Duration::from_secs(2);
/// How long the workers wait for the initial lists before they start. One unreadable resource does not block the
/// others. Controllers confirm with the API server before they delete.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two failed discovery requests.
const DISCOVERY_RETRY: Duration = Duration::from_secs(2);

/// The parts from which controllers are built.
struct Parts<'a> {
    client: &'a Client,
    informers: &'a SharedInformers,
    context: &'a ControllerContext,
}

impl Parts<'_> {
    /// A client that acts as the service account of a stock controller.
    fn account(&self, name: &str) -> Client {
        self.client.as_service_account(name)
    }

    fn manager(&self) -> Client {
        self.client.as_controller_manager()
    }

    fn informers(&self) -> SharedInformers {
        self.informers.clone()
    }
}

/// Builds a controller. Returns `None` if this process cannot run it, because it has no certificate authority or
/// allocates no pod CIDRs.
type Build = fn(&Parts<'_>) -> Option<Arc<dyn Controller>>;

/// A row of the registry.
struct Row {
    name: &'static str,
    /// Whether the controller may run beside a stock controller manager.
    ///
    /// The stock controller manager either lacks this controller, or ignores its objects while it has no signing
    /// key and does not allocate pod CIDRs. All other controllers would duplicate its work.
    is_complementary: bool,
    build: Build,
}

const fn row(name: &'static str, build: Build) -> Row {
    Row { name, is_complementary: false, build }
}

const fn complementary(name: &'static str, build: Build) -> Row {
    Row { name, is_complementary: true, build }
}

/// All controllers. `docs/contributing/controller.md` shows how to add one.
const CONTROLLERS: &[Row] = &[
    row(namespace::NAME, |of| {
        let account = of.account("namespace-controller");
        Some(Arc::new(namespace::NamespaceController::new(account, of.informers())))
    }),
    row(garbage_collector::NAME, |of| {
        let account = of.account("generic-garbage-collector");
        Some(Arc::new(garbage_collector::GarbageCollector::new(account, of.informers())))
    }),
    row(service_accounts::NAME, |of| {
        let account = of.account("service-account-controller");
        Some(Arc::new(service_accounts::ServiceAccountController::new(account, of.informers())))
    }),
    row(root_ca_publisher::NAME, |of| {
        let (account, root) = (of.account("root-ca-cert-publisher"), of.context.root_ca.clone());
        Some(Arc::new(root_ca_publisher::RootCaPublisher::new(account, of.manager(), of.informers(), root)))
    }),
    // The stock token controller acts as the controller manager's user, too.
    row(service_account_tokens::NAME, |of| {
        let root = &of.context.root_ca;
        Some(Arc::new(service_account_tokens::ServiceAccountTokenController::new(
            of.manager(),
            of.informers(),
            root,
        )))
    }),
    // No stock role exists for this: a stock API server lets etcd expire events.
    complementary(event_ttl::NAME, |of| {
        let account = of.account("generic-garbage-collector");
        Some(Arc::new(event_ttl::EventTtlController::new(account, of.informers())))
    }),
    row(resource_quota::NAME, |of| {
        let account = of.account("resourcequota-controller");
        Some(Arc::new(resource_quota::ResourceQuotaController::new(account, of.informers())))
    }),
    row(pod_gc::NAME, |of| {
        let account = of.account("pod-garbage-collector");
        Some(Arc::new(pod_gc::PodGcController::new(account, of.informers())))
    }),
    row(ttl_after_finished::NAME, |of| {
        let account = of.account("ttl-after-finished-controller");
        Some(Arc::new(ttl_after_finished::TtlAfterFinishedController::new(account)))
    }),
    row(endpoints::legacy::NAME, |of| {
        let account = of.account("endpoint-controller");
        Some(Arc::new(endpoints::legacy::EndpointsController::new(account, of.informers())))
    }),
    row(endpoints::slices::NAME, |of| {
        let account = of.account("endpointslice-controller");
        Some(Arc::new(endpoints::slices::EndpointSliceController::new(account, of.informers())))
    }),
    row(endpoints::mirroring::NAME, |of| {
        let account = of.account("endpointslicemirroring-controller");
        Some(Arc::new(endpoints::mirroring::EndpointSliceMirroringController::new(account)))
    }),
    complementary(certificates::APPROVING, |of| {
        let (authority, account) = (of.context.authority.as_ref()?, of.account(certificates::ACCOUNT));
        Some(Arc::new(certificates::CsrApprovingController::new(account, of.informers(), authority)))
    }),
    complementary(certificates::SIGNING, |of| {
        let (authority, account) = (of.context.authority.as_ref()?, of.account(certificates::ACCOUNT));
        Some(Arc::new(certificates::CsrSigningController::new(account, of.client.as_master(), authority)))
    }),
    complementary(certificates::CLEANING, |of| {
        Some(Arc::new(certificates::CsrCleanerController::new(of.account(certificates::ACCOUNT))))
    }),
    complementary(node_trust::NAME, |of| {
        let nodes = of.context.authority.as_ref()?.nodes.clone();
        Some(Arc::new(node_trust::NodeTrustController::new(of.account("node-controller"), nodes)))
    }),
    complementary(node_ipam::NAME, |of| {
        let account = of.account("node-controller");
        let allocates = of.context.allocates_pod_cidrs;
        allocates.then(|| Arc::new(node_ipam::NodeIpamController::new(account, of.informers())) as _)
    }),
    row(node_lifecycle::NAME, |of| {
        let (account, settings) = (of.account("node-controller"), &of.context.lifecycle);
        Some(Arc::new(node_lifecycle::NodeLifecycleController::new(
            account,
            of.manager(),
            of.informers(),
            settings,
        )))
    }),
    row(taint_eviction::NAME, |of| {
        let account = of.account("node-controller");
        Some(Arc::new(taint_eviction::TaintEvictionController::new(account, of.informers())))
    }),
    row(disruption::NAME, |of| {
        let account = of.account("disruption-controller");
        Some(Arc::new(disruption::DisruptionController::new(account, of.informers())))
    }),
    row(binder::NAME, |of| {
        let (account, master) = (of.account(binder::ACCOUNT), of.client.as_master());
        Some(Arc::new(binder::PersistentVolumeController::new(account, master, of.informers())))
    }),
    row(protection::CLAIMS, |of| {
        let account = of.account(protection::CLAIMS_ACCOUNT);
        Some(Arc::new(protection::ClaimProtectionController::new(account, of.informers())))
    }),
    row(protection::VOLUMES, |of| {
        let account = of.account(protection::VOLUMES_ACCOUNT);
        Some(Arc::new(protection::VolumeProtectionController::new(account)))
    }),
    row(REPLICA_SET.name, |of| {
        let account = of.account(REPLICA_SET.account);
        Some(Arc::new(ReplicaSetController::new(&REPLICA_SET, account, of.informers())))
    }),
    row(REPLICATION_CONTROLLER.name, |of| {
        let account = of.account(REPLICATION_CONTROLLER.account);
        Some(Arc::new(ReplicaSetController::new(&REPLICATION_CONTROLLER, account, of.informers())))
    }),
    row(daemon_set::NAME, |of| {
        let account = of.account(daemon_set::ACCOUNT);
        Some(Arc::new(daemon_set::DaemonSetController::new(account, of.informers())))
    }),
    row(deployment::NAME, |of| {
        let account = of.account(deployment::NAME);
        Some(Arc::new(deployment::DeploymentController::new(account, of.informers())))
    }),
    row(horizontal_pod_autoscaler::NAME, |of| {
        let account = of.account(horizontal_pod_autoscaler::ACCOUNT);
        Some(Arc::new(horizontal_pod_autoscaler::HorizontalPodAutoscalerController::new(
            account,
            of.informers(),
        )))
    }),
    row(stateful_set::NAME, |of| {
        let account = of.account(stateful_set::NAME);
        Some(Arc::new(stateful_set::StatefulSetController::new(account, of.informers())))
    }),
    row(cron_job::NAME, |of| {
        let account = of.account(cron_job::NAME);
        Some(Arc::new(cron_job::CronJobController::new(account, of.informers())))
    }),
    row(job::NAME, |of| {
        let account = of.account(job::NAME);
        Some(Arc::new(job::JobController::new(account, of.informers())))
    }),
    row(ingress_status::NAME, |of| {
        let master = of.client.as_master();
        Some(Arc::new(ingress_status::IngressStatusController::new(master, of.informers())))
    }),
];

/// The resources of workloads that controllers here reconcile, with the names of these controllers.
const WORKLOADS: &[(&str, &str)] = &[
    ("cronjobs.batch", cron_job::NAME),
    ("daemonsets.apps", daemon_set::NAME),
    ("deployments.apps", deployment::NAME),
    ("horizontalpodautoscalers.autoscaling", horizontal_pod_autoscaler::NAME),
    ("jobs.batch", job::NAME),
    ("replicasets.apps", REPLICA_SET.name),
    ("replicationcontrollers", REPLICATION_CONTROLLER.name),
    ("statefulsets.apps", stateful_set::NAME),
];

/// The controller that reconciles a workload resource (`deployments.apps`), if there is one here.
pub fn workload_controller(resource: &str) -> Option<&'static str> {
    WORKLOADS.iter().find(|(of, _)| *of == resource).map(|(_, controller)| *controller)
}

/// Returns the names of all controllers for `--controllers`. They are the stock names if a stock controller exists.
pub fn names() -> Vec<&'static str> {
    CONTROLLERS.iter().map(|row| row.name).collect()
}

/// Returns the controllers that may run beside a stock controller manager.
pub fn complementary_names() -> Vec<&'static str> {
    CONTROLLERS.iter().filter(|row| row.is_complementary).map(|row| row.name).collect()
}

/// Configuration that the controllers cannot read from the API.
#[derive(Clone, Debug)]
pub struct ControllerContext {
    /// The cluster's trust bundle, PEM.
    pub root_ca: String,
    /// The CAs and policies for certificate requests. `None` outside a master.
    pub authority: Option<Authority>,
    /// Whether this master allocates pod CIDRs to nodes.
    pub allocates_pod_cidrs: bool,
    /// Grace period and eviction rate of unreachable nodes.
    pub lifecycle: NodeLifecycle,
}

/// The CAs with which the certificate controllers sign, and the policies by which they approve.
#[derive(Clone, Debug)]
pub struct Authority {
    /// The certificate authorities of the cluster.
    pub pki: Arc<Pki>,
    /// The policy that decides which machines become nodes.
    pub approval: Approval,
    /// The approval webhook, if the policy is `webhook`.
    pub webhook: Option<Webhook>,
    /// The DNS names and addresses in the master's serving certificate.
    pub masters: Names,
    /// How nodes register.
    pub nodes: NodeAdmission,
}

/// Creates the leader elector for the controllers and the identity. One holder at a time runs the controllers.
pub fn leader_elector(
    client: &Client,
    identity: &str,
    which: &Controllers,
    context: &ControllerContext,
) -> LeaderElector {
    LeaderElector::new(
        client.as_controller_manager(),
        lease_name(which, context.authority.is_some()),
        identity,
    )
}

/// Returns the name of the lease, for controllers inside or outside a master.
fn lease_name(which: &Controllers, is_inside: bool) -> &'static str {
    let is_complementary =
        || CONTROLLERS.iter().filter(|row| which.has(row.name)).all(|row| row.is_complementary);
    if !is_inside {
        EXTERNAL_LEASE
    } else if is_complementary() {
        COMPLEMENTARY_LEASE
    } else {
        CONTROLLER_MANAGER
    }
}

/// Returns the lease holder identity of a master: its advertised address and the ID of its data directory.
pub fn master_identity(advertised: SocketAddr, id: &str) -> String {
    format!("{MASTER_PREFIX}{advertised}_{id}")
}

/// Whether a lease holder is a master of this project. The identity of a stock component begins with a host name,
/// which contains no colon.
pub fn is_master_identity(holder: &str) -> bool {
    let address = holder.strip_prefix(MASTER_PREFIX).and_then(|rest| rest.split_once('_'));
    address.is_some_and(|(address, _)| address.parse::<SocketAddr>().is_ok())
}

/// Runs the selected controllers until the future is dropped.
pub async fn run(client: Client, which: Controllers, context: ControllerContext) {
    let informers = SharedInformers::default();
    let controllers = enabled_controllers(&client, &informers, &which, &context);
    if controllers.is_empty() {
        return;
    }
    let rediscover = Arc::new(Notify::new());
    informers.add_handler(Arc::new(RediscoverOnChange(rediscover.clone())));
    let mut tasks = JoinSet::new();
    let mut running = Vec::new();
    for controller in controllers {
        let one = Arc::new(Registered { controller, queue: Arc::new(WorkQueue::default()) });
        informers.add_handler(one.clone());
        running.push(one);
    }
    tasks.spawn(run_informers(client.as_controller_manager(), informers.clone(), rediscover));
    // Before the caches have synced, a missing object may just not be listed yet.
    if tokio::time::timeout(SYNC_TIMEOUT, informers.wait_for_sync()).await.is_err() {
        tracing::warn!(
            "not all resources could be listed in time; starting the controllers with those that could"
        );
    }
    for one in running {
        let (controller, queue) = (one.controller.clone(), one.queue.clone());
        tasks.spawn(async move { controller.observe(&queue).await });
        for _ in 0..one.controller.workers() {
            tasks.spawn(work_queue::run_worker(one.controller.clone(), one.queue.clone()));
        }
    }
    tracing::info!("controllers are running");
    while tasks.join_next().await.is_some() {}
}

fn enabled_controllers(
    client: &Client,
    informers: &SharedInformers,
    which: &Controllers,
    context: &ControllerContext,
) -> Vec<Arc<dyn Controller>> {
    let of = Parts { client, informers, context };
    CONTROLLERS.iter().filter(|row| which.has(row.name)).filter_map(|row| (row.build)(&of)).collect()
}

/// Triggers discovery when a resource may have been added or removed.
struct RediscoverOnChange(Arc<Notify>);

impl EventHandler for RediscoverOnChange {
    fn on_change(&self, change: &Change) {
        if DEFINITIONS.contains(&change.kind.qualified().as_str()) {
            self.0.notify_one();
        }
    }
}

/// The running reflectors by qualified resource name.
#[derive(Default)]
struct Reflectors {
    kinds: BTreeMap<String, (Arc<Kind>, AbortHandle)>,
    tasks: JoinSet<()>,
}

/// Runs a reflector for every listable and watchable resource, and follows changes of discovery.
async fn run_informers(client: Client, informers: SharedInformers, rediscover: Arc<Notify>) {
    let mut reflectors = Reflectors::default();
    let mut is_quiet = true;
    let problems = ProblemReporter::default();
    loop {
        let pause = match discovery::discover(&client).await {
            Ok(served) => {
                let kinds: Vec<Kind> = served
                    .into_iter()
                    .filter(|served| served.can(&["list", "watch"]))
                    .map(|served| served.kind)
                    .filter(|kind| !IGNORED.contains(&kind.qualified().as_str()))
                    .collect();
                update_reflectors(&client, &informers, &problems, &mut reflectors, kinds);
                if is_quiet { Duration::MAX } else { REDISCOVER_DELAY }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot discover resources; retrying");
                problems.report("API discovery", &error);
                DISCOVERY_RETRY
            }
        };
        is_quiet = tokio::time::timeout(pause, rediscover.notified()).await.is_err();
    }
}

fn update_reflectors(
    client: &Client,
    informers: &SharedInformers,
    problems: &ProblemReporter,
    reflectors: &mut Reflectors,
    kinds: Vec<Kind>,
) {
    let names: Vec<String> = kinds.iter().map(Kind::qualified).collect();
    reflectors.kinds.retain(|name, (kind, task)| {
        let stays = names.contains(name);
        if !stays {
            task.abort();
            informers.unregister(kind);
        }
        stays
    });
    let fresh: Vec<Arc<Kind>> = kinds
        .into_iter()
        .zip(&names)
        .filter(|(_, name)| !reflectors.kinds.contains_key(*name))
        .map(|(kind, _)| Arc::new(kind))
        .collect();
    // All caches are registered first: `wait_for_sync` must see each of them.
    for kind in &fresh {
        informers.register(kind);
    }
    for kind in fresh {
        let table = InformerStore::new(informers.clone(), kind.clone());
        let following = reflector::run_reflector(client.clone(), kind.clone(), table, problems.clone());
        let task = reflectors.tasks.spawn(following);
        reflectors.kinds.insert(kind.qualified(), (kind, task));
    }
}

#[cfg(test)]
mod tests;
