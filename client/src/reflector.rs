//! Reflector: lists the objects of one resource, and then watches them from the resource version of the list.
//!
//! A watch that ends, or is silent for too long, continues from the last resource version. If the server no longer
//! has that version, the reflector lists again. The caller decides how long it waits after an error.

use std::time::Duration;

use serde::de::DeserializeSeed;
use tokio::time::Instant;

use crate::backoff::random_share;
use crate::watch::{Event, Watch};
use crate::{Client, Error, Kind, Scope};

/// Shortest `timeoutSeconds` of a watch. A random share of it is added, so that the watches of many clients do not end
/// together.
const WATCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// A watch without an event for this long is broken, because servers send a bookmark each minute.
pub const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(3 * 60);
/// Shortest time between two watches, for a server that ends each watch at once.
const MIN_WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A change that the reflector reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<T> {
    /// The complete list, and its `resourceVersion`.
    Replaced(Vec<T>, String),
    /// An object was added or modified.
    Applied(T),
    /// An object was deleted; its last state.
    Deleted(T),
}

/// An object with a `metadata.resourceVersion`.
pub trait Versioned {
    /// The resource version; empty if the object has none.
    fn resource_version(&self) -> &str;
}

impl Versioned for serde_json::Value {
    fn resource_version(&self) -> &str {
        self["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }
}

/// The position of a reflector in the history of its resource.
#[derive(Clone, Debug)]
pub struct Reflector {
    kind: Kind,
    scope: Scope,
    /// The resource version to watch from; empty before the first list.
    version: String,
}

/// A watch that a reflector opened.
#[derive(Debug)]
pub struct OpenWatch<S> {
    watch: Watch<S>,
    since: Instant,
}

impl Reflector {
    /// Creates a reflector of these objects. It lists first.
    pub fn new(kind: Kind, scope: Scope) -> Self {
        Self { kind, scope, version: String::new() }
    }

    /// Lists the objects if no resource version is known, and opens a watch. `seed` decodes the objects.
    ///
    /// # Errors
    /// If a request failed. The next call lists again only if the error says that the server no longer has the
    /// resource version.
    pub async fn connect<T, S>(
        &mut self,
        client: &Client,
        seed: S,
        handle: &mut (impl FnMut(Delta<T>) + Send),
    ) -> Result<OpenWatch<S>, Error>
    where
        T: Send,
        S: Copy + Send + Sync + for<'de> DeserializeSeed<'de, Value = T>,
    {
        if self.version.is_empty() {
            self.list(client, seed, handle).await?;
        }
        let timeout = WATCH_TIMEOUT.mul_f64(1.0 + random_share());
        match client.watch(&self.kind, &self.scope, &self.version, timeout, seed).await {
            Ok(watch) => Ok(OpenWatch { watch, since: Instant::now() }),
            Err(error) if error.is_expired() => {
                self.list(client, seed, handle).await?;
                let watch = client.watch(&self.kind, &self.scope, &self.version, timeout, seed).await?;
                Ok(OpenWatch { watch, since: Instant::now() })
            }
            Err(error) => {
                // Other errors are mostly overload, and a list would add to it.
                if error.has_code(400) {
                    self.version.clear();
                }
                Err(error)
            }
        }
    }

    async fn list<T, S>(
        &mut self,
        client: &Client,
        seed: S,
        handle: &mut (impl FnMut(Delta<T>) + Send),
    ) -> Result<(), Error>
    where
        T: Send,
        S: Copy + Send + Sync + for<'de> DeserializeSeed<'de, Value = T>,
    {
        self.version.clear();
        let mut items = Vec::new();
        let version = client.list_with(&self.kind, &self.scope, seed, |item| items.push(item)).await?;
        handle(Delta::Replaced(items, version.clone()));
        self.version = version;
        Ok(())
    }

    /// Reports the changes of a watch until it ends. The next call of [`Self::connect`] continues after them.
    ///
    /// # Errors
    /// If the watch is broken.
    pub async fn follow<T, S>(
        &mut self,
        open: OpenWatch<S>,
        handle: &mut (impl FnMut(Delta<T>) + Send),
    ) -> Result<(), Error>
    where
        T: Send + Versioned,
        S: Copy + Send + Sync + for<'de> DeserializeSeed<'de, Value = T>,
    {
        let OpenWatch { mut watch, since } = open;
        while let Some(event) = watch.next(WATCH_IDLE_TIMEOUT).await {
            let event = match event {
                Ok(event) => event,
                Err(error) if error.is_expired() => {
                    self.version.clear();
                    break;
                }
                Err(error) => return Err(error),
            };
            let mut reached = |version: &str| {
                if !version.is_empty() {
                    version.clone_into(&mut self.version);
                }
            };
            match event {
                Event::Applied(object) => {
                    reached(object.resource_version());
                    handle(Delta::Applied(object));
                }
                Event::Deleted(object) => {
                    reached(object.resource_version());
                    handle(Delta::Deleted(object));
                }
                Event::Bookmark(version) => reached(&version),
            }
        }
        tokio::time::sleep(MIN_WATCH_INTERVAL.saturating_sub(since.elapsed())).await;
        Ok(())
    }
}
