//! The APIService controller: maintains one APIService per served group version, as a stock server does.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use apiserver::Catalog;
use apiserver::registry::Registry;
use apiserver::watch_cache::{Scope, WatchCache, Watcher};
use client::backoff::Backoff;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;

use self::plan::{ServedVersion, Step};
use crate::controllers::{ActAs as _, Client, DeleteOptions, Error, Json, Kind};

/// The resource name of APIServices.
const RESOURCE: &str = "apiservices.apiregistration.k8s.io";
const API_SERVICE: Kind = Kind::of("apiregistration.k8s.io", "APIService", "apiservices", false);
/// Pause between reconciliations, so that masters that serve different versions do not write continuously.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum backoff after failed reconciliations; the first delay is [`PAUSE`].
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Runs until the registry is dropped or shutdown is requested.
pub async fn keep(
    registry: Weak<Registry>,
    catalog: Catalog,
    client: Client,
    mut stopped: watch::Receiver<bool>,
) {
    let client = client.as_master();
    let mut rows = catalog.follow();
    let (mut at_start, mut backoff) = (true, Backoff::new(PAUSE, MAX_BACKOFF));
    loop {
        // The watch starts before the pass, so that no change is missed.
        let Some((found, watcher)) = list_and_watch(&registry) else { return };
        rows.mark_unchanged();
        let settled = reconcile(&client, &served(&catalog), &found, &mut at_start).await;
        let due = match &settled {
            Ok(()) => {
                backoff.reset();
                None
            }
            Err(error) => {
                tracing::warn!(%error, "cannot write an APIService; retrying");
                Some(backoff.next_delay())
            }
        };
        tokio::select! {
            () = changed(watcher) => {}
            changed = rows.changed() => if changed.is_err() { return },
            () = after(due) => {}
            () = wait_for_stop(&mut stopped) => return,
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = wait_for_stop(&mut stopped) => return,
        }
    }
}

/// Lists the APIServices and watches them from there.
fn list_and_watch(registry: &Weak<Registry>) -> Option<(Vec<Json>, Option<Watcher>)> {
    let cache: WatchCache = registry.upgrade()?.cache().clone();
    let listing = cache.list(RESOURCE, &Scope::All);
    let watcher = cache.watch(RESOURCE, Scope::All, listing.revision).ok();
    Some((listing.objects.iter().map(|object| object.decode()).collect(), watcher))
}

/// Waits until an APIService changes. A failed watch counts as a change.
async fn changed(watcher: Option<Watcher>) {
    if let Some(mut watcher) = watcher {
        let _ = watcher.next().await;
    }
}

/// Waits for the pause. If it is `None`, waits forever.
async fn after(pause: Option<Duration>) {
    match pause {
        Some(pause) => sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// Waits until shutdown is requested.
async fn wait_for_stop(stopped: &mut watch::Receiver<bool>) {
    // A closed channel counts as a shutdown request.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// The group versions that are served now.
fn served(catalog: &Catalog) -> BTreeSet<ServedVersion> {
    let rows = catalog.rows();
    let built_in: BTreeSet<(&str, &str)> =
        catalog.built_in().iter().map(|row| (row.group.as_ref(), row.version.as_ref())).collect();
    let served = rows.all().iter().map(|row| ServedVersion {
        group: row.group.to_string(),
        version: row.version.to_string(),
        is_built_in: built_in.contains(&(row.group.as_ref(), row.version.as_ref())),
    });
    served.collect()
}

/// Applies all steps, and returns the last error. `at_start` stays true until all stale objects are deleted.
async fn reconcile(
    client: &Client,
    served: &BTreeSet<ServedVersion>,
    found: &[Json],
    at_start: &mut bool,
) -> Result<(), Error> {
    let (mut settled, mut are_gone) = (Ok(()), true);
    for step in plan::plan(served, found, *at_start, Timestamp::now()) {
        let goes = matches!(step, Step::Delete(_));
        match apply(client, step).await {
            // Another master wrote first; its change triggers another pass.
            Err(error) if error.exists() || error.is_conflict() || error.is_not_found() => {}
            Err(error) => {
                settled = Err(error);
                are_gone &= !goes;
            }
            Ok(()) => {}
        }
    }
    *at_start &= !are_gone;
    settled
}

async fn apply(client: &Client, step: Step) -> Result<(), Error> {
    let written = match step {
        Step::Create(object) => client.create(&API_SERVICE, "", object).await?,
        Step::Update(object) => client.update(&API_SERVICE, "", object).await?,
        Step::UpdateStatus(object) => return client.update(&API_SERVICE, "status", object).await.map(drop),
        Step::Delete(name) => return client.delete(&API_SERVICE, "", &name, &DeleteOptions::default()).await,
    };
    match plan::with_available_condition(&written, Timestamp::now()) {
        Some(with_status) => client.update(&API_SERVICE, "status", with_status).await.map(drop),
        None => Ok(()),
    }
}
