//! Follows the definitions: serves what they define, and says in their status that it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use api::crd::{self, Definition, Taken};
use api::strategy::Json;
use futures_util::future::select_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{DEFINITIONS, cleanup, row};
use crate::registry::{Error, Registry};
use crate::resource::Resource;
use crate::store::{Memory, Object, Scope, Watcher};

/// Between two tries when the store does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Serves what is defined already, and follows the definitions for as long as there is a registry.
///
/// # Errors
/// When the store fails.
pub async fn start(registry: &Arc<Registry>) -> Result<(), Error> {
    if definitions(registry).is_none() {
        return Ok(());
    }
    let mut follower = Follower {
        registry: Arc::downgrade(registry),
        cache: registry.cache().clone(),
        known: BTreeMap::new(),
        unsettled: BTreeSet::new(),
    };
    let seen = follower.look(registry).await?;
    tokio::spawn(follower.run(seen));
    Ok(())
}

struct Follower {
    registry: Weak<Registry>,
    cache: Memory,
    /// Every definition as it was last seen.
    known: BTreeMap<String, Known>,
    /// Definitions to look at again whenever anything moves: their names are taken, or their objects are on their way out.
    unsettled: BTreeSet<String>,
}

/// What is remembered of a definition: little, as there may be hundreds of many kilobytes each.
struct Known {
    /// The revision that was looked at; 0 for none.
    revision: u64,
    is_doomed: bool,
    /// Name, group and accepted names, for those who want the same.
    names: Json,
    /// What the rows that are served were made of.
    served: Option<Served>,
}

#[derive(Clone, PartialEq, Eq)]
struct Served {
    generation: Option<Value>,
    accepted: Option<Value>,
    stored: Option<Value>,
    kept: String,
}

impl Follower {
    async fn run(mut self, mut seen: u64) {
        loop {
            self.wait(seen).await;
            let Some(registry) = self.registry.upgrade() else { return };
            match self.look(&registry).await {
                Ok(revision) => seen = revision,
                Err(error) => {
                    tracing::error!(%error, "definitions are not carried out; trying again");
                    drop(registry);
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    }

    /// Waits for a definition to change, or an object of one that is on its way out. A watcher that has fallen behind
    /// has something to look at as well.
    async fn wait(&self, seen: u64) {
        let going = self.known.values().filter(|known| known.is_doomed);
        let kept = going.filter_map(|known| known.served.as_ref()).map(|served| served.kept.as_str());
        let resources = std::iter::once(DEFINITIONS).chain(kept);
        let watchers: Result<Vec<Watcher>, _> =
            resources.map(|resource| self.cache.watch(resource, Scope::All, seen)).collect();
        let Ok(mut watchers) = watchers else { return };
        let moved = watchers.iter_mut().map(|watcher| Box::pin(watcher.next()));
        let _ = select_all(moved).await;
    }

    /// Looks at every definition that has changed; the revision up to which nothing is left to do.
    async fn look(&mut self, registry: &Registry) -> Result<u64, Error> {
        let listing = self.cache.list(DEFINITIONS, &Scope::All);
        let here: BTreeSet<&str> = listing.objects.iter().map(Object::name).collect();
        let gone: Vec<String> =
            self.known.keys().filter(|name| !here.contains(name.as_str())).cloned().collect();
        for name in gone {
            registry.serve(&name, Vec::new()).await?;
            self.known.remove(&name);
            self.unsettled.remove(&name);
        }
        // What they hold counts before any of them is given more.
        for object in &listing.objects {
            if !self.known.contains_key(object.name()) {
                let names = names(&object.decode());
                let known = Known { revision: 0, is_doomed: false, names, served: None };
                self.known.insert(object.name().to_owned(), known);
            }
        }
        for object in &listing.objects {
            let name = object.name();
            let is_new = self.known.get(name).is_none_or(|known| known.revision != object.revision());
            if is_new || self.unsettled.contains(name) {
                self.settle(registry, object).await?;
            }
        }
        Ok(listing.revision)
    }

    /// Carries out one definition.
    async fn settle(&mut self, registry: &Registry, object: &Object) -> Result<(), Error> {
        let Some(row) = definitions(registry) else { return Ok(()) };
        let (name, definition) = (object.name(), object.decode());
        let group = definition.get("spec").and_then(|spec| spec.get("group")?.as_str()).unwrap_or_default();
        let others = self.known.values().map(|known| &known.names);
        let mut taken = Taken::by(others, group, name);
        for row in registry.catalog().built_in().iter().filter(|row| row.group == group) {
            let names = [&row.plural, &row.singular].into_iter().chain(&row.short_names);
            taken.reserve(names.map(AsRef::as_ref), [row.kind.as_ref(), row.list_kind.as_ref()]);
        }
        let is_doomed = crd::is_doomed(&definition);
        let status = if is_doomed {
            crd::terminating(&definition, Timestamp::now())
        } else {
            crd::settled(&definition, &taken, Timestamp::now())
        };
        let settled = crd::with_status(&definition, status);
        let mut served = self.known.get(name).and_then(|known| known.served.clone());
        if crd::is_established(&settled) {
            served = Some(self.serve(registry, name, &settled, served).await?);
        }
        let kept = served.as_ref().map(|served| served.kept.clone());
        let known = Known { revision: object.revision(), is_doomed, names: names(&settled), served };
        self.known.insert(name.to_owned(), known);
        if is_doomed || !crd::has_all_names(&settled) {
            self.unsettled.insert(name.to_owned());
        } else {
            self.unsettled.remove(name);
        }
        let written = if settled == definition {
            Ok(object.clone())
        } else {
            registry.replace(&row, object, &settled).await
        };
        let written = match written {
            // Somebody else wrote it: it is looked at again as it is now.
            Err(Error::Changed) => return Ok(()),
            written => written?,
        };
        if is_doomed {
            cleanup::clean(registry, &row, &written, kept.as_deref()).await?;
        }
        Ok(())
    }

    /// Serves the versions of a definition, unless they are served already.
    async fn serve(
        &self,
        registry: &Registry,
        name: &str,
        definition: &Json,
        before: Option<Served>,
    ) -> Result<Served, Error> {
        let at = |room: &str, field: &str| definition.get(room).and_then(|room| room.get(field)).cloned();
        let now = |kept| Served {
            generation: at("metadata", "generation"),
            accepted: at("status", "acceptedNames"),
            stored: at("status", "storedVersions"),
            kept,
        };
        if let Some(before) = before.filter(|before| *before == now(before.kept.clone())) {
            return Ok(before);
        }
        let rows = Definition::read(definition).map(|read| row::rows(name, &read, &self.cache));
        let mut rows = rows.unwrap_or_default();
        // A definition that is on its way out says whatever somebody has written into its status.
        if rows.iter().any(|row| is_built_in(registry, row)) {
            rows.clear();
        }
        let kept = rows.first().map_or_else(|| name.to_owned(), |row| row.stored().to_owned());
        registry.serve(name, rows).await?;
        Ok(now(kept))
    }
}

/// Whether a row would be that of a built-in kind, in any version.
fn is_built_in(registry: &Registry, row: &Resource) -> bool {
    let built_in = registry.catalog().built_in();
    built_in.iter().any(|own| own.group == row.group && (own.plural == row.plural || own.kind == row.kind))
}

/// The row of definitions.
fn definitions(registry: &Registry) -> Option<Arc<Resource>> {
    registry.rows().find("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned()
}

/// What others need to know of a definition.
fn names(definition: &Json) -> Json {
    let at = |room: &str, field: &str| definition.get(room).and_then(|room| room.get(field)).cloned();
    let names = json!({
        "metadata": {"name": at("metadata", "name")},
        "spec": {"group": at("spec", "group")},
        "status": {"acceptedNames": at("status", "acceptedNames")},
    });
    names.as_object().cloned().unwrap_or_default()
}
