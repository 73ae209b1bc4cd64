//! An APIService for each group and version that is served, as a stock server has them: they come and go with what discovery
//! tells, and say that they are here.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use apiserver::Catalog;
use apiserver::registry::Registry;
use apiserver::store::{Memory, Scope, Watcher};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;

use self::plan::{Served, Step};
use crate::controllers::{Client, Delete, Error, Json, Kind};

/// Their name in the store.
const STORED: &str = "apiservices.apiregistration.k8s.io";
const API_SERVICE: Kind = Kind::of("apiregistration.k8s.io", "APIService", "apiservices", false);
/// The pause before what has changed is looked at: masters that do not serve the same yet do not keep the store busy.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps them until there is no registry any more, or this master is told to stop.
pub async fn keep(
    registry: Weak<Registry>,
    catalog: Catalog,
    client: Client,
    mut stopped: watch::Receiver<bool>,
) {
    let client = client.for_master();
    let mut rows = catalog.follow();
    let mut at_start = true;
    loop {
        // From before the look, so that nothing goes unseen after it.
        let Some((found, watcher)) = look(&registry) else { return };
        rows.mark_unchanged();
        let settled = settle(&client, &served(&catalog), &found, at_start).await;
        if let Err(error) = &settled {
            tracing::warn!(%error, "APIServices cannot be written; trying again");
        }
        at_start &= settled.is_err();
        if settled.is_ok() {
            tokio::select! {
                () = changed(watcher) => {}
                changed = rows.changed() => if changed.is_err() { return },
                () = told(&mut stopped) => return,
            }
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = told(&mut stopped) => return,
        }
    }
}

/// What there is, and who tells of what comes after.
fn look(registry: &Weak<Registry>) -> Option<(Vec<Json>, Option<Watcher>)> {
    let cache: Memory = registry.upgrade()?.cache().clone();
    let listing = cache.list(STORED, &Scope::All);
    let watcher = cache.watch(STORED, Scope::All, listing.revision).ok();
    Some((listing.objects.iter().map(|object| object.decode()).collect(), watcher))
}

/// Waits until one of them changes. What nobody can tell of any more may have.
async fn changed(watcher: Option<Watcher>) {
    if let Some(mut watcher) = watcher {
        let _ = watcher.next().await;
    }
}

/// Waits until this master is to stop.
async fn told(stopped: &mut watch::Receiver<bool>) {
    // That nobody can tell any more is the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// The groups and versions that are served now.
fn served(catalog: &Catalog) -> BTreeSet<Served> {
    let rows = catalog.rows();
    let built_in: BTreeSet<(&str, &str)> =
        catalog.built_in().iter().map(|row| (row.group.as_ref(), row.version.as_ref())).collect();
    let served = rows.all().iter().map(|row| Served {
        group: row.group.to_string(),
        version: row.version.to_string(),
        is_built_in: built_in.contains(&(row.group.as_ref(), row.version.as_ref())),
    });
    served.collect()
}

async fn settle(
    client: &Client,
    served: &BTreeSet<Served>,
    found: &[Json],
    at_start: bool,
) -> Result<(), Error> {
    for step in plan::plan(served, found, at_start, Timestamp::now()) {
        match carry_out(client, step).await {
            // Another master came before: that is a change, and it is looked at again.
            Err(error) if error.exists() || error.is_conflict() || error.is_not_found() => {}
            done => done?,
        }
    }
    Ok(())
}

async fn carry_out(client: &Client, step: Step) -> Result<(), Error> {
    let written = match step {
        Step::Create(object) => client.create(&API_SERVICE, "", object).await?,
        Step::Update(object) => client.update(&API_SERVICE, "", object).await?,
        Step::Tell(object) => return client.update(&API_SERVICE, "status", object).await.map(drop),
        Step::Delete(name) => return client.delete(&API_SERVICE, "", &name, &Delete::default()).await,
    };
    match plan::told(&written, Timestamp::now()) {
        Some(told) => client.update(&API_SERVICE, "status", told).await.map(drop),
        None => Ok(()),
    }
}
