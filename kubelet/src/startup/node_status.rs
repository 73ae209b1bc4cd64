//! Updates node facts and reports the node status: engine, addresses, pod network and pressure.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::tasks::Tasks;
use tokio::sync::watch;

use crate::node::{self, Addresses, EngineState, Moment};
use crate::observed::{PressureStates, Timestamp};
use crate::options::Options;
use crate::pleg::EngineHealth;
use crate::report::{About, NodeCondition, NodeImage, Outbox, Severity};
use crate::runtime::{Image, Info, Runtime};
use crate::spec::{CgroupDriver, Facts};

/// Interval between node status reports without changes; `nodeStatusReportFrequency` of KubeletConfiguration.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// Maximum number of images in the status, the largest first; the stock default of `nodeStatusMaxImages`.
const MAX_IMAGES: usize = 50;
/// Maximum number of names of an image in the status, as in the stock kubelet.
const MAX_NAMES: usize = 5;

/// What the node status is computed from.
pub(super) struct Sources {
    /// The cgroup drivers with which pods can have cgroups.
    pub drivers: Vec<CgroupDriver>,
    pub runtime: Arc<dyn Runtime>,
    pub engine: watch::Receiver<EngineHealth>,
    /// Health of the pod network.
    pub network: watch::Receiver<Result<(), String>>,
    /// Resource pressure, or `None` until it is known.
    pub pressures: watch::Receiver<Option<PressureStates>>,
}

/// The node facts, which are updated whenever the engine becomes available, and the engine's data directory.
pub(super) fn follow(
    options: &Options,
    sources: Sources,
    outbox: &Arc<Outbox>,
    tasks: &mut Tasks,
) -> (watch::Receiver<Arc<Facts>>, watch::Receiver<PathBuf>) {
    // Subscribed before the addresses are read, so that no change is missed.
    let addresses = Addresses::follow(options.node_ip);
    let base_facts = node::facts(options);
    let (facts, known) = watch::channel(Arc::new(base_facts.clone()));
    let (data_root, its_root) = watch::channel(PathBuf::new());
    let Sources { drivers, runtime, engine, network, pressures } = sources;
    let follower = NodeStatusUpdater {
        options: options.clone(),
        drivers,
        runtime,
        engine,
        network,
        pressures,
        addresses,
        base_facts,
        facts,
        data_root,
        outbox: outbox.clone(),
        conditions: Vec::new(),
        images: Vec::new(),
    };
    tasks.spawn("node status", follower.run());
    (known, its_root)
}

/// The task that reports the node status.
struct NodeStatusUpdater {
    options: Options,
    drivers: Vec<CgroupDriver>,
    runtime: Arc<dyn Runtime>,
    engine: watch::Receiver<EngineHealth>,
    network: watch::Receiver<Result<(), String>>,
    /// Resource pressure, or `None` until it is known.
    pressures: watch::Receiver<Option<PressureStates>>,
    addresses: Addresses,
    /// Facts that do not depend on the engine.
    base_facts: Facts,
    facts: watch::Sender<Arc<Facts>>,
    /// The engine's data directory.
    data_root: watch::Sender<PathBuf>,
    outbox: Arc<Outbox>,
    /// The conditions that were last reported.
    conditions: Vec<NodeCondition>,
    /// The largest images of the engine at its last answer.
    images: Vec<NodeImage>,
}

impl NodeStatusUpdater {
    async fn run(mut self) {
        let mut found = self.query_engine().await;
        let mut was_up = false;
        if self.pressures.wait_for(Option::is_some).await.is_err() {
            return;
        }
        loop {
            let whole = self.report(&found);
            if was_up != whole.is_ok() {
                was_up = whole.is_ok();
                report_transition(&self.outbox, &self.options.node_name, whole);
            }
            tokio::select! {
                changed = self.engine.changed() => if changed.is_err() { return },
                // The sender lives as long as this task, or has no more changes to report.
                () = changed(&mut self.network) => {}
                () = self.addresses.moved(&self.base_facts.host_ips) => self.base_facts = node::facts(&self.options),
                // Pressure changes need no request to the engine.
                () = changed(&mut self.pressures) => continue,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
            found = self.query_engine().await;
        }
    }

    /// Queries the facts of the engine and publishes them. The error says why they are unknown.
    async fn query_engine(&mut self) -> Result<Info, String> {
        let engine = self.engine.borrow_and_update().clone();
        let found = match engine {
            EngineHealth::Up => self.runtime.info().await.map_err(|error| error.to_string()),
            EngineHealth::Down { message, .. } => Err(message),
            EngineHealth::Unknown => Err("it has not answered yet".to_owned()),
        };
        if let Ok(info) = &found {
            self.facts.send_replace(node::with_engine(&self.base_facts, info, &self.drivers));
            let data_root = PathBuf::from(&info.data_root);
            self.data_root.send_if_modified(|known| std::mem::replace(known, data_root.clone()) != data_root);
            // Last, because nothing else waits for the images.
            match self.runtime.images().await {
                Ok(images) => self.images = largest(images),
                Err(error) => {
                    tracing::warn!(%error, "cannot list images, the node status keeps the previous ones")
                }
            }
        }
        found
    }

    /// Reports the node status. Returns the engine's facts if pods can run.
    fn report<'a>(&mut self, found: &'a Result<Info, String>) -> Result<&'a Info, String> {
        let facts = self.facts.borrow().clone();
        let of_pods = self.network.borrow_and_update().clone();
        let pressures = self.pressures.borrow_and_update().clone().unwrap_or_default();
        let moment = Moment {
            engine: found.as_ref().map_or_else(|why| EngineState::Down(why), EngineState::Up),
            network: of_pods.as_ref().map(|_| ()).map_err(String::as_str),
            pressures: &pressures,
            now: Timestamp::now(),
        };
        let version = apiserver::VERSION.git_version;
        let mut report = node::report(&self.options, &facts, moment, version, &self.conditions);
        report.images.clone_from(&self.images);
        self.conditions.clone_from(&report.conditions);
        self.outbox.node(report);
        let info = found.as_ref().map_err(String::clone)?;
        of_pods.map(|()| info).map_err(|why| format!("its pods have no network: {why}"))
    }
}

/// The images for the node status.
fn largest(mut images: Vec<Image>) -> Vec<NodeImage> {
    images.sort_by(|a, b| b.size_bytes.cmp(&a.size_bytes).then_with(|| a.id.cmp(&b.id)));
    let named = images.into_iter().map(|image| NodeImage {
        names: image.repo_digest.into_iter().chain(image.tags).take(MAX_NAMES).collect(),
        size_bytes: image.size_bytes,
    });
    named.filter(|image| !image.names.is_empty()).take(MAX_IMAGES).collect()
}

async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}

fn report_transition(outbox: &Outbox, node: &str, found: Result<&Info, String>) {
    match found {
        Ok(info) => {
            let message = format!("Node {node} is ready: engine {} answers", info.version);
            outbox.note(About::node(node), Severity::Normal, "NodeReady", message);
        }
        Err(why) => {
            let message = format!("Node {node} is not ready: {why}");
            outbox.note(About::node(node), Severity::Warning, "NodeNotReady", message);
        }
    }
}

#[cfg(test)]
mod tests;
