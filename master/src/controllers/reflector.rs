//! Runs a reflector that fills a store with the objects of one resource.

use std::sync::Arc;
use std::time::Duration;

use client::backoff::Backoff;
use client::{Client, Delta, Error, Json, Kind, Reflector, Scope, Versioned};
use serde::de::{DeserializeSeed, Deserializer, Error as _};
use serde_json::Value;

use super::informers::SharedInformers;
use super::object::{Object, text};
use super::outage::Outage;
use super::problems::ProblemReporter;
use super::projection::Projection;

/// Backoff after the first failure.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// Maximum backoff, so that a server that recovers is noticed.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Where a reflector writes the objects of one resource.
pub trait Store: Send + Sync + 'static {
    /// The fields that are decoded from each object.
    fn projection(&self) -> Projection;

    /// What the store keeps of an object.
    type Item: Send;

    /// Converts a decoded object.
    fn project(&self, object: &Json) -> Self::Item;

    /// Replaces all objects with those of a list.
    fn replace(&self, objects: Vec<Self::Item>);

    /// Adds or updates one object.
    fn put(&self, object: Self::Item);

    /// Removes an object, given its last state.
    fn remove(&self, object: Self::Item);

    /// The watch is open: no change is missed from now on.
    fn connected(&self) {}

    /// The watch failed: changes are missed until it is open again.
    fn disconnected(&self) {}
}

/// The part of [`SharedInformers`] that one reflector fills.
pub(super) struct InformerStore {
    informers: SharedInformers,
    kind: Arc<Kind>,
    qualified: String,
}

impl InformerStore {
    /// The store for one kind.
    pub(super) fn new(informers: SharedInformers, kind: Arc<Kind>) -> Self {
        Self { informers, qualified: kind.qualified(), kind }
    }
}

impl Store for InformerStore {
    type Item = Object;

    fn projection(&self) -> Projection {
        Object::projection(&self.qualified)
    }

    fn project(&self, object: &Json) -> Object {
        Object::of(&self.qualified, object)
    }

    fn replace(&self, objects: Vec<Object>) {
        self.informers.replace(&self.kind, objects);
    }

    fn put(&self, object: Object) {
        self.informers.put(&self.kind, object);
    }

    fn remove(&self, object: Object) {
        self.informers.remove(&self.kind, &object.namespace, &object.name);
    }

    fn connected(&self) {
        self.informers.connected(&self.kind);
    }

    fn disconnected(&self) {
        self.informers.disconnected(&self.kind);
    }
}

/// Lists and watches a resource until the future is dropped. Problems that need an administrator are reported.
pub async fn run_reflector(client: Client, kind: Arc<Kind>, store: impl Store, problems: ProblemReporter) {
    let qualified = kind.qualified();
    let mut reflector = Reflector::new((*kind).clone(), Scope::default());
    let (mut backoff, mut outage) = (Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF), Outage::default());
    let projection = store.projection();
    let seed = Projected { store: &store, projection: &projection };
    let mut handle = |delta: Delta<Stored<_>>| match delta {
        Delta::Replaced(all, _) => store.replace(all.into_iter().map(|stored| stored.item).collect()),
        Delta::Applied(stored) => store.put(stored.item),
        Delta::Deleted(stored) => store.remove(stored.item),
    };
    loop {
        let error = match reflector.connect(&client, seed, &mut handle).await {
            Ok(watch) => {
                backoff.reset();
                store.connected();
                outage.ended(&client, &kind).await;
                match reflector.follow(watch, &mut handle).await {
                    Ok(()) => continue,
                    // A broken watch is opened again. One that is rejected or too large fails every time.
                    Err(error) if matches!(error, Error::Refused { .. } | Error::TooLarge { .. }) => {
                        problems.report(&qualified, &error);
                        error
                    }
                    Err(error) => error,
                }
            }
            Err(error) => {
                problems.report(&qualified, &error);
                outage.failed(&client, &kind, &error).await;
                error
            }
        };
        store.disconnected();
        tracing::debug!(resource = qualified, error = %error, "list or watch failed; retrying");
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// An object as a store keeps it, with its resource version.
struct Stored<T> {
    resource_version: String,
    item: T,
}

impl<T> Versioned for Stored<T> {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

/// Decodes the fields that a store reads, and converts each object at once.
struct Projected<'a, S> {
    store: &'a S,
    projection: &'a Projection,
}

impl<S> Clone for Projected<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Projected<'_, S> {}

impl<'de, S: Store> DeserializeSeed<'de> for Projected<'_, S> {
    type Value = Stored<S::Item>;

    fn deserialize<D: Deserializer<'de>>(self, object: D) -> Result<Self::Value, D::Error> {
        let Value::Object(object) = self.projection.deserialize(object)? else {
            return Err(D::Error::custom("an object is no JSON object"));
        };
        let metadata = object.get("metadata");
        let resource_version = text(metadata.and_then(|metadata| metadata.get("resourceVersion")));
        Ok(Stored { resource_version, item: self.store.project(&object) })
    }
}
