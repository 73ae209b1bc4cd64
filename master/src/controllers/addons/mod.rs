//! Add-ons: applies the manifests of a directory (`--addons`), and deletes objects that leave it.
//!
//! A pass scans the directory, applies the objects that are due, and prunes. It runs when the directory changes, when
//! an object is due again, and at long intervals, which also repairs objects that users changed.
//!
//! When in doubt, nothing is deleted. An object is pruned if the inventory of this master has it, every file of the
//! directory could be read and every manifest was applied, and none of them names it, now and [`settle::CONFIRM`]
//! earlier.

mod apply;
mod files;
mod inventory;
mod live;
mod manifests;
mod plan;
mod prune;
mod report;
mod settle;
mod takeover;
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
use tokio::time::{Instant, timeout, timeout_at};

use self::apply::{Applier, backoff, reason};
use self::files::{File, Scan};
use self::inventory::Inventory;
use self::plan::{ObjectKey, Plan};
use self::prune::Outcome;
use self::report::{Recorder, Reports, Status, Subject};
use self::settle::{QUIET, Settling};
use super::act_as::ActAs as _;
use super::discovery::{Served, discover};
use super::leader_election::LeaderElector;

pub use self::inventory::set_aside;

/// The field manager of the objects, the source of events, and the name of the lease and of the ConfigMap.
const NAME: &str = "coracle-addons";
/// How long changes of the directory delay a pass at most.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Shortest pause between two passes, also if many objects are due one after the other.
const PAUSE: Duration = Duration::from_secs(1);
/// How often an object is applied without a change. It repairs objects, and notices changes behind symlinks.
const RESYNC: Duration = Duration::from_secs(300);
/// How often the directory is scanned if it cannot be watched.
const POLL: Duration = Duration::from_secs(3);
/// How often the inventory is read again after an error.
const RETRY: Duration = Duration::from_secs(30);

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
        // another directory may have taken the place. It may block on an unresponsive file system.
        let (directory, notified) = (addons.directory.clone(), changed.clone());
        let watcher = spawn_blocking(move || watch_directory(&directory, notified)).await.ok().flatten();
        let now = Instant::now();
        let mut next = addons.pass(now).await;
        if watcher.is_none() {
            next = next.min(now + POLL);
        }
        next = next.max(Instant::now() + PAUSE);
        if timeout_at(next, changed.notified()).await.is_ok() {
            quiet(&changed).await;
        }
    }
}

/// Waits until nothing changes for a while, but not for ever.
async fn quiet(changed: &Notify) {
    let end = Instant::now() + MAX_WAIT;
    while Instant::now() < end && timeout(QUIET, changed.notified()).await.is_ok() {}
}

/// Watches a directory. Returns `None` if it does not exist or inotify is at its limits; the caller then polls.
fn watch_directory(directory: &Path, changed: Arc<Notify>) -> Option<notify::RecommendedWatcher> {
    let watched = directory.to_owned();
    let concerns = move |path: &PathBuf| {
        *path == watched || path.file_name().is_none_or(|name| files::concerns(&name.to_string_lossy()))
    };
    let handler = move |event: notify::Result<Event>| {
        let is_irrelevant = event.is_ok_and(|event| {
            // Reading the files causes events, too.
            let is_read = event.kind.is_access() && event.kind != WRITTEN;
            is_read || !(event.paths.is_empty() || event.paths.iter().any(&concerns))
        });
        if !is_irrelevant {
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
    scanned: Vec<File>,
    settling: Settling,
    /// Ignored entries that were logged.
    skipped: BTreeSet<String>,
    applier: Applier,
    removals: BTreeMap<ObjectKey, Removal>,
    recorder: Recorder,
    /// What the ConfigMap said before this master took over.
    previous: Option<Status>,
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
            scanned: Vec::new(),
            settling: Settling::default(),
            skipped: BTreeSet::new(),
            applier: Applier::default(),
            removals: BTreeMap::new(),
            recorder: Recorder::default(),
            previous: None,
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
        let scan = self.scan().await.inspect_err(|_| self.settling.interrupt())?;
        let settled = self.settling.see(&scan, now);
        let files = &settled.files;
        let is_stable = settled.confirmed_at <= now;
        let mut next = settled.next.map_or(now + RESYNC, |due| due.min(now + RESYNC));
        if !is_stable {
            next = next.min(settled.confirmed_at);
        }
        let mut inventory = match self.load(reports).await {
            Ok(inventory) => inventory,
            // Objects are applied nevertheless, and recorded once the inventory can be read.
            Err(why) => {
                reports.insert((Subject::NotPruned, why));
                next = next.min(now + RETRY);
                Inventory::empty(&self.directory)
            }
        };
        let mut served = self.discover().await?;
        let mut plan = Plan::new(files, &served);
        let names: BTreeSet<&str> = scan.files.iter().map(|file| file.name.as_str()).collect();
        if !names.is_empty() && plan.is_foreign(&names, &inventory) {
            if !is_stable {
                // Objects of other files are not applied yet: they would hide that most of the former files are
                // missing.
                return Ok(next);
            }
            let text = remaining(plan.absent(&inventory).len(), "the directory has few of its former files");
            reports.insert((Subject::NotPruned, text));
            inventory.objects.retain(|key, _| plan.names(key));
        }
        self.announce(&plan.sets(files), &mut inventory).await?;
        plan.hold(files, &settled.uncertain, &inventory);
        let has_defined = self.applier.apply(&self.client, &plan, true, &mut inventory, now).await;
        // What was applied is recorded before anything else can fail. A crash in between leaves objects that are not
        // pruned if their manifests are removed before the next start.
        self.save(&inventory).await?;
        if has_defined || plan.has_unserved() {
            served = self.discover().await?;
            plan = Plan::new(files, &served);
            plan.hold(files, &settled.uncertain, &inventory);
        }
        self.applier.apply(&self.client, &plan, false, &mut inventory, now).await;
        self.save(&inventory).await?;

        next = self.applier.retain(&plan).map_or(next, |due| due.min(next));
        let problems: Vec<String> =
            plan.problems.iter().cloned().chain(self.applier.failures(&plan)).collect();
        let obstacle = if scan.files.is_empty() {
            Some("the directory is empty")
        } else if !scan.is_complete() {
            Some("not every file can be read")
        } else if !problems.is_empty() {
            Some("not every manifest is applied")
        } else {
            None
        };
        reports.extend(problems.into_iter().map(|why| (Subject::NotApplied, why)));
        if scan.is_complete() && is_stable {
            self.compare(&plan, &plan.sets(files), &mut inventory, reports).await?;
        }
        let absent = plan.absent(&inventory);
        self.removals.retain(|key, _| inventory.objects.contains_key(key) && !plan.names(key));
        match obstacle {
            _ if absent.is_empty() => {}
            Some(why) => drop(reports.insert((Subject::NotPruned, remaining(absent.len(), why)))),
            None if !is_stable => {}
            None => next = next.min(self.prune(&plan, &served, &mut inventory, now, reports).await),
        }
        self.save(&inventory).await?;
        Ok(next)
    }

    async fn scan(&mut self) -> Result<Scan, String> {
        let (directory, previous) = (self.directory.clone(), self.scanned.clone());
        let scan = spawn_blocking(move || files::scan(&directory, &previous)).await;
        let scan = scan.map_err(|error| error.to_string())??;
        for why in scan.skipped.difference(&self.skipped) {
            tracing::warn!(directory = %self.directory.display(), "{why}");
        }
        self.skipped.clone_from(&scan.skipped);
        self.scanned.clone_from(&scan.files);
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
        // What was applied without the inventory is recorded by the next attempt.
        self.applier.reset();
        Ok(self.stored.insert(loaded.inventory).clone())
    }

    /// Stores the inventory if it changed. An inventory that could not be read is not replaced.
    async fn save(&mut self, inventory: &Inventory) -> Result<(), String> {
        if self.stored.as_ref().is_some_and(|stored| stored != inventory) {
            let (path, new) = (self.path.clone(), inventory.clone());
            let saved = spawn_blocking(move || inventory::save(&path, &new)).await;
            let saved = saved.map_err(|error| error.to_string()).flatten();
            // The next pass applies everything again, and learns the UIDs that are not stored.
            saved.inspect_err(|_| self.applier.reset())?;
            self.stored = Some(inventory.clone());
        }
        Ok(())
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
        let before: BTreeSet<ObjectKey> = inventory.objects.keys().cloned().collect();
        let wanted = plan.wanted.iter().map(|wanted| &wanted.key);
        let others: Vec<&ObjectKey> = before.iter().chain(wanted).collect();
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
                } else if others.iter().any(|other| key.contains(other)) {
                    // Its contents are deleted first, in an earlier pass.
                    Ok(Outcome::Waits("the add-ons have objects in it"))
                } else {
                    prune::prune(&self.client, served, key, &applied).await
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
                    Ok(Outcome::Waits(why)) => {
                        (now + removal.backoff.next_delay(), format!("remains: {why}"))
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

/// A report about objects that remain.
fn remaining(count: usize, why: &str) -> String {
    match count {
        1 => format!("1 object without a manifest remains, because {why}"),
        count => format!("{count} objects without a manifest remain, because {why}"),
    }
}
