//! What is known of the engine, carried to whoever needs it: facts to the workers, the node's report to the world.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::node::{self, EngineState, Left, Moment, Pressures};
use crate::observe::{Engine, Observer};
use crate::observed::Timestamp;
use crate::options::Options;
use crate::report::{About, Outbox, Severity};
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
    mut network: watch::Receiver<Result<(), String>>,
    outbox: &Arc<Outbox>,
) -> watch::Receiver<Arc<Facts>> {
    // Before they are looked at, so that no change goes by.
    let mut addresses = node::Addresses::follow(options.node_ip);
    let mut own = node::facts(options);
    let (facts, known) = watch::channel(Arc::new(own.clone()));
    let (runtime, observer) = (runtime.clone(), observer.clone());
    let (options, outbox) = (options.clone(), outbox.clone());
    tokio::spawn(async move {
        let mut engine = observer.engine();
        let (mut conditions, mut pressures) = (Vec::new(), Pressures::default());
        let mut data_root = PathBuf::new();
        let mut was_up = false;
        loop {
            let now = engine.borrow_and_update().clone();
            let found = ask(runtime.as_ref(), &now).await;
            let state = match &found {
                Ok(info) => {
                    facts.send_replace(node::with_engine(&own, info, &drivers));
                    data_root = PathBuf::from(&info.data_root);
                    EngineState::Up(info)
                }
                Err(why) => EngineState::Down(why),
            };
            let facts = facts.borrow().clone();
            let version = server::VERSION.git_version;
            let of_pods = network.borrow_and_update().clone();
            let reaches = of_pods.as_ref().map(|_| ()).map_err(String::as_str);
            let left = Left::now(options.root_dir.clone(), data_root.clone()).await;
            let now = Timestamp::now();
            let pressures = pressures.told(&left, now);
            let moment = Moment { engine: state, network: reaches, pressures: &pressures, now };
            let report = node::report(&options, &facts, moment, version, &conditions);
            conditions.clone_from(&report.conditions);
            outbox.node(report);
            let found = found.and_then(|info| {
                of_pods.map(|()| info).map_err(|why| format!("its pods have no network: {why}"))
            });
            if was_up != found.is_ok() {
                was_up = found.is_ok();
                tell(&outbox, &options.node_name, &found);
            }
            tokio::select! {
                changed = engine.changed() => if changed.is_err() { return },
                // Whoever gives pods their network lives as long as this does, or has nothing more to say.
                () = changed(&mut network) => {}
                () = addresses.moved(&own.host_ips) => own = node::facts(&options),
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
        }
    });
    known
}

async fn changed<T>(told: &mut watch::Receiver<T>) {
    if told.changed().await.is_err() {
        std::future::pending().await
    }
}

/// What the engine is, or why that is not known.
async fn ask(runtime: &dyn Runtime, engine: &Engine) -> Result<Info, String> {
    match engine {
        Engine::Up => runtime.info().await.map_err(|error| error.to_string()),
        Engine::Down { message, .. } => Err(message.clone()),
        Engine::Unknown => Err("it has not been asked yet".to_owned()),
    }
}

fn tell(outbox: &Outbox, node: &str, found: &Result<Info, String>) {
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
