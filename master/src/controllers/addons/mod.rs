//! Add-ons: applies the manifests of a directory (`--addons`), and deletes objects that leave it.
//!
//! A pass scans the directory, applies the objects that are due, and prunes. It runs when the directory changes, when an
//! object is due again, and at long intervals, which also repairs objects that users changed.
//!
//! When in doubt, nothing is deleted. An object is pruned if the inventory of this master has it, every file of the
//! directory could be read, and none of them names it, now and [`plan::CONFIRM`] earlier.

mod apply;
mod files;
mod inventory;
mod manifests;
mod plan;
mod prune;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use client::backoff::Backoff;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

use self::apply::{Applier, backoff, reason};
use self::files::{File, Scan};
use self::inventory::Inventory;
use self::plan::{ObjectKey, Plan, Stability};
use self::prune::Outcome;
use self::report::{Recorder, Reports, Status, Subject, named};
use super::act_as::ActAs as _;
use super::discovery::{Served, discover};
use super::leader_election::LeaderElector;

/// The field manager of the objects, the source of events, and the name of the lease and of the ConfigMap.
const NAME: &str = "coracle-addons";
/// Pause after a change of the directory, so that a file that is being written is read when it is complete.
const SETTLE: Duration = Duration::from_millis(300);
/// How often an object is applied without a change. It repairs objects, and notices changes behind symlinks.
const RESYNC: Duration = Duration::from_secs(300);
/// How often the directory is scanned if it cannot be watched.
const POLL: Duration = Duration::from_secs(3);

/// A file was written and closed.
const WRITTEN: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

/// Applies the directory while this process holds the lease, until `stopped` becomes true. The inventory is in the data
/// directory.
pub async fn run(
    client: Client,
    identity: String,
    directory: PathBuf,
    data_dir: PathBuf,
    stopped: watch::Receiver<bool>,
) {
    let client = client.as_master();
    let elector = LeaderElector::new(client.clone(), NAME, &identity);
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    let work = || follow(Addons::new(client.clone(), &identity, &directory, &data_dir));
    elector.run(work, stopped).await;
}

/// Runs a pass whenever the directory changes or an object is due.
async fn follow(mut addons: Addons) {
    let changed = Arc::new(Notify::new());
    loop {
        // The watch begins before the files are read, so that no change is missed. It is renewed every time, because
        // another directory may have taken the place.
        let watcher = watch_directory(&addons.directory, changed.clone());
        let now = Instant::now();
        let mut next = addons.pass(now).await;
        if watcher.is_none() {
            next = next.min(now + POLL);
        }
        if timeout_at(next, changed.notified()).await.is_ok() {
            sleep(SETTLE).await;
        }
    }
}

/// Watches a directory. Returns `None` if it does not exist or inotify is at its limits; the caller then polls.
fn watch_directory(directory: &Path, changed: Arc<Notify>) -> Option<notify::RecommendedWatcher> {
    let handler = move |event: notify::Result<Event>| {
        // Reading the files causes events, too.
        let is_read = event.is_ok_and(|event| event.kind.is_access() && event.kind != WRITTEN);
        if !is_read {
            changed.notify_one();
        }
    };
    let mut watcher = notify::recommended_watcher(handler).ok()?;
    watcher.watch(directory, RecursiveMode::NonRecursive).ok()?;
    Some(watcher)
}

/// The applier of one directory, while this process holds the lease.
struct Addons {
    client: Client,
    /// Identity of this master in leases.
    identity: String,
    directory: PathBuf,
    /// The file with the inventory.
    path: PathBuf,
    /// The inventory as it was stored last. `None` until it was read.
    stored: Option<Inventory>,
    /// The files of the previous scan.
    files: Vec<File>,
    /// Ignored entries that were logged.
    skipped: BTreeSet<String>,
    stability: Stability,
    applier: Applier,
    removals: BTreeMap<ObjectKey, Removal>,
    recorder: Recorder,
    /// Whether the files were compared with those of the previous lease holder.
    is_compared: bool,
    /// Delay after passes that failed as a whole.
    backoff: Backoff,
}

/// The last attempt to prune an object that still exists.
struct Removal {
    backoff: Backoff,
    next: Instant,
    /// Why the object remains; empty if there is nothing to report.
    why: String,
}

impl Addons {
    fn new(client: Client, identity: &str, directory: &Path, data_dir: &Path) -> Self {
        Self {
            client,
            identity: identity.to_owned(),
            directory: directory.to_owned(),
            path: inventory::path(data_dir),
            stored: None,
            files: Vec::new(),
            skipped: BTreeSet::new(),
            stability: Stability::default(),
            applier: Applier::default(),
            removals: BTreeMap::new(),
            recorder: Recorder::default(),
            is_compared: false,
            backoff: backoff(),
        }
    }

    /// Scans and applies once. Returns when the next pass is due.
    async fn pass(&mut self, now: Instant) -> Instant {
        let mut reports = Reports::new();
        let next = match self.try_pass(now, &mut reports).await {
            Ok(next) => {
                self.backoff.reset();
                next
            }
            Err(why) => {
                reports.insert((Subject::NotApplied, why));
                now + self.backoff.next_delay()
            }
        };
        self.recorder.record(&self.client, &self.directory, reports).await;
        next
    }

    async fn try_pass(&mut self, now: Instant, reports: &mut Reports) -> Result<Instant, String> {
        let scan = self.scan().await.inspect_err(|_| self.stability = Stability::default())?;
        let mut inventory = self.load(reports).await?;
        let mut served = self.discover().await?;
        let mut plan = Plan::new(&scan.files, &served);
        if !scan.files.is_empty() && plan.is_foreign(&scan.files, &inventory) {
            let count = inventory.objects.len();
            let text = format!(
                "the directory has none of its former files; {count} objects without a manifest remain"
            );
            reports.insert((Subject::NotPruned, text));
            inventory.objects.clear();
        }
        let has_defined = self.applier.apply(&self.client, &plan, true, &mut inventory, now).await;
        if has_defined || plan.has_unserved() {
            served = self.discover().await?;
            plan = Plan::new(&scan.files, &served);
        }
        self.applier.apply(&self.client, &plan, false, &mut inventory, now).await;
        // What was applied is recorded before anything else can fail. A crash in between leaves objects that are not
        // pruned if their manifests are removed before the next start.
        self.save(&inventory).await?;

        let mut next = now + RESYNC;
        next = self.applier.retain(&plan).map_or(next, |due| due.min(next));
        let not_applied = |why: String| (Subject::NotApplied, why);
        reports.extend(plan.problems.iter().cloned().chain(self.applier.failures(&plan)).map(not_applied));
        let confirmed = self.stability.confirmed_at(&scan, now);
        if confirmed.is_some() {
            self.compare(&plan, &scan, &mut inventory, reports).await?;
        }
        let absent = plan.absent(&inventory);
        self.removals.retain(|key, _| inventory.objects.contains_key(key) && !plan.names(key));
        match confirmed {
            _ if absent.is_empty() => {}
            None => {
                let why = if scan.files.is_empty() {
                    "the directory is empty"
                } else {
                    "not every file can be read"
                };
                let text = format!("{} objects without a manifest remain, because {why}", absent.len());
                reports.insert((Subject::NotPruned, text));
            }
            Some(at) if at > now => next = next.min(at),
            Some(_) => next = next.min(self.prune(&plan, &served, &mut inventory, now, reports).await),
        }
        self.save(&inventory).await?;
        self.files = scan.files;
        Ok(next)
    }

    async fn scan(&mut self) -> Result<Scan, String> {
        let (directory, previous) = (self.directory.clone(), std::mem::take(&mut self.files));
        let scan = spawn_blocking(move || files::scan(&directory, &previous)).await;
        let scan = scan.map_err(|error| error.to_string())??;
        for why in scan.skipped.difference(&self.skipped) {
            tracing::warn!(directory = %self.directory.display(), "{why}");
        }
        self.skipped.clone_from(&scan.skipped);
        Ok(scan)
    }

    async fn discover(&self) -> Result<Vec<Served>, String> {
        discover(&self.client).await.map_err(|error| error.full_message())
    }

    /// Returns the inventory, and reads it the first time.
    async fn load(&mut self, reports: &mut Reports) -> Result<Inventory, String> {
        if let Some(stored) = &self.stored {
            return Ok(stored.clone());
        }
        let (path, directory) = (self.path.clone(), self.directory.clone());
        let loaded = spawn_blocking(move || inventory::load(&path, &directory)).await;
        let loaded = loaded.map_err(|error| error.to_string())??;
        reports.extend(loaded.notice.map(|notice| (Subject::NotPruned, notice)));
        Ok(self.stored.insert(loaded.inventory).clone())
    }

    /// Stores the inventory if it changed.
    async fn save(&mut self, inventory: &Inventory) -> Result<(), String> {
        if self.stored.as_ref() != Some(inventory) {
            let (path, new) = (self.path.clone(), inventory.clone());
            let saved = spawn_blocking(move || inventory::save(&path, &new)).await;
            let saved = saved.map_err(|error| error.to_string()).flatten();
            // The next pass applies everything again, and learns the UIDs that are not stored.
            saved.inspect_err(|_| self.applier = Applier::default())?;
            self.stored = Some(inventory.clone());
        }
        Ok(())
    }

    /// Compares the files with those of another master that held the lease before. If they differ, objects that no file
    /// here names are removed from the inventory, so that they remain: the other directory may still name them.
    async fn compare(
        &mut self,
        plan: &Plan<'_>,
        scan: &Scan,
        inventory: &mut Inventory,
        reports: &mut Reports,
    ) -> Result<(), String> {
        let files = plan.sets(&scan.files);
        if !self.is_compared {
            let status = self.recorder.status(&self.client).await.map_err(|error| error.full_message())?;
            let differences = status.differences(&self.identity, &files);
            if !differences.is_empty() {
                let (holder, names) = (&status.holder, named(&differences));
                let text = format!(
                    "the directory differs from that of {holder} in {names}; nothing is pruned because of that"
                );
                reports.insert((Subject::Differs, text));
                inventory.objects.retain(|key, _| plan.names(key));
                self.save(inventory).await?;
            }
            self.is_compared = true;
        }
        let directory = self.directory.display().to_string();
        let status = Status { holder: self.identity.clone(), directory, files };
        self.recorder.set_status(&self.client, &status).await.map_err(|error| error.full_message())
    }

    /// Prunes the objects that are due. Returns when the next one is.
    async fn prune(
        &mut self,
        plan: &Plan<'_>,
        served: &[Served],
        inventory: &mut Inventory,
        now: Instant,
        reports: &mut Reports,
    ) -> Instant {
        let mut next = now + RESYNC;
        // An object with two keys, such as an Event of two groups, may have a manifest under the other one.
        let named = inventory.objects.iter().filter(|(key, _)| plan.names(key));
        let named: BTreeSet<String> = named.map(|(_, applied)| applied.uid.clone()).collect();
        for key in &plan.absent(inventory) {
            let Some(applied) = inventory.objects.get(key).cloned() else { continue };
            let removal = self.removals.entry(key.clone());
            let removal =
                removal.or_insert_with(|| Removal { backoff: backoff(), next: now, why: String::new() });
            if removal.next <= now {
                let outcome = if named.contains(&applied.uid) {
                    Ok(Outcome::Released("a manifest names it in another API group"))
                } else {
                    prune::prune(&self.client, served, key, &applied.uid).await
                };
                (removal.next, removal.why) = match outcome {
                    Ok(Outcome::Deleted) => {
                        tracing::info!(object = %key, file = applied.file, "pruned an object without a manifest");
                        inventory.objects.remove(key);
                        continue;
                    }
                    Ok(Outcome::Released(why)) => {
                        tracing::info!(object = %key, file = applied.file, why, "an object without a manifest remains");
                        inventory.objects.remove(key);
                        continue;
                    }
                    Ok(Outcome::Kept(why)) => (now + RESYNC, format!("remains: {why}")),
                    Ok(Outcome::Unserved) => (now + RESYNC, String::new()),
                    Err(error) => {
                        (now + removal.backoff.next_delay(), format!("cannot prune: {}", reason(key, &error)))
                    }
                };
            }
            next = next.min(removal.next);
            if !removal.why.is_empty() {
                reports.insert((Subject::NotPruned, format!("{key} of {}: {}", applied.file, removal.why)));
            }
        }
        next
    }
}
