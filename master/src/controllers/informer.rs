//! Keeps one table as the server has it: a list, then a watch, then the next watch from where it ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use serde_json::Value;

use super::client::{Client, Error, Event, Json, Kind, Sieve};
use super::complaint::Complaint;
use super::object::{Object, text};
use super::world::World;

/// The first pause after a failure; doubled with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries, so that a server that comes back is noticed.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What takes in the objects of one resource.
pub trait Table: Send + Sync + 'static {
    /// What is read of an object.
    fn sieve(&self) -> Sieve;

    /// What is to be kept of an object of a list.
    type Kept: Send;

    /// Takes that out of an object.
    fn keep(&self, object: &Json) -> Self::Kept;

    /// Takes in a whole list.
    fn replace(&self, objects: Vec<Self::Kept>);

    /// Takes in one object as it is now.
    fn put(&self, object: Self::Kept);

    /// Takes one object out, as it last was.
    fn remove(&self, object: Self::Kept);

    /// What changes is not seen any more, until the next list.
    fn lose(&self) {}
}

/// A table of the world.
pub(super) struct InWorld {
    world: World,
    kind: Arc<Kind>,
    qualified: String,
}

impl InWorld {
    /// That of a kind.
    pub(super) fn of(world: World, kind: Arc<Kind>) -> Self {
        Self { world, qualified: kind.qualified(), kind }
    }
}

impl Table for InWorld {
    type Kept = Object;

    fn sieve(&self) -> Sieve {
        Object::sieve(&self.qualified)
    }

    fn keep(&self, object: &Json) -> Object {
        Object::of(&self.qualified, object)
    }

    fn replace(&self, objects: Vec<Object>) {
        self.world.replace(&self.kind, objects);
    }

    fn put(&self, object: Object) {
        self.world.put(&self.kind, object);
    }

    fn remove(&self, object: Object) {
        self.world.remove(&self.kind, &object.namespace, &object.name);
    }

    fn lose(&self) {
        self.world.lose(&self.kind);
    }
}

/// Follows a resource for as long as it is polled.
pub async fn follow(client: Client, kind: Arc<Kind>, table: impl Table, complaint: Complaint) {
    let informer = Informer { client, table, qualified: kind.qualified(), kind };
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = Instant::now();
        let followed = match informer.read().await {
            Ok(revision) => {
                let error = informer.follow(revision).await;
                // A watch that breaks is begun again; one that is forbidden is not.
                if matches!(error, Error::Refused { .. }) {
                    complaint.tell(&informer.qualified, &error);
                }
                error
            }
            Err(error) => {
                complaint.tell(&informer.qualified, &error);
                error
            }
        };
        informer.table.lose();
        if begun.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tracing::debug!(resource = informer.qualified, error = %followed, "cannot follow; trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

struct Informer<T> {
    client: Client,
    table: T,
    kind: Arc<Kind>,
    qualified: String,
}

impl<T: Table> Informer<T> {
    /// Reads all there is; the revision to go on from.
    async fn read(&self) -> Result<String, Error> {
        let mut objects = Vec::new();
        let take = |object| objects.push(self.table.keep(&object));
        let revision = self.client.list_of(&self.kind, "", self.table.sieve(), take).await?;
        self.table.replace(objects);
        Ok(revision)
    }

    /// Takes in what changes from there, until something goes wrong.
    async fn follow(&self, mut revision: String) -> Error {
        loop {
            let mut watch = match self.client.watch(&self.kind, &revision, self.table.sieve()).await {
                Ok(watch) => watch,
                Err(error) => return error,
            };
            let mut heard = false;
            while let Some(event) = watch.next().await {
                heard = true;
                let at = match &event {
                    Ok(Event::Put(object) | Event::Gone(object) | Event::Bookmark(object)) => version(object),
                    Err(_) => String::new(),
                };
                match event {
                    Ok(Event::Put(object)) => self.table.put(self.table.keep(&object)),
                    Ok(Event::Gone(object)) => self.table.remove(self.table.keep(&object)),
                    Ok(Event::Bookmark(_)) => {}
                    Err(error) => return error,
                }
                if !at.is_empty() {
                    revision = at;
                }
            }
            // A server that ends every watch at once is asked again in a while, not at once.
            if !heard {
                return Error::Lost("the watch ended at once".into());
            }
        }
    }
}

fn version(object: &Json) -> String {
    text(object.get("metadata").and_then(|metadata: &Value| metadata.get("resourceVersion")))
}
