//! Keeps this node's Node: makes it, takes over one that is there, tells how the node is, and makes it again when it is gone.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::patience::Patience;
use super::{NODES, is_told_elsewhere, node};
use crate::identity::{Api, Trouble, Voice};
use crate::network::Members;

/// How the node is is told so often though nothing has changed: the stock `nodeStatusReportFrequency`.
const HEARTBEAT: Duration = Duration::from_secs(5 * 60);
/// What others have written over is told again, but no more often: two who disagree would write all the time. The stock
/// `nodeStatusUpdateFrequency`.
const RETOLD: Duration = Duration::from_secs(10);
/// No master says of a node within this time that it does not hear it: how long its lease lasts, the stock `nodeLeaseDurationSeconds`.
const UNHEARD: Duration = Duration::from_secs(40);
/// What changes within this time is told together.
const GATHER: Duration = Duration::from_millis(200);
/// No server is obeyed that wants to be left alone for longer.
const LONGEST_OBEYED: Duration = Duration::from_secs(600);

/// Who keeps it.
pub struct Register {
    /// The node's name.
    pub node: String,
    /// The ranges that its pods are to have by its flags.
    pub wanted: Vec<IpNet>,
    /// Those that it has chosen itself.
    pub chosen: Vec<IpNet>,
    /// What its cluster has given it.
    pub members: watch::Receiver<Option<Arc<Members>>>,
    /// Whom to tell.
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// The Node as this node shows it itself.
    pub shown: watch::Receiver<Arc<Map<String, Value>>>,
    /// Told when the cluster has no Node for this node.
    pub missing: Arc<Notify>,
    /// Whether the cluster says that it does not hear this node.
    pub unheard: watch::Receiver<bool>,
    /// Who tells people.
    pub voice: Voice,
}

/// The Node as the cluster has it, when it was written last.
#[derive(Debug)]
struct There {
    object: Value,
    /// When its status was written last.
    told: Instant,
    due: Instant,
}

impl Register {
    /// Keeps it for as long as the kubelet runs.
    pub async fn run(mut self) {
        let mut there: Option<There> = None;
        let mut patience = Patience::obeying(LONGEST_OBEYED);
        loop {
            let api = self.apis.borrow_and_update().clone();
            let shown = self.shown.borrow_and_update().clone();
            let Some(api) = api.filter(|_| node::is_whole(&shown)) else {
                tokio::select! {
                    changed = self.apis.changed() => if changed.is_err() { return },
                    changed = self.shown.changed() => if changed.is_err() { return },
                }
                continue;
            };
            match self.keep(&api, &shown, there.take()).await {
                Ok(found) => {
                    patience.is_fine();
                    there = self.wait(found).await;
                }
                Err(trouble) => {
                    self.complain(&trouble, patience.failures());
                    if patience.wait(&trouble, &mut self.apis).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Writes what is to be written now; what it knows of the Node then.
    async fn keep(
        &mut self,
        api: &Api,
        shown: &Map<String, Value>,
        there: Option<There>,
    ) -> Result<There, Trouble> {
        let path = format!("{NODES}/{}", self.node);
        let (mut object, told, due) = match there {
            Some(there) if there.told.elapsed() < UNHEARD => (there.object, there.told, there.due),
            // A master may have written of it meanwhile that it does not hear it, since when counts.
            Some(there) => (api.get(&path).await?, there.told, there.due),
            // One that was there before is told all of it at once.
            None => (self.found(api, &path, shown).await?, Instant::now(), Instant::now()),
        };
        if let Some(labels) = node::relabelled(shown, &object) {
            object = api.patch(&path, &labels).await?;
        }
        let now = Instant::now();
        let Some(status) = node::restated(shown, &object, now >= due, Timestamp::now()) else {
            return Ok(There { object, told, due });
        };
        let object = api.patch(&format!("{path}/status"), &status).await?;
        Ok(There { object, told: now, due: now + HEARTBEAT })
    }

    /// The Node, made where there is none. It is sent first, as a master that keeps its place lets it be written over once.
    async fn found(&mut self, api: &Api, path: &str, shown: &Map<String, Value>) -> Result<Value, Trouble> {
        match api.post(NODES, &node::made(shown, &self.claim())).await {
            Ok(made) => {
                let range = made["spec"]["podCIDR"].as_str();
                let range =
                    range.map_or_else(String::new, |range| format!(", its pods have addresses of {range}"));
                let text = format!("node {} is registered at {}{range}", self.node, api.server());
                self.voice.tell("NodeRegistered", text);
                Ok(made)
            }
            Err(trouble) if trouble.is_code(409) => api.get(path).await,
            Err(trouble) => Err(trouble),
        }
    }

    /// The ranges to ask for: those of the flag; or those that its cluster gave it, since pods have their addresses still after the
    /// Node was deleted or the master lost it; or those that it chose itself.
    fn claim(&self) -> Vec<IpNet> {
        if !self.wanted.is_empty() {
            return self.wanted.clone();
        }
        let given = self.members.borrow().as_ref().map(|members| members.own.clone()).unwrap_or_default();
        if given.is_empty() { self.chosen.clone() } else { given }
    }

    /// Waits until something may have to be written; what is known of the Node still.
    async fn wait(&mut self, there: There) -> Option<There> {
        tokio::select! {
            // What is shown changes for as long as the kubelet runs, or not any more.
            changed = self.shown.changed() => if changed.is_err() { std::future::pending::<()>().await },
            // Another way to the same Node; and it may be another cluster's.
            _ = self.apis.changed() => return None,
            () = self.missing.notified() => return None,
            () = unheard(&mut self.unheard, there.told) => return None,
            () = tokio::time::sleep_until(there.due) => {}
        }
        tokio::time::sleep(GATHER).await;
        Some(there)
    }

    /// Tells a person, who may have to do something.
    fn complain(&mut self, trouble: &Trouble, failures: u32) {
        // A master that is away for a moment is no news, and whoever keeps the certificate tells what is wrong with that.
        let is_away = matches!(trouble, Trouble::Unreachable { .. }) && failures == 0;
        // A Node that goes at the moment at which it is written is made again.
        let is_gone = trouble.is_code(404) && failures == 0;
        if is_away || is_gone || is_told_elsewhere(trouble) {
            return;
        }
        let remedy = match trouble {
            Trouble::Refused { code: 403, .. } if !trouble.has_remedy() => {
                "; let the node in there (docs/joining.md, \"Registered, ready, trusted\"), the kubelet tries again by itself"
            }
            _ => "",
        };
        let node = &self.node;
        let text =
            format!("node {node} cannot be shown to its cluster: {trouble}{remedy}; its own pods run on");
        self.voice.warn("NodeNotRegistered", text, Timestamp::now());
    }
}

/// Waits until the cluster does not hear this node, though it has been told since.
async fn unheard(is_unheard: &mut watch::Receiver<bool>, told: Instant) {
    tokio::time::sleep_until(told + RETOLD).await;
    if is_unheard.wait_for(|is| *is).await.is_err() {
        std::future::pending().await
    }
}
