//! Creates and starts the components of a node that do not depend on the kind of engine.

use std::path::Path;
use std::sync::Arc;

use api::resources::ResourceList;
use apiserver::Api;
use apiserver::tasks::Tasks;
use ipnet::IpNet;
use tokio::sync::{mpsc, watch};

use super::{node_status, pod_config};
use crate::cgroups::{Cgroups, Slices};
use crate::cluster;
use crate::cluster::ingresses::IngressSnapshot;
use crate::cluster::policies;
use crate::cluster::services::ServiceSnapshot;
use crate::desired::{self, Desired, Snapshot};
use crate::eviction::{EvictionManager, ImageGarbageCollection};
use crate::health::Health;
use crate::identity;
use crate::images::{ImageCollector, Images};
use crate::metrics::Metrics;
use crate::network::Members;
use crate::node::{self, PressureMonitor};
use crate::observed::Timestamp;
use crate::options::{Cluster, Options};
use crate::plan::BackOff;
use crate::pleg::{EngineHealth, Pleg};
use crate::pod_workers::pool::PodWorkers;
use crate::pod_workers::{Dependencies, FinishedPods};
use crate::report::{Events, Outbox, Reports};
use crate::runtime::Runtime;
use crate::runtime::docker;
use crate::spec::{CgroupDriver, Facts};
use crate::stats::StatsProvider;
use crate::status::{EventLog, NodeIdentity, StatusManager};
use crate::volumes::Volumes;

/// Components for reporting. They exist before the runtime.
pub(super) struct Reporting {
    pub outbox: Arc<Outbox>,
    pub status_manager: Arc<StatusManager>,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    /// Pod reports and events for the cluster, if the node belongs to one.
    cluster_reports: Option<(Arc<Reports>, Arc<Events>)>,
}

impl Reporting {
    pub fn new(options: &Options) -> Self {
        let (outbox, status_manager) = (Outbox::new(), StatusManager::new(&options.node_name));
        // Created before anything is reported, so that the cluster receives everything.
        let cluster_reports =
            options.cluster.is_some().then(|| (outbox.copied(), status_manager.copied_events()));
        status_manager.identify(&NodeIdentity::load(&options.root_dir, &options.node_name, Timestamp::now()));
        let metrics = Arc::new(Metrics::new(&options.node_name, apiserver::VERSION.git_version));
        Self { outbox, status_manager, health: Health::new(), metrics, cluster_reports }
    }
}

/// The runtime and its network, on which the other components depend.
pub(super) struct Platform {
    /// The runtime, which gives sandboxes their addresses.
    pub runtime: Arc<dyn Runtime>,
    /// Health of the pod network.
    pub network: watch::Receiver<Result<(), String>>,
    /// The pod CIDRs of a native network.
    pub ranges: Vec<IpNet>,
    /// Sender of the cluster's other nodes.
    pub members_sender: watch::Sender<Option<Arc<Members>>>,
    /// Sender of the cluster's Services, if the kubelet needs them.
    pub services_sender: Option<watch::Sender<Arc<ServiceSnapshot>>>,
    /// Where the informer sends NetworkPolicies, and the demand for peers. `None` if the kubelet does not follow them.
    pub policies: Option<policies::Outputs>,
    /// Sender of the cluster's Ingresses, if the kubelet serves them.
    pub ingresses_sender: Option<watch::Sender<Arc<IngressSnapshot>>>,
    /// Sender of the zone of this node.
    pub zone_sender: watch::Sender<String>,
    pub cgroups: Option<Arc<Cgroups>>,
    pub slices: Option<Arc<Slices>>,
}

/// Components that the caller still uses after the start.
pub(super) struct Components {
    pub event_log: EventLog,
    pub stats: Arc<StatsProvider>,
    pub volumes: Arc<Volumes>,
    /// Health of the container engine.
    pub engine: watch::Receiver<EngineHealth>,
    /// The desired pods.
    pub desired: watch::Receiver<Arc<Desired>>,
    /// The API of the node.
    pub api: Arc<Api>,
}

/// Starts all components.
pub(super) fn start(
    options: &Options,
    reporting: &Reporting,
    platform: Platform,
    tasks: &mut Tasks,
) -> Components {
    let Reporting { outbox, status_manager, health, metrics, .. } = reporting;
    let Platform {
        runtime,
        network,
        ranges,
        members_sender,
        services_sender,
        ingresses_sender,
        policies,
        zone_sender,
        cgroups,
        slices,
    } = platform;
    let pleg = Pleg::new(runtime.clone(), metrics.clone(), health.clone());
    let drivers = cgroups.iter().map(|_| CgroupDriver::Cgroupfs);
    let drivers = drivers.chain(slices.iter().map(|_| CgroupDriver::Systemd)).collect();
    let (pressure_sender, pressures) = watch::channel(None);
    let sources = node_status::Sources {
        drivers,
        runtime: runtime.clone(),
        engine: pleg.engine(),
        network,
        pressures: pressures.clone(),
    };
    let (facts, data_root) = node_status::follow(options, sources, outbox, tasks);
    let event_log = EventLog::new(&options.root_dir);
    event_log.restore(status_manager, Timestamp::now());
    tasks.spawn("status manager", status_manager.clone().drain(outbox.clone()));
    tasks.spawn("event log", event_log.clone().keep(status_manager.clone()));
    let stats = stats(options, &pleg);
    let engine_health = pleg.engine();
    tasks.spawn("PLEG", pleg.clone().run());
    let (desired, wanted) = watch::channel(Arc::new(Desired::default()));
    let (extended_sender, extended) = watch::channel(ResourceList::default());
    let node = node(options, &facts.borrow());
    let images = Arc::new(ImageCollector::new(
        runtime.clone(),
        options.image_gc,
        &options.root_dir,
        metrics.clone(),
        Timestamp::now(),
    ));
    let engine = Engine { runtime, pleg, cgroups, slices, facts };
    let deps = Arc::new(dependencies(options, reporting, engine, images.clone()));
    let volumes = deps.volumes.clone();
    let monitor = || PressureMonitor::new(Path::new("/proc"), &options.root_dir);
    let image_gc = ImageGarbageCollection {
        node: options.node_name.clone(),
        collector: images.clone(),
        monitor: monitor(),
        data_root: data_root.clone(),
        outbox: outbox.clone(),
    };
    tasks.spawn("image garbage collection", image_gc.run());
    let manager = EvictionManager {
        node: options.node_name.clone(),
        settings: options.eviction.clone(),
        monitor: monitor(),
        images,
        deps: deps.clone(),
        stats: stats.clone(),
        data_root,
        pressures: pressure_sender,
    };
    tasks.spawn("eviction manager", manager.run());
    tasks.spawn("pod workers", PodWorkers::new(deps, node, extended, pressures).run(wanted));
    let all = desired.subscribe();
    // On a lone node, the Services come from the pod sources.
    let (of_cluster, of_sources) =
        if options.cluster.is_some() { (services_sender, None) } else { (None, services_sender) };
    let (snapshots, api) =
        pod_config::follow(options, outbox.clone(), status_manager.clone(), desired, of_sources, tasks);
    let outputs = ClusterOutputs {
        snapshots,
        desired: all.clone(),
        extended: extended_sender,
        members: members_sender,
        services: of_cluster,
        policies,
        ingresses: ingresses_sender,
        zone: zone_sender,
    };
    join_cluster(options, reporting, ranges, outputs, tasks);
    Components { event_log, stats, volumes, engine: engine_health, desired: all, api }
}

/// The parameters of the node for admission.
fn node(options: &Options, facts: &Arc<Facts>) -> desired::Node {
    desired::Node {
        labels: Some(node::labels(options)),
        max_pods: Some(options.max_pods),
        allocatable: node::allocatable(facts),
        extended: ResourceList::default(),
        facts: facts.clone(),
        pressures: Vec::new(),
    }
}

fn stats(options: &Options, pleg: &Arc<Pleg>) -> Arc<StatsProvider> {
    let seen = pleg.clone();
    let observe_pods = move || {
        let known = seen.known().into_iter();
        known.map(|known| (known.uid.clone(), seen.pod(&known.uid))).collect::<Vec<_>>()
    };
    StatsProvider::new(&options.node_name, &options.root_dir, Box::new(observe_pods))
}

/// The container engine, its observed state, and its cgroups.
struct Engine {
    runtime: Arc<dyn Runtime>,
    pleg: Arc<Pleg>,
    cgroups: Option<Arc<Cgroups>>,
    slices: Option<Arc<Slices>>,
    facts: watch::Receiver<Arc<Facts>>,
}

/// The dependencies of pod workers.
fn dependencies(
    options: &Options,
    reporting: &Reporting,
    engine: Engine,
    collector: Arc<ImageCollector>,
) -> Dependencies {
    let Reporting { outbox, metrics, .. } = reporting;
    let Engine { runtime, pleg, cgroups, slices, facts } = engine;
    let parallel = options.max_parallel_image_pulls;
    let images = Images::new(runtime.clone(), parallel, &options.root_dir, metrics.clone(), collector);
    Dependencies {
        runtime,
        pleg,
        images: Arc::new(images),
        metrics: metrics.clone(),
        cgroups,
        slices,
        volumes: Arc::new(Volumes::new(&options.root_dir)),
        outbox: outbox.clone(),
        facts,
        finished: FinishedPods::default(),
        evictions: Arc::default(),
        back_off: BackOff::default(),
        root_dir: options.root_dir.clone(),
        sandbox_image: options.sandbox_image.clone().unwrap_or_else(|| docker::pause_image().to_owned()),
    }
}

/// The desired pods, and the receivers of what the API server knows: pods, the node, other nodes and Services.
struct ClusterOutputs {
    snapshots: mpsc::Sender<Arc<Snapshot>>,
    desired: watch::Receiver<Arc<Desired>>,
    extended: watch::Sender<ResourceList>,
    members: watch::Sender<Option<Arc<Members>>>,
    services: Option<watch::Sender<Arc<ServiceSnapshot>>>,
    policies: Option<policies::Outputs>,
    ingresses: Option<watch::Sender<Arc<IngressSnapshot>>>,
    zone: watch::Sender<String>,
}

/// Starts the node's part in its cluster, if it belongs to one.
fn join_cluster(
    options: &Options,
    reporting: &Reporting,
    ranges: Vec<IpNet>,
    outputs: ClusterOutputs,
    tasks: &mut Tasks,
) {
    let Reporting { outbox, status_manager, cluster_reports, .. } = reporting;
    let Some((cluster, (reports, events))) = options.cluster.clone().zip(cluster_reports.clone()) else {
        return;
    };
    // A node that has joined renews its certificates, whatever the flags of this start.
    let serving = cluster.serving || identity::has_certificates(&options.cert_dir);
    let given = options.node_ip;
    let settings = identity::Settings {
        node: options.node_name.clone(),
        cluster: Cluster { serving, ..cluster },
        cert_dir: options.cert_dir.clone(),
        addresses: Box::new(move || node::addresses(given)),
    };
    let access = identity::start(settings, outbox, tasks);
    let settings = cluster::Settings {
        node: options.node_name.clone(),
        root_dir: options.root_dir.clone(),
        wanted: options.pod_cidrs.clone(),
        chosen: ranges,
        access,
        shown: status_manager.node(),
        snapshots: outputs.snapshots,
        reports,
        extended: outputs.extended,
        desired: outputs.desired,
        events,
        services: outputs.services,
        policies: outputs.policies,
        ingresses: outputs.ingresses,
        zone: outputs.zone,
    };
    cluster::start(settings, outputs.members, outbox, tasks);
}
