//! CustomResourceDefinition controller: serves custom resources and updates the status of their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use api::crd::{self, Definition, UsedNames};
use api::strategy::Json;
use futures_util::future::select_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{DEFINITIONS, finalizer, row};
use crate::registry::{Error, Registry};
use crate::resource::Resource;
use crate::tasks;
use crate::watch_cache::{Object, Scope, WatchCache, Watcher};

/// Delay before a reconciliation is retried after a storage error.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Serves the existing definitions, then reconciles changes until the registry is dropped.
///
/// # Errors
/// If the storage fails.
pub async fn start(registry: &Arc<Registry>) -> Result<(), Error> {
    if definitions(registry).is_none() {
        return Ok(());
    }
    let mut controller = Controller {
        registry: Arc::downgrade(registry),
        cache: registry.cache().clone(),
        known: BTreeMap::new(),
        unsettled: BTreeSet::new(),
    };
    let seen = controller.reconcile(registry).await?;
    tasks::supervise("CustomResourceDefinition controller", controller.run(seen));
    Ok(())
}

struct Controller {
    registry: Weak<Registry>,
    cache: WatchCache,
    /// Every definition at its last reconciliation.
    known: BTreeMap<String, KnownDefinition>,
    /// Definitions that are reconciled on every change: their names conflict, or they are terminating.
    unsettled: BTreeSet<String>,
}

/// A summary of a definition. Definitions can be large, so the object itself is not kept.
struct KnownDefinition {
    /// Revision of the last reconciliation, or 0 if there was none.
    revision: u64,
    is_terminating: bool,
    /// Name, group and accepted names, to check for name conflicts.
    names: Json,
    /// The inputs from which the served rows were built.
    served: Option<ServedDefinition>,
}

#[derive(Clone, PartialEq, Eq)]
struct ServedDefinition {
    generation: Option<Value>,
    accepted: Option<Value>,
    stored: Option<Value>,
    kept: String,
}

impl Controller {
    async fn run(mut self, mut seen: u64) {
        loop {
            self.wait_for_change(seen).await;
            let Some(registry) = self.registry.upgrade() else { return };
            match self.reconcile(&registry).await {
                Ok(revision) => seen = revision,
                Err(error) => {
                    tracing::error!(%error, "cannot reconcile custom resource definitions; retrying");
                    drop(registry);
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }

    /// Waits for a change of a definition, or of an object of a terminating one. Returns also when a watcher fell
    /// behind, so that everything is reconciled.
    async fn wait_for_change(&self, seen: u64) {
        let going = self.known.values().filter(|known| known.is_terminating);
        let kept = going.filter_map(|known| known.served.as_ref()).map(|served| served.kept.as_str());
        let resources = std::iter::once(DEFINITIONS).chain(kept);
        let watchers: Result<Vec<Watcher>, _> =
            resources.map(|resource| self.cache.watch(resource, Scope::All, seen)).collect();
        let Ok(mut watchers) = watchers else { return };
        let moved = watchers.iter_mut().map(|watcher| Box::pin(watcher.next()));
        let _ = select_all(moved).await;
    }

    /// Reconciles all changed definitions. Returns the revision that was reached.
    async fn reconcile(&mut self, registry: &Registry) -> Result<u64, Error> {
        let listing = self.cache.list(DEFINITIONS, &Scope::All);
        let here: BTreeSet<&str> = listing.objects.iter().map(Object::name).collect();
        let gone: Vec<String> =
            self.known.keys().filter(|name| !here.contains(name.as_str())).cloned().collect();
        for name in gone {
            registry.serve(&name, Vec::new()).await?;
            self.known.remove(&name);
            self.unsettled.remove(&name);
        }
        // Registers the names that existing definitions already have before it accepts further names.
        for object in &listing.objects {
            if !self.known.contains_key(object.name()) {
                let names = names(&object.decode());
                let known = KnownDefinition { revision: 0, is_terminating: false, names, served: None };
                self.known.insert(object.name().to_owned(), known);
            }
        }
        for object in &listing.objects {
            let name = object.name();
            let is_new = self.known.get(name).is_none_or(|known| known.revision != object.revision());
            if is_new || self.unsettled.contains(name) {
                self.reconcile_definition(registry, object).await?;
            }
        }
        Ok(listing.revision)
    }

    /// Reconciles one definition.
    async fn reconcile_definition(&mut self, registry: &Registry, object: &Object) -> Result<(), Error> {
        let Some(row) = definitions(registry) else { return Ok(()) };
        let (name, definition) = (object.name(), object.decode());
        let group = definition.get("spec").and_then(|spec| spec.get("group")?.as_str()).unwrap_or_default();
        let others = self.known.values().map(|known| &known.names);
        let mut taken = UsedNames::by(others, group, name);
        for row in registry.catalog().built_in().iter().filter(|row| row.group == group) {
            let names = [&row.plural, &row.singular].into_iter().chain(&row.short_names);
            taken.reserve(names.map(AsRef::as_ref), [row.kind.as_ref(), row.list_kind.as_ref()]);
        }
        let is_terminating = crd::is_terminating(&definition);
        let status = if is_terminating {
            crd::terminating_status(&definition, Timestamp::now())
        } else {
            crd::calculated_status(&definition, &taken, Timestamp::now())
        };
        let settled = crd::with_status(&definition, status);
        let mut served = self.known.get(name).and_then(|known| known.served.clone());
        if crd::is_established(&settled) {
            served = Some(self.serve(registry, name, &settled, served).await?);
        }
        let kept = served.as_ref().map(|served| served.kept.clone());
        let known =
            KnownDefinition { revision: object.revision(), is_terminating, names: names(&settled), served };
        self.known.insert(name.to_owned(), known);
        if is_terminating || !crd::has_all_names(&settled) {
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
            // Another writer changed it; the next reconciliation sees the new object.
            Err(Error::Changed) => return Ok(()),
            written => written?,
        };
        if is_terminating {
            finalizer::finalize(registry, &row, &written, kept.as_deref()).await?;
        }
        Ok(())
    }

    /// Serves the versions of a definition, unless they are unchanged.
    async fn serve(
        &self,
        registry: &Registry,
        name: &str,
        definition: &Json,
        before: Option<ServedDefinition>,
    ) -> Result<ServedDefinition, Error> {
        let at = |room: &str, field: &str| definition.get(room).and_then(|room| room.get(field)).cloned();
        let now = |kept| ServedDefinition {
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
        // The status of a terminating definition may have been written by a client.
        if rows.iter().any(|row| is_built_in(registry, row)) {
            rows.clear();
        }
        let kept = rows.first().map_or_else(|| name.to_owned(), |row| row.stored().to_owned());
        registry.serve(name, rows).await?;
        Ok(now(kept))
    }
}

/// Whether a row collides with a built-in kind, in any version.
fn is_built_in(registry: &Registry, row: &Resource) -> bool {
    let built_in = registry.catalog().built_in();
    built_in.iter().any(|own| own.group == row.group && (own.plural == row.plural || own.kind == row.kind))
}

/// The row of CustomResourceDefinitions.
fn definitions(registry: &Registry) -> Option<Arc<Resource>> {
    registry.rows().find("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned()
}

/// The parts of a definition that name conflict checks need.
fn names(definition: &Json) -> Json {
    let at = |room: &str, field: &str| definition.get(room).and_then(|room| room.get(field)).cloned();
    let names = json!({
        "metadata": {"name": at("metadata", "name")},
        "spec": {"group": at("spec", "group")},
        "status": {"acceptedNames": at("status", "acceptedNames")},
    });
    names.as_object().cloned().unwrap_or_default()
}
