//! The rooms of one node, whatever its engine is: what is wanted and what is there come together, and the cluster is told.

use std::sync::Arc;

use ipnet::IpNet;
use tokio::sync::watch;

use super::{dispatch, engine};
use crate::cgroups::{Cgroups, Slices};
use crate::cluster;
use crate::desired::{self, Desired};
use crate::health::Health;
use crate::identity;
use crate::images::Images;
use crate::metrics::Metrics;
use crate::network::Members;
use crate::node;
use crate::observe::Observer;
use crate::observed::Timestamp;
use crate::options::{Cluster, Options};
use crate::plan::BackOff;
use crate::report::{Events, Outbox, Reports};
use crate::runtime::Runtime;
use crate::runtime::docker;
use crate::server;
use crate::spec::CgroupDriver;
use crate::stats::Meter;
use crate::status::{Board, Journal};
use crate::volumes::Volumes;
use crate::worker::pool::Pool;
use crate::worker::{Finished, Tools};

/// Where rooms put what they have to say; it is there before the engine.
pub(super) struct Desk {
    pub outbox: Arc<Outbox>,
    pub board: Arc<Board>,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    /// What a cluster is told of pods and of events, where there is one.
    told_of: Option<(Arc<Reports>, Arc<Events>)>,
}

impl Desk {
    pub fn new(options: &Options) -> Self {
        let (outbox, board) = (Outbox::new(), Board::new(&options.node_name));
        // Before anything is reported that a cluster has to be told.
        let told_of = options.cluster.is_some().then(|| (outbox.copied(), board.copied_events()));
        let metrics = Arc::new(Metrics::new(&options.node_name, server::VERSION.git_version));
        Self { outbox, board, health: Health::new(), metrics, told_of }
    }
}

/// What a node stands on.
pub(super) struct Ground {
    /// The engine whose sandboxes have addresses.
    pub runtime: Arc<dyn Runtime>,
    /// Whether pods have a network, and if not, why.
    pub network: watch::Receiver<Result<(), String>>,
    /// The ranges that pods get addresses of from the kubelet.
    pub ranges: Vec<IpNet>,
    /// Who hears of the other nodes.
    pub told: watch::Sender<Option<Arc<Members>>>,
    pub cgroups: Option<Arc<Cgroups>>,
    pub slices: Option<Arc<Slices>>,
}

/// What is left to be done with rooms that work.
pub(super) struct Rooms {
    pub journal: Journal,
    pub stats: Arc<Meter>,
    /// Changes when a file of the node's identity was written that it keeps itself.
    pub written: Option<watch::Receiver<()>>,
}

/// Begins the work of all rooms.
pub(super) fn begin(options: &Options, desk: &Desk, ground: Ground) -> Rooms {
    let Desk { outbox, board, health, metrics, told_of } = desk;
    let Ground { runtime, network, ranges, told, cgroups, slices } = ground;
    let observer = Observer::new(runtime.clone(), metrics.clone(), health.clone());
    let (desired, wanted) = watch::channel(Arc::new(Desired::default()));
    let drivers = cgroups.iter().map(|_| CgroupDriver::Cgroupfs);
    let drivers = drivers.chain(slices.iter().map(|_| CgroupDriver::Systemd)).collect();
    let facts = engine::follow(options, drivers, &runtime, &observer, network, outbox);
    let node = desired::Node {
        labels: Some(node::labels(options)),
        max_pods: Some(options.max_pods),
        allocatable: node::allocatable(&facts.borrow()),
        facts: facts.borrow().clone(),
    };
    let images =
        Images::new(runtime.clone(), options.max_parallel_image_pulls, &options.root_dir, metrics.clone());
    let tools = Tools {
        runtime,
        observer: observer.clone(),
        images: Arc::new(images),
        metrics: metrics.clone(),
        cgroups,
        slices,
        volumes: Arc::new(Volumes::new(&options.root_dir)),
        outbox: outbox.clone(),
        facts,
        finished: Finished::default(),
        back_off: BackOff::default(),
        root_dir: options.root_dir.clone(),
        sandbox_image: options.sandbox_image.clone().unwrap_or_else(|| docker::pause_image().to_owned()),
    };
    let journal = Journal::new(&options.root_dir);
    journal.restore(board, Timestamp::now());
    tokio::spawn(board.clone().drain(outbox.clone()));
    tokio::spawn(journal.clone().keep(board.clone()));
    let seen = observer.clone();
    let look = move || {
        let known = seen.known().into_iter();
        known.map(|known| (known.uid.clone(), seen.pod(&known.uid))).collect::<Vec<_>>()
    };
    let stats = Meter::new(&options.node_name, &options.root_dir, Box::new(look));
    tokio::spawn(observer.run());
    tokio::spawn(Pool::new(Arc::new(tools), node).run(wanted));
    let all = desired.subscribe();
    let snapshots = dispatch::follow(options, outbox.clone(), board.clone(), desired);
    let written = options.cluster.clone().zip(told_of.clone()).and_then(|(cluster, (reports, events))| {
        // A node that has joined renews what it has been given, by whichever flags it is started again.
        let cluster = Cluster { serving: cluster.serving || identity::is_kept(&options.cert_dir), ..cluster };
        let keeps_all = cluster.serving;
        let given = options.node_ip;
        let settings = identity::Settings {
            node: options.node_name.clone(),
            cluster,
            cert_dir: options.cert_dir.clone(),
            addresses: Box::new(move || node::addresses(given)),
        };
        let identity = identity::start(settings, outbox);
        let settings = cluster::Settings {
            node: options.node_name.clone(),
            root_dir: options.root_dir.clone(),
            wanted: options.pod_cidrs.clone(),
            chosen: ranges,
            way: identity.way,
            shown: board.node(),
            snapshots,
            reports,
            desired: all,
            events,
        };
        cluster::start(settings, told, outbox);
        keeps_all.then_some(identity.files)
    });
    Rooms { journal, stats, written }
}
