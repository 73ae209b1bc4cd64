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
/// The longest pause before what was refused is tried again, where nothing changes meanwhile; each is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Keeps them until there is no registry any more, or this master is told to stop.
pub async fn keep(
    registry: Weak<Registry>,
    catalog: Catalog,
    client: Client,
    mut stopped: watch::Receiver<bool>,
) {
    let client = client.for_master();
    let mut rows = catalog.follow();
    let (mut at_start, mut pause) = (true, PAUSE);
    loop {
        // From before the look, so that nothing goes unseen after it.
        let Some((found, watcher)) = look(&registry) else { return };
        rows.mark_unchanged();
        let settled = settle(&client, &served(&catalog), &found, &mut at_start).await;
        let due = match &settled {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(%error, "an APIService cannot be written; trying again");
                Some(pause)
            }
        };
        pause = if settled.is_ok() { PAUSE } else { LONGEST_PAUSE.min(pause * 2) };
        tokio::select! {
            () = changed(watcher) => {}
            changed = rows.changed() => if changed.is_err() { return },
            () = after(due) => {}
            () = told(&mut stopped) => return,
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

/// Waits so long, for ever where that is not said.
async fn after(pause: Option<Duration>) {
    match pause {
        Some(pause) => sleep(pause).await,
        None => std::future::pending().await,
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

/// Does everything that is to be done, whatever of it is refused, and tells the last refusal. It is the start until what is to go is gone.
async fn settle(
    client: &Client,
    served: &BTreeSet<Served>,
    found: &[Json],
    at_start: &mut bool,
) -> Result<(), Error> {
    let (mut settled, mut are_gone) = (Ok(()), true);
    for step in plan::plan(served, found, *at_start, Timestamp::now()) {
        let goes = matches!(step, Step::Delete(_));
        match carry_out(client, step).await {
            // Another master came before: that is a change, and it is looked at again.
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
