//! The master and the pods of this node: those that it has put here with what they refer to, what becomes of all, and images of the rest.
//!
//! What is pure decides: `line` what a pod of the API says to this node, `book` which run here, `shelf` what they refer to, `waits` which
//! have waited long for that, `status` what is written of them, `tokens` which tokens are asked for when, `mirrors` which images the API
//! is to have of the node's own pods. `kept` is that on the disk; `tell` writes statuses to the API, `ask` asks it for tokens, `reflect`
//! makes the images. `docs/cluster-node.md` has the rules for people.

mod ask;
mod book;
mod kept;
mod line;
mod mirrors;
mod reflect;
mod shelf;
mod status;
mod tell;
#[cfg(test)]
mod tests;
mod tokens;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver::auth::nodes::Object;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::ask::Asker;
use self::book::Book;
use self::kept::{Kept, Picture};
use self::mirrors::Mirrors;
use self::reflect::Reflector;
use self::shelf::{API_SERVICE, Shelf};
use self::tell::Teller;
use self::waits::Waits;
use super::follow::{Told, follow};
use super::patience::may_be_its_own;
use super::{NODES, is_told_elsewhere};
use crate::desired::{Desired, Snapshot};
use crate::identity::{Api, Trouble, Voice, back_off, chance};
use crate::observed::PodUid;
use crate::report::{About, Outbox, Reports, Severity};

/// The path of pods in the API.
const PODS: &str = "/api/v1/pods";
/// A server that does not show them is asked again after so long: a role may let it.
const AGAIN: Duration = Duration::from_secs(60);

/// Whose pods, and where they go.
pub(super) struct Settings {
    /// The node's name.
    pub node: String,
    /// Where they are kept.
    pub root_dir: PathBuf,
    /// Whom to ask.
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// Who runs them.
    pub snapshots: mpsc::Sender<Arc<Snapshot>>,
    /// What becomes of them.
    pub reports: Arc<Reports>,
    /// All that is wanted here, of the node's own sources too.
    pub desired: watch::Receiver<Arc<Desired>>,
    /// Who tells people of them.
    pub outbox: Arc<Outbox>,
}

/// How the cluster knows the pods that this node has from elsewhere.
pub(super) struct Images(Arc<Shared>);

impl Images {
    /// The hash of such a pod.
    pub fn hash_of(&self, uid: &str) -> Option<String> {
        self.0.lock().mirrors.hash_of(uid).map(str::to_owned)
    }
}

/// Begins to follow the pods of this node and to tell of them.
pub(super) fn start(settings: Settings, voice: impl Fn() -> Voice) -> Images {
    let changed = watch::channel(()).0;
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            book: Book::new(&settings.node),
            shelf: Shelf::default(),
            mirrors: Mirrors::default(),
            touched: BTreeSet::new(),
        }),
        changed,
        list_anew: Notify::new(),
    });
    let Settings { node, root_dir, apis, snapshots, reports, desired, outbox } = settings;
    let asker = Asker { shared: shared.clone(), apis: apis.clone(), outbox: outbox.clone() };
    let reflector = Reflector {
        node: node.clone(),
        shared: shared.clone(),
        apis: apis.clone(),
        desired,
        outbox: outbox.clone(),
    };
    let teller = Teller {
        shared: shared.clone(),
        apis: apis.clone(),
        reports,
        voice: voice(),
        latest: BTreeMap::new(),
        due: BTreeSet::new(),
        tried: BTreeMap::new(),
        lists: 0,
    };
    let images = Images(shared.clone());
    let keeper = Keeper {
        node,
        shared,
        apis,
        snapshots,
        voice: voice(),
        outbox,
        waits: Waits::default(),
        has_unclaimed: false,
        pictures: watch::channel(Arc::default()).0,
        following: BTreeMap::new(),
        told: None,
        failures: 0,
    };
    tokio::spawn(keeper.run(Kept::under(&root_dir), teller, asker));
    tokio::spawn(reflector.run());
    images
}

/// What is known of pods and of what they refer to.
#[derive(Debug)]
struct State {
    book: Book,
    shelf: Shelf,
    mirrors: Mirrors,
    /// Pods of which something was heard that nobody has looked at.
    touched: BTreeSet<PodUid>,
}

/// What the rooms here have in common.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    /// The pods have to be listed anew.
    list_anew: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, told: Told<Value>) {
        let mut state = self.lock();
        if let Told::Put(value) | Told::Gone(value) = &told {
            let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            // What is heard of an image is about its pod.
            let own = state.mirrors.uid_of(text("/metadata/namespace"), text("/metadata/name")).cloned();
            state.touched.extend(own);
            state.touched.insert(PodUid::new(text("/metadata/uid")));
        }
        if !state.book.hear(told) {
            self.list_anew.notify_one();
        }
        drop(state);
        self.changed.send_replace(());
    }
}

/// Keeps what runs here as the master wants it.
struct Keeper {
    node: String,
    shared: Arc<Shared>,
    apis: watch::Receiver<Option<Arc<Api>>>,
    snapshots: mpsc::Sender<Arc<Snapshot>>,
    voice: Voice,
    outbox: Arc<Outbox>,
    waits: Waits,
    /// A pod runs on that a master which lost something does not name.
    has_unclaimed: bool,
    pictures: watch::Sender<Arc<Picture>>,
    following: BTreeMap<Object, Following>,
    told: Option<Arc<Snapshot>>,
    failures: u32,
}

/// One that is followed; not any more when it is dropped.
struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Keeper {
    async fn run(mut self, kept: Kept, teller: Teller, asker: Asker) {
        let picture = kept.read().await;
        let own = picture.of(&self.node);
        let others = picture.pods.len().saturating_sub(own.pods.len());
        if others > 0 {
            let node = &self.node;
            tracing::info!(
                node,
                pods = others,
                "forgets pods that its master gave the node under another name"
            );
        }
        {
            let mut state = self.shared.lock();
            state.book.restore(own.pods, own.seen);
            state.shelf.restore(own.held);
        }
        tokio::spawn(kept.write(picture, self.pictures.subscribe()));
        let mut heard = self.shared.changed.subscribe();
        tokio::spawn(teller.run());
        tokio::spawn(asker.run());
        tokio::spawn(follow_pods(self.shared.clone(), self.apis.clone(), self.node.clone()));
        tokio::spawn(follow_api_service(self.shared.clone(), self.apis.clone()));
        loop {
            let Some(is_in_doubt) = self.publish().await else { return };
            let long = self.waits.next();
            tokio::select! {
                changed = heard.changed() => if changed.is_err() { return },
                () = self.settle(), if is_in_doubt => {}
                () = come(long) => self.tell_waiting(),
            }
        }
    }

    /// Tells when all pods are the cluster's that a master had lost, or have gone.
    fn tell_claimed(&mut self, has_unclaimed: bool) {
        if std::mem::replace(&mut self.has_unclaimed, has_unclaimed) && !has_unclaimed {
            let text = "the API server names every pod of its own that runs here".to_owned();
            self.voice.say("PodsClaimed", text, Timestamp::now());
        }
    }

    /// Tells what is wanted now; whether something that was heard is in doubt. `None` when nobody listens any more.
    async fn publish(&mut self) -> Option<bool> {
        let (snapshot, picture, refers, is_in_doubt, asks, has_unclaimed) = {
            let mut state = self.shared.lock();
            let State { book, shelf, .. } = &mut *state;
            let refers = book.refers();
            shelf.follow(&refers);
            let asks = shelf.tokens.follow(book.at_work());
            let snapshot = Arc::new(book.snapshot(shelf));
            self.waits.follow(&snapshot.waiting, Instant::now());
            let picture = Picture {
                pods: book.given().map(|(_, given)| given.lasting.clone()).collect(),
                held: shelf.held().cloned().collect(),
                seen: book.seen().clone(),
            };
            let is_in_doubt = book.is_in_doubt() || shelf.is_in_doubt();
            (snapshot, picture, refers, is_in_doubt, asks, book.has_unclaimed())
        };
        self.tell_claimed(has_unclaimed);
        if asks {
            self.shared.changed.send_replace(());
        }
        self.following.retain(|object, _| refers.contains(object));
        for object in refers {
            let following = self.following.entry(object.clone());
            following.or_insert_with(|| {
                let task = follow_object(self.shared.clone(), self.apis.clone(), object);
                Following(tokio::spawn(task))
            });
        }
        self.pictures.send_replace(Arc::new(picture));
        if !self.told.as_ref().is_some_and(|told| told.is_same(&snapshot)) {
            self.told = Some(snapshot.clone());
            self.snapshots.send(snapshot).await.ok()?;
        }
        Some(is_in_doubt)
    }

    /// Tells of pods that wait long for what they name.
    fn tell_waiting(&mut self) {
        let due = self.waits.due(Instant::now());
        let state = self.shared.lock();
        for (pod, missing) in due.iter().filter_map(|uid| state.book.awaited(uid, &state.shelf)) {
            let (reason, text) = waits::words(pod, &missing);
            self.outbox.note(About::pod(pod), Severity::Warning, reason, text);
        }
    }

    /// Asks whether whoever said that knows this node; waits a while where that is not to be had.
    async fn settle(&mut self) {
        let api = self.apis.borrow_and_update().clone();
        let asked_of = self.shared.lock().book.heard();
        let found = match api {
            Some(api) => api.get(&format!("{NODES}/{}", self.node)).await,
            None => {
                // Whoever gives the way lives as long as this does.
                let _ = self.apis.changed().await;
                return;
            }
        };
        let uid = found.as_ref().ok().and_then(|node| node["metadata"]["uid"].as_str());
        let Some(uid) = uid else {
            if let Err(trouble) = &found {
                self.tell_doubt(trouble);
            }
            return self.pause().await;
        };
        let missing = {
            let mut state = self.shared.lock();
            let State { book, shelf, touched, .. } = &mut *state;
            if book.heard() != asked_of {
                // There is another list by now, of which that says nothing.
                return;
            }
            let missing = book.confirm(uid);
            let is_known = book.seen().node_uid.as_deref() == Some(uid);
            if is_known {
                shelf.confirm(&book.refers_unclaimed());
            }
            touched.extend(book.all_there().cloned());
            is_known.then_some(missing)
        };
        // Otherwise it is a master that lost something, and the pods that it knows are not listed yet.
        let Some(missing) = missing else { return self.pause().await };
        self.failures = 0;
        self.shared.changed.send_replace(());
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let text = format!(
                "the API server has lost what it knew, has had this node deleted, or is another one, and does not name what runs here: {}; \
                 it runs on. Make it again there, or see docs/cluster-node.md to end it",
                names.join(", ")
            );
            self.voice.warn("PodsUnclaimed", text, Timestamp::now());
        }
    }

    async fn pause(&mut self) {
        let pause = back_off(self.failures, chance());
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(pause).await;
    }

    fn tell_doubt(&mut self, trouble: &Trouble) {
        // A node that is new, or is being made again, is known in a moment.
        if self.failures > 1 && !is_told_elsewhere(trouble) && !matches!(trouble, Trouble::Unreachable { .. })
        {
            let text = format!(
                "the API server does not know this node ({trouble}), so what it says of pods does not count; pods run on as they are"
            );
            self.voice.warn("MasterDoubted", text, Timestamp::now());
        }
    }
}

/// Waits until then, for ever where that never comes.
async fn come(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Follows all pods of the node.
async fn follow_pods(shared: Arc<Shared>, apis: watch::Receiver<Option<Arc<Api>>>, node: String) {
    let selector = format!("?fieldSelector=spec.nodeName%3D{node}");
    loop {
        let mut hear = |told| shared.hear(told);
        let ended = tokio::select! {
            // That nothing is heard is told by whoever follows the nodes.
            ended = follow(apis.clone(), PODS, &selector, &mut hear, |_| {}) => ended,
            () = shared.list_anew.notified() => continue,
        };
        let Some(trouble) = ended else { return };
        tracing::warn!(%trouble, "the API server does not show this node its pods; trying again");
        tokio::time::sleep(AGAIN).await;
    }
}

/// Follows the Service by which pods find the API.
async fn follow_api_service(shared: Arc<Shared>, apis: watch::Receiver<Option<Arc<Api>>>) {
    let (namespace, name) = API_SERVICE;
    let path = format!("/api/v1/namespaces/{namespace}/services");
    let selector = format!("?fieldSelector=metadata.name%3D{name}");
    loop {
        let mut hear = |told| {
            let heard = shared.lock().shelf.hear_api_service(told);
            if let Err(why) = heard {
                tracing::warn!("the Service {name} {why}; what was known of it still counts");
            }
            shared.changed.send_replace(());
        };
        let mut is_told = false;
        let mut refused = |trouble: &Trouble| {
            // Pods do not wait for what somebody has said no to, whatever the reason.
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!(%trouble, "the API server does not show this node the Service {name}, so new pods are told where the API is only as far as that was known");
            }
            shared.lock().shelf.refused_api_service();
            shared.changed.send_replace(());
        };
        let troubled = |trouble: &Trouble| {
            if may_be_its_own(trouble) {
                refused(trouble);
            }
        };
        let ended = follow(apis.clone(), &path, &selector, &mut hear, troubled).await;
        let Some(trouble) = ended else { return };
        refused(&trouble);
        tokio::time::sleep(AGAIN).await;
    }
}

/// Follows one ConfigMap or Secret.
async fn follow_object(shared: Arc<Shared>, apis: watch::Receiver<Option<Arc<Api>>>, object: Object) {
    let path = format!("/api/v1/namespaces/{}/{}", object.namespace, object.kind.resource());
    let selector = format!("?fieldSelector=metadata.name%3D{}", object.name);
    let mut failures = 0;
    loop {
        let mut hear = |told| {
            let heard = shared.lock().shelf.hear(&object, told);
            if let Err(why) = heard {
                tracing::warn!("{path} {} {why}; what was known of it still counts", object.name);
            }
            shared.changed.send_replace(());
        };
        let troubled = |trouble: &Trouble| shared.lock().shelf.troubled(&object, trouble);
        let ended = follow(apis.clone(), &path, &selector, &mut hear, troubled).await;
        let Some(trouble) = ended else { return };
        // Whoever decides may not have heard of the pod yet.
        if failures > 0 {
            tracing::warn!(%trouble, "{path} {} is not shown to this node; trying again", object.name);
        }
        shared.lock().shelf.refused(&object);
        shared.changed.send_replace(());
        tokio::time::sleep(back_off(failures, chance())).await;
        failures = failures.saturating_add(1);
    }
}
