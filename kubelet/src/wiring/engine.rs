//! What is known of the engine and the machine, carried to whoever needs it: facts to the workers, the node's report to the world.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::node::{self, Addresses, EngineState, Moment, Short};
use crate::observe::{Engine, Observer};
use crate::observed::Timestamp;
use crate::options::Options;
use crate::report::{About, NodeCondition, Outbox, Severity};
use crate::runtime::{Info, Runtime};
use crate::server;
use crate::spec::{CgroupDriver, Facts};

/// The node is told of anew this often though nothing changed: `nodeStatusReportFrequency` of a KubeletConfiguration.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// Facts of the node, asked of the engine anew whenever it comes back.
pub(super) fn follow(
    options: &Options,
    drivers: Vec<CgroupDriver>,
    runtime: &Arc<dyn Runtime>,
    observer: &Arc<Observer>,
    network: watch::Receiver<Result<(), String>>,
    outbox: &Arc<Outbox>,
) -> watch::Receiver<Arc<Facts>> {
    // Before they are looked at, so that no change goes by.
    let addresses = Addresses::follow(options.node_ip);
    let own = node::facts(options);
    let (facts, known) = watch::channel(Arc::new(own.clone()));
    let (data_root, its_root) = watch::channel(PathBuf::new());
    let follower = Follower {
        options: options.clone(),
        drivers,
        runtime: runtime.clone(),
        engine: observer.engine(),
        network,
        pressures: node::pressures(&options.root_dir, its_root),
        addresses,
        own,
        facts,
        data_root,
        outbox: outbox.clone(),
        conditions: Vec::new(),
    };
    tokio::spawn(follower.run());
    known
}

/// Who tells of the node.
struct Follower {
    options: Options,
    drivers: Vec<CgroupDriver>,
    runtime: Arc<dyn Runtime>,
    engine: watch::Receiver<Engine>,
    network: watch::Receiver<Result<(), String>>,
    /// What the machine runs short of; `None` before that is known.
    pressures: watch::Receiver<Option<Short>>,
    addresses: Addresses,
    /// What the node is without its engine.
    own: Facts,
    facts: watch::Sender<Arc<Facts>>,
    /// The engine's directory.
    data_root: watch::Sender<PathBuf>,
    outbox: Arc<Outbox>,
    /// As they were told last.
    conditions: Vec<NodeCondition>,
}

impl Follower {
    async fn run(mut self) {
        let mut found = self.ask().await;
        let mut was_up = false;
        if self.pressures.wait_for(Option::is_some).await.is_err() {
            return;
        }
        loop {
            let whole = self.report(&found);
            if was_up != whole.is_ok() {
                was_up = whole.is_ok();
                tell(&self.outbox, &self.options.node_name, whole);
            }
            tokio::select! {
                changed = self.engine.changed() => if changed.is_err() { return },
                // Whoever gives pods their network lives as long as this does, or has nothing more to say.
                () = changed(&mut self.network) => {}
                () = self.addresses.moved(&self.own.host_ips) => self.own = node::facts(&self.options),
                // Of that the engine knows nothing.
                () = changed(&mut self.pressures) => continue,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
            found = self.ask().await;
        }
    }

    /// What the engine is, or why that is not known; whoever goes by it hears of it.
    async fn ask(&mut self) -> Result<Info, String> {
        let engine = self.engine.borrow_and_update().clone();
        let found = match engine {
            Engine::Up => self.runtime.info().await.map_err(|error| error.to_string()),
            Engine::Down { message, .. } => Err(message),
            Engine::Unknown => Err("it has not been asked yet".to_owned()),
        };
        if let Ok(info) = &found {
            self.facts.send_replace(node::with_engine(&self.own, info, &self.drivers));
            let data_root = PathBuf::from(&info.data_root);
            self.data_root.send_if_modified(|known| std::mem::replace(known, data_root.clone()) != data_root);
        }
        found
    }

    /// Tells how the node is now; what the engine is where pods have all they need.
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
        let version = server::VERSION.git_version;
        let report = node::report(&self.options, &facts, moment, version, &self.conditions);
        self.conditions.clone_from(&report.conditions);
        self.outbox.node(report);
        let info = found.as_ref().map_err(String::clone)?;
        of_pods.map(|()| info).map_err(|why| format!("its pods have no network: {why}"))
    }
}

async fn changed<T>(told: &mut watch::Receiver<T>) {
    if told.changed().await.is_err() {
        std::future::pending().await
    }
}

fn tell(outbox: &Outbox, node: &str, found: Result<&Info, String>) {
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
