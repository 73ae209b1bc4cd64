//! Keeps one table of the world as the server has it: a list, then a watch, then the next watch from where it ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::client::{Client, Error, Event, Kind};
use super::complaint::Complaint;
use super::object::{Object, text};
use super::world::World;

/// The first pause after a failure; doubled with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries, so that a server that comes back is noticed.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Follows a resource for as long as it is polled.
pub async fn follow(client: Client, world: World, kind: Arc<Kind>, complaint: Complaint) {
    let informer = Informer { client, world, qualified: kind.qualified(), kind };
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
        if begun.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tracing::debug!(resource = informer.qualified, error = %followed, "cannot follow; trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

struct Informer {
    client: Client,
    world: World,
    kind: Arc<Kind>,
    qualified: String,
}

impl Informer {
    /// Reads all there is; the revision to go on from.
    async fn read(&self) -> Result<String, Error> {
        let mut objects = Vec::new();
        let take = |object| objects.push(Object::of(&self.qualified, &object));
        let revision = self.client.list(&self.kind, "", take).await?;
        self.world.replace(&self.kind, objects);
        Ok(revision)
    }

    /// Takes in what changes from there, until something goes wrong.
    async fn follow(&self, mut revision: String) -> Error {
        loop {
            let mut watch =
                match self.client.watch(&self.kind, &revision, Object::sieve(&self.qualified)).await {
                    Ok(watch) => watch,
                    Err(error) => return error,
                };
            let mut heard = false;
            while let Some(event) = watch.next().await {
                heard = true;
                let object = match event {
                    Ok(Event::Put(object)) => {
                        let object = Object::of(&self.qualified, &object);
                        let at = object.revision.clone();
                        self.world.put(&self.kind, object);
                        at
                    }
                    Ok(Event::Gone(object)) => {
                        let object = Object::of(&self.qualified, &object);
                        self.world.remove(&self.kind, &object.namespace, &object.name);
                        object.revision
                    }
                    Ok(Event::Bookmark(object)) => {
                        text(object.get("metadata").and_then(|metadata| metadata.get("resourceVersion")))
                    }
                    Err(error) => return error,
                };
                if !object.is_empty() {
                    revision = object;
                }
            }
            // A server that ends every watch at once is asked again in a while, not at once.
            if !heard {
                return Error::Lost("the watch ended at once".into());
            }
        }
    }
}
