//! Runs a reflector that fills a store with the objects of one resource.

use std::sync::Arc;
use std::time::Duration;

use client::backoff::Backoff;
use client::{Client, Delta, Error, Kind, Reflector, Scope, Versioned};
use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer};
use serde_json::value::RawValue;

use super::informers::SharedInformers;
use super::object::Object;
use super::outage::Outage;
use super::problems::ProblemReporter;
use crate::objects::Identity;

/// Backoff after the first failure.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// Maximum backoff, so that a server that recovers is noticed.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// A store to which a reflector writes the objects of one resource.
pub trait Store: Send + Sync + 'static {
    /// The part of an object that the store keeps.
    type Object: Send;

    /// Decodes an object from its JSON. Fields that the store does not keep are skipped.
    ///
    /// # Errors
    /// If a field has another type. The object is logged and omitted.
    fn decode(&self, json: &RawValue) -> Result<Self::Object, serde_json::Error>;

    /// Replaces all objects with those of a list.
    fn replace(&self, objects: Vec<Self::Object>);

    /// Adds or updates one object.
    fn put(&self, object: Self::Object);

    /// Removes an object, given its last state.
    fn remove(&self, object: Self::Object);

    /// Records that the watch is open, so that no change is missed from now on.
    fn connected(&self) {}

    /// Records that the watch failed, so that changes are missed until it is open again.
    fn disconnected(&self) {}
}

/// The part of [`SharedInformers`] that one reflector fills.
pub(super) struct InformerStore {
    informers: SharedInformers,
    kind: Arc<Kind>,
    qualified: String,
}

impl InformerStore {
    /// Creates the store for one kind.
    pub(super) fn new(informers: SharedInformers, kind: Arc<Kind>) -> Self {
        Self { informers, qualified: kind.qualified(), kind }
    }
}

impl Store for InformerStore {
    type Object = Object;

    fn decode(&self, json: &RawValue) -> Result<Object, serde_json::Error> {
        Object::decode(&self.qualified, json)
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
    let seed = Decoder { store: &store, kind: &kind.kind };
    let mut handle = |delta: Delta<Decoded<_>>| match delta {
        Delta::Replaced(all, _) => store.replace(all.into_iter().filter_map(|one| one.object).collect()),
        Delta::Applied(one) => one.object.into_iter().for_each(|object| store.put(object)),
        Delta::Deleted(one) => one.object.into_iter().for_each(|object| store.remove(object)),
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

/// A decoded object with its resource version.
struct Decoded<T> {
    resource_version: String,
    /// The object, or `None` if it could not be decoded.
    object: Option<T>,
}

impl<T> Versioned for Decoded<T> {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

/// Decodes the objects of a list one by one for a store. An object that cannot be decoded is logged, and the others
/// are kept.
struct Decoder<'a, S> {
    store: &'a S,
    /// The kind of the objects.
    kind: &'a str,
}

impl<S> Clone for Decoder<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Decoder<'_, S> {}

impl<'de, S: Store> DeserializeSeed<'de> for Decoder<'_, S> {
    type Value = Decoded<S::Object>;

    fn deserialize<D: Deserializer<'de>>(self, object: D) -> Result<Self::Value, D::Error> {
        let json = <&RawValue>::deserialize(object)?;
        let mut identity: Identity = serde_json::from_str(json.get()).unwrap_or_default();
        let object = self.store.decode(json).map_err(|error| {
            self.kind.clone_into(&mut identity.kind);
            identity.report_undecodable(&error);
        });
        Ok(Decoded { resource_version: identity.metadata.resource_version, object: object.ok() })
    }
}

#[cfg(test)]
mod tests;
