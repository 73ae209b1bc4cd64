//! Static pod source for a URL, which is polled. The last good content stays in use while requests fail.

mod fetch;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::problem::Problem;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use self::fetch::{Answer, Client};
use super::identity::problem;
use super::last_good::LastGood;
use super::manifest::{Known, Manifest, ManifestContext};
use crate::desired::{Completeness, Snapshot, SourceKind};
use crate::observed::Timestamp;

pub use fetch::Headers;

/// Settings of the URL source.
#[derive(Clone, Debug)]
pub struct Settings {
    pub url: String,
    /// Headers of each request.
    pub headers: Headers,
    /// The node's name.
    pub node: String,
    /// Interval between requests.
    pub every: Duration,
    /// The kubelet's root directory.
    pub root_dir: PathBuf,
}

/// Sends a snapshot at once and after each change, until the receiver is dropped.
pub async fn watch(settings: Settings, snapshots: mpsc::Sender<Arc<Snapshot>>) {
    let mut served = Served::new(&settings);
    let mut client = Client::new(&settings.url, &settings.headers);
    let mut ticks = interval_at(Instant::now(), settings.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = match &mut client {
            Ok(client) => client.fetch().await,
            Err(problem) => Err(problem.clone()),
        };
        if let Some(snapshot) = served.take(answer, Timestamp::now())
            && snapshots.send(snapshot).await.is_err()
        {
            return;
        }
    }
}

/// Reads a URL once.
///
/// # Errors
/// If the response is not 200 with a body.
pub async fn read(url: &str, headers: &Headers) -> Result<Vec<u8>, Box<Problem>> {
    match Client::new(url, headers)?.fetch().await? {
        Answer::New(bytes) => Ok(bytes),
        Answer::Unchanged => {
            Err(trouble("the server answered 304 to an unconditional request".to_owned(), "check the server"))
        }
    }
}

/// State of the URL's manifest.
struct Served {
    origin: Arc<str>,
    place: ManifestContext,
    store: LastGood,
    manifest: Manifest,
    was_read: bool,
    sent: Option<Arc<Snapshot>>,
}

impl Served {
    fn new(settings: &Settings) -> Self {
        let store = LastGood::new(&settings.root_dir, SourceKind::Http);
        let origin = fetch::without_password(&settings.url);
        let mut saved = store.load();
        let objects = saved.remove(&origin).unwrap_or_default();
        for other in saved.keys() {
            // Saved content of another URL is obsolete.
            save(&store, other, &[]);
        }
        Self {
            origin: Arc::from(origin),
            place: ManifestContext { node: settings.node.clone(), source: SourceKind::Http },
            store,
            manifest: Manifest { objects, problems: Vec::new() },
            was_read: false,
            sent: None,
        }
    }

    /// Processes a response. Returns the snapshot if it differs from the previous one.
    fn take(&mut self, answer: Result<Answer, Box<Problem>>, now: Timestamp) -> Option<Arc<Snapshot>> {
        let new = match answer {
            Ok(Answer::Unchanged) => None,
            Ok(Answer::New(bytes)) => {
                self.was_read = true;
                let known: Known =
                    self.manifest.objects.iter().map(|n| (n.name.clone(), n.object.clone())).collect();
                Some(self.manifest.read(&bytes, &self.place, &known, now))
            }
            Err(problem) => Some(self.manifest.unreadable(*problem)),
        };
        if let Some(new) = new {
            if new.objects != self.manifest.objects {
                save(&self.store, &self.origin, &new.objects);
            }
            self.manifest = new;
        }
        let snapshot = Arc::new(self.snapshot());
        if self.sent.as_ref().is_some_and(|sent| sent.is_same(&snapshot)) {
            return None;
        }
        self.sent = Some(snapshot.clone());
        Some(snapshot)
    }

    fn snapshot(&self) -> Snapshot {
        let (mut objects, mut problems) = (Vec::new(), Vec::new());
        self.manifest.add_to(&self.origin, &mut objects, &mut problems);
        let completeness = if self.was_read { Completeness::Complete } else { Completeness::Incomplete };
        Snapshot {
            source: SourceKind::Http,
            objects,
            waiting: BTreeSet::new(),
            problems,
            skipped: Vec::new(),
            completeness,
        }
    }
}

fn save(store: &LastGood, origin: &str, objects: &[super::manifest::Named]) {
    if let Err(error) = store.save(origin, objects) {
        tracing::warn!(url = origin, %error, "cannot keep the last good manifest on disk");
    }
}

/// Returns a problem with the URL.
fn trouble(what: String, remedy: &str) -> Box<Problem> {
    Box::new(Problem { what, remedy: remedy.to_owned(), ..problem() })
}
