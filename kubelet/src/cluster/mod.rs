//! A node that has joined, as its cluster knows it: its Node there, its pods, and what it hears of the others.
//!
//! `follow` is how anything of the cluster is followed, by a list and a watch behind it; `register` keeps the node's own Node, `lease`
//! its heartbeat, `events` tells what happens, and `pods` is the master as a source of pods. What is pure decides: `node` what is written of the Node, `roster` what
//! the network of pods goes by, `kept` is that on the disk.

mod events;
mod follow;
mod kept;
mod lease;
mod node;
mod patience;
mod pods;
mod register;
mod roster;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use self::events::Poster;
use self::follow::{Told, follow};
use self::kept::Kept;
use self::lease::Lease;
use self::register::Register;
use self::roster::{Line, News, Roster};
use crate::desired::{Desired, Snapshot};
use crate::identity::{Api, Known, Trouble, Voice};
use crate::network::Members;
use crate::report::{Events, Outbox, Reports};

/// What is told is looked at again after so long though nothing was heard.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// A server that shows no other nodes is asked for them again after so long: a role may let it.
const ALL_AGAIN: Duration = Duration::from_secs(60);
/// What is new of other nodes is told after so long, together with what comes meanwhile: many join at once, and each of them hears
/// of all others.
const GATHER: Duration = Duration::from_millis(50);
/// So much longer for each node there is, as that is what there is to do then.
const GATHER_EACH: Duration = Duration::from_millis(1);
/// The path of Nodes in the API.
const NODES: &str = "/api/v1/nodes";

/// What the cluster is told, and by whom.
#[derive(Debug)]
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// Where what is known of other nodes is kept.
    pub root_dir: PathBuf,
    /// The ranges that pods of this node are to have addresses of by its flags; empty where they say nothing.
    pub wanted: Vec<IpNet>,
    /// The ranges that they have addresses of.
    pub chosen: Vec<IpNet>,
    /// The way to the API server.
    pub way: watch::Receiver<Option<Known>>,
    /// The Node as this node shows it itself.
    pub shown: watch::Receiver<Arc<Map<String, Value>>>,
    /// Who runs the pods that the cluster has put on this node.
    pub snapshots: mpsc::Sender<Arc<Snapshot>>,
    /// What becomes of pods.
    pub reports: Arc<Reports>,
    /// What happens on this node.
    pub events: Arc<Events>,
    /// All that is wanted on this node, by whomever.
    pub desired: watch::Receiver<Arc<Desired>>,
}

/// Begins to keep the Node, and to follow its pods and the others; what is known of them is told, at first as it was kept on the disk.
pub fn start(settings: Settings, told: watch::Sender<Option<Arc<Members>>>, outbox: &Arc<Outbox>) {
    let voice = || Voice::new(&settings.node, outbox.clone());
    let apis = connect(settings.way.clone(), voice());
    let (missing, (unheard, is_unheard)) = (Arc::new(Notify::new()), watch::channel(false));
    let register = Register {
        node: settings.node.clone(),
        wanted: settings.wanted,
        chosen: settings.chosen,
        members: told.subscribe(),
        apis: apis.clone(),
        shown: settings.shown,
        missing: missing.clone(),
        unheard: is_unheard,
        voice: voice(),
    };
    tokio::spawn(register.run());
    let lease = Lease { node: settings.node.clone(), apis: apis.clone(), voice: voice() };
    tokio::spawn(lease.run());
    let pods = pods::Settings {
        node: settings.node.clone(),
        root_dir: settings.root_dir.clone(),
        apis: apis.clone(),
        snapshots: settings.snapshots,
        reports: settings.reports,
        desired: settings.desired,
        outbox: outbox.clone(),
    };
    let images = pods::start(pods, voice);
    let known_as = Box::new(move |uid: &str| images.hash_of(uid));
    tokio::spawn(Poster { events: settings.events, apis: apis.clone(), known_as }.run());
    let (node, again) = (settings.node.clone(), voice());
    let all_again = ALL_AGAIN;
    let listener = Listener { node, voice: voice(), again, all_again, told, missing, unheard };
    tokio::spawn(listener.run(apis, Kept::under(&settings.root_dir)));
}

/// The directory of what is kept of a cluster.
fn directory(root_dir: &Path) -> PathBuf {
    root_dir.join("cluster")
}

/// A client for the way of each moment; requests that are under way go on over the one they began with.
fn connect(mut way: watch::Receiver<Option<Known>>, mut voice: Voice) -> watch::Receiver<Option<Arc<Api>>> {
    let (shown, apis) = watch::channel(None);
    tokio::spawn(async move {
        let mut is_troubled = false;
        loop {
            let known = way.borrow_and_update().clone();
            let api = match known.as_ref().map(Api::new).transpose() {
                Ok(api) => {
                    if api.is_some() && std::mem::take(&mut is_troubled) {
                        let text = "the API server can be asked again".to_owned();
                        voice.say("ClusterTroubleOver", text, Timestamp::now());
                    }
                    api.map(Arc::new)
                }
                Err(trouble) => {
                    is_troubled = true;
                    voice.warn(
                        "ClusterTrouble",
                        format!("the API server cannot be asked: {trouble}"),
                        jiff::Timestamp::now(),
                    );
                    None
                }
            };
            shown.send_replace(api);
            if way.changed().await.is_err() {
                return;
            }
        }
    });
    apis
}

/// Hears of all nodes, and tells what the network goes by.
struct Listener {
    node: String,
    voice: Voice,
    /// Who says that other nodes are shown again.
    again: Voice,
    /// When they are asked for again where they are not.
    all_again: Duration,
    told: watch::Sender<Option<Arc<Members>>>,
    /// Told when the cluster has no Node for this node.
    missing: Arc<Notify>,
    /// Whether the cluster says that it does not hear this node.
    unheard: watch::Sender<bool>,
}

impl Listener {
    async fn run(mut self, apis: watch::Receiver<Option<Arc<Api>>>, kept: Kept) {
        if let Some(members) = kept.read().await {
            self.told.send_replace(Some(Arc::new(members)));
        }
        tokio::spawn(kept.write(self.told.subscribe()));
        let roster = Mutex::new(Roster::new(&self.node));
        let news = Notify::new();
        let own = format!("?fieldSelector=metadata.name%3D{}", self.node);
        let (mut sees_all, mut are_hidden) = (true, false);
        loop {
            let selector = if sees_all { "" } else { own.as_str() };
            let (node, told, missing, unheard) = (&self.node, &self.told, &self.missing, &self.unheard);
            let locked = || roster.lock().unwrap_or_else(PoisonError::into_inner);
            let look = |heard: Option<Told<Line>>| {
                let mut roster = locked();
                if let Some(heard) = heard {
                    if let Some(is_unheard) = roster::is_unheard(&heard, node) {
                        unheard.send_replace(is_unheard);
                    }
                    let heard = roster.hear(heard);
                    if !roster.has(node) {
                        missing.notify_one();
                    }
                    match heard {
                        News::None => return,
                        News::OfOthers => return news.notify_one(),
                        News::OfOwn => {}
                    }
                }
                tell(&mut roster, told);
            };
            let gathered = || async {
                news.notified().await;
                let each = GATHER_EACH.saturating_mul(u32::try_from(locked().len()).unwrap_or(u32::MAX));
                tokio::time::sleep(GATHER + each).await;
            };
            locked().sees(sees_all);
            let all_again = Instant::now() + self.all_again;
            let again = &mut self.again;
            let mut hear = |heard| {
                if sees_all && matches!(heard, Told::All(..)) && std::mem::take(&mut are_hidden) {
                    let text = "the API server shows this node the other nodes".to_owned();
                    again.tell("NodesShown", text);
                }
                look(Some(heard));
            };
            let voice = &mut self.voice;
            let troubled = |trouble: &Trouble| {
                if !is_told_elsewhere(trouble) {
                    let text = format!(
                        "what happens in the cluster is not heard: {trouble}; pods run on, and what was known still counts"
                    );
                    voice.warn("ClusterUnheard", text, Timestamp::now());
                }
            };
            let refused = {
                let mut following = pin!(follow(apis.clone(), NODES, selector, &mut hear, troubled));
                loop {
                    tokio::select! {
                        ended = &mut following => match ended {
                            Some(trouble) => break Some(trouble),
                            None => return,
                        },
                        () = gathered() => look(None),
                        // Those that were waited for may be waited for no longer.
                        () = tokio::time::sleep(LOOK_AGAIN) => look(None),
                        () = tokio::time::sleep_until(all_again), if !sees_all => break None,
                    }
                }
            };
            match refused {
                Some(trouble) if sees_all => {
                    (sees_all, are_hidden) = (false, true);
                    self.shows_no_others(&trouble);
                }
                Some(_) => tokio::time::sleep_until(all_again).await,
                None => sees_all = true,
            }
        }
    }

    /// A stock server shows a node no Node but its own.
    fn shows_no_others(&mut self, trouble: &Trouble) {
        let text = format!(
            "the API server shows this node no other nodes ({trouble}), so pods here do not reach those of other nodes by themselves; \
             let nodes read nodes: kubectl create clusterrole nodes-read-nodes --verb=get,list,watch --resource=nodes, and kubectl create \
             clusterrolebinding nodes-read-nodes --clusterrole=nodes-read-nodes --group=system:nodes"
        );
        self.voice.warn("NodesNotShown", text, jiff::Timestamp::now());
    }
}

/// Tells what is known now, if it is news.
fn tell(roster: &mut Roster, told: &watch::Sender<Option<Arc<Members>>>) {
    told.send_if_modified(|before| {
        let Some(members) = roster.members(before.as_deref(), Instant::now()) else { return false };
        if before.as_deref() == Some(&members) {
            return false;
        }
        *before = Some(Arc::new(members));
        true
    });
}

/// Whether trouble is that of the certificate, which whoever keeps it tells.
fn is_told_elsewhere(trouble: &Trouble) -> bool {
    trouble.is_unregistered() || trouble.is_code(401)
}
