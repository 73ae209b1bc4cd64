//! The store that forgets with its process: a lone node's, whose truth lies in its containers and manifests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::picture::{Album, Objects, Picture};
use super::topic::{Topic, Topics};
use super::watcher::{Before, Change, ChangeKind, Watcher};
use super::{Draft, Object, Scope, TooOld};

/// Changes of one resource that a watch may resume over; older ones answer 410 and cost the client one list.
pub(crate) const HISTORY_CHANGES: usize = 4096;
/// Changes handed over at once, so that a burst neither holds the lock for long nor wakes the watcher for each.
const HAND_CHANGES: usize = 128;
/// Bytes of objects handed over at once, beside the one that passes them: what a watch holds that nobody reads.
const HAND_BYTES: usize = 256 * 1024;
/// Bytes of superseded objects that history holds on to per resource unless a store says otherwise.
const HISTORY_BYTES: usize = 1024 * 1024;

/// Objects in memory. Clones share them.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    revision: u64,
    first: u64,
    history_bytes: usize,
    resources: BTreeMap<String, Table>,
    /// Counts those who ever heard of a topic.
    readers: u64,
    /// Up to where a store that is followed has been noted.
    reached: watch::Sender<u64>,
}

#[derive(Debug)]
pub(super) struct Table {
    objects: Objects,
    album: Album,
    history: VecDeque<Arc<Change>>,
    history_bytes: usize,
    history_limit: usize,
    /// A watch may resume from here or later.
    oldest: u64,
    /// The revision it began at, for as long as nobody has looked for what was before and all since is remembered.
    begun: Option<u64>,
    /// The revision of the newest change; receivers wake when it moves.
    newest: watch::Sender<u64>,
    /// Who hears of a few of them alone.
    topics: Topics,
}

/// What a write did.
#[derive(Clone, Debug)]
pub enum Put {
    /// There was none of that name.
    Created(Object),
    /// There was another.
    Updated(Object),
    /// It was there already, to the letter; nothing moved.
    Unchanged(Object),
}

impl Put {
    /// The object as it stands now.
    pub fn object(&self) -> &Object {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }
}

/// What a durable store has done to an object.
#[derive(Clone, Debug)]
pub enum Followed {
    /// It was written.
    Put {
        /// Where it lies.
        resource: String,
        /// As it was written.
        object: Object,
    },
    /// It was taken out.
    Delete {
        /// Where it lay.
        resource: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Objects as they were at one revision, by namespace and name.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The revision that this is a picture of.
    pub revision: u64,
    /// The objects.
    pub objects: Vec<Object>,
}

impl Memory {
    /// An empty store whose first write gets a revision above that one.
    ///
    /// A process that takes the time as its first revision never repeats one of its predecessor, so that a client that
    /// resumes across the restart is told 410 and not something wrong.
    pub fn new(first: u64) -> Self {
        Self::with_history(first, HISTORY_BYTES)
    }

    /// The same, with so many bytes of superseded objects per resource to resume watches over.
    pub fn with_history(first: u64, history_bytes: usize) -> Self {
        let reached = watch::Sender::new(first);
        let shared =
            Shared { revision: first, first, history_bytes, resources: BTreeMap::new(), readers: 0, reached };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Writes an object under its resource (`pods`, `leases.coordination.k8s.io`), its namespace and its name.
    pub fn put(&self, resource: &str, draft: &Draft) -> Put {
        let mut shared = self.lock();
        let table = shared.table(resource);
        if let Some(before) = table.objects.get(draft.namespace(), draft.name())
            && before.is(draft)
        {
            return Put::Unchanged(before.clone());
        }
        let revision = shared.revision + 1;
        shared.put(resource, draft.at(revision))
    }

    /// Takes an object out; the last of it when it was there.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> Option<Object> {
        let mut shared = self.lock();
        let revision = shared.revision + 1;
        shared.delete(resource, namespace, name, revision)
    }

    /// Takes in what a durable store holds when it begins to be followed; nobody can have watched that.
    pub fn load(&self, resource: &str, object: Object) {
        self.lock().table(resource).objects.insert(object);
    }

    /// Takes in what a durable store holds of a resource that is served from now on, in place of what is here. Watches
    /// can begin at that revision; those under way are closed.
    pub fn adopt(&self, resource: &str, objects: Vec<Object>, revision: u64) {
        let mut shared = self.lock();
        shared.resources.remove(resource);
        let table = shared.table(resource);
        (table.oldest, table.begun) = (revision, Some(revision));
        table.objects = objects.into_iter().collect();
    }

    /// Forgets all objects of a resource that is not served any more; watches under way are closed.
    pub fn forget(&self, resource: &str) {
        self.lock().resources.remove(resource);
    }

    /// Notes what a durable store has done, in the order of its revisions: all of it up to that revision, which deletions
    /// bear. Nobody sees a part of it, for whoever has seen a revision asks only for what comes after it.
    pub fn follow(&self, revision: u64, changes: impl IntoIterator<Item = Followed>) {
        self.follow_through([(revision, changes)]);
    }

    /// The same for several revisions, of which whoever waits hears once.
    pub fn follow_through(&self, steps: impl IntoIterator<Item = (u64, impl IntoIterator<Item = Followed>)>) {
        let mut shared = self.lock();
        for (revision, changes) in steps {
            for change in changes {
                match change {
                    Followed::Put { resource, object } => drop(shared.put(&resource, object)),
                    Followed::Delete { resource, namespace, name } => {
                        shared.delete(&resource, &namespace, &name, revision);
                    }
                }
            }
            shared.revision = shared.revision.max(revision);
        }
        shared.reached.send_replace(shared.revision);
    }

    /// The resources whose past, before the revision they begin at here, has not been taken in.
    pub fn without_past(&self) -> Vec<(String, u64)> {
        let shared = self.lock();
        let begun = shared.resources.iter().map(|(name, table)| (name, table.begun));
        begun.filter_map(|(name, begun)| Some((name.clone(), begun?))).collect()
    }

    /// Takes in what happened to a resource after the revision `oldest` and up to the one at which it begins here.
    pub fn take_in_past(&self, resource: &str, begun: u64, past: Vec<Change>, oldest: u64) {
        let mut shared = self.lock();
        // It may have been adopted anew meanwhile, or moved on so far that there would be a gap.
        let table = shared.resources.get_mut(resource).filter(|table| table.begun == Some(begun));
        if let Some(table) = table {
            table.take_in_past(begun, past, oldest);
        }
    }

    /// Waits until everything up to that revision has been noted with [`Self::follow`].
    pub async fn reached(&self, revision: u64) {
        let mut reached = self.lock().reached.subscribe();
        // The sender lives in the store, which this future borrows: it cannot be gone.
        let _ = reached.wait_for(|up_to| *up_to >= revision).await;
    }

    /// One object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Object> {
        self.lock().resources.get(resource)?.objects.get(namespace, name).cloned()
    }

    /// All objects in a scope, as they are now.
    pub fn list(&self, resource: &str, scope: &Scope) -> Listing {
        let picture = self.picture(resource);
        Listing { revision: picture.revision, objects: picture.after(scope, None).cloned().collect() }
    }

    /// How many objects there are in a scope.
    pub fn count(&self, resource: &str, scope: &Scope) -> usize {
        self.picture(resource).count(scope)
    }

    /// The objects of a resource as they are now.
    pub fn picture(&self, resource: &str) -> Picture {
        let shared = self.lock();
        let objects = shared.resources.get(resource).map(|table| table.objects.clone()).unwrap_or_default();
        Picture { revision: shared.revision, objects }
    }

    /// The objects of a resource as they were at that revision.
    ///
    /// # Errors
    /// When the revision is older than what is remembered.
    pub fn picture_at(&self, resource: &str, revision: u64) -> Result<Picture, TooOld> {
        self.lock().table(resource).at(revision)
    }

    /// Remembers a picture for those who go on with it, while it keeps little alive.
    pub fn keep(&self, resource: &str, picture: &Picture) {
        self.lock().table(resource).album.keep(picture);
    }

    /// What changes in a scope after that revision.
    ///
    /// # Errors
    /// When the revision is older than what is remembered.
    pub fn watch(&self, resource: &str, scope: Scope, after: u64) -> Result<Watcher, TooOld> {
        let mut shared = self.lock();
        let table = shared.table(resource);
        if after < table.oldest {
            return Err(TooOld { asked: after, oldest: table.oldest });
        }
        let newest = table.newest.subscribe();
        Ok(Watcher::new(self.clone(), resource.to_owned(), scope, after, newest))
    }

    /// What changes in a scope after that revision of objects with one value of a field, or that had it.
    ///
    /// # Errors
    /// As [`Self::watch`].
    pub fn watch_topic(
        &self,
        resource: &str,
        scope: Scope,
        topic: Topic,
        after: u64,
    ) -> Result<Watcher, TooOld> {
        let mut shared = self.lock();
        shared.readers += 1;
        let id = shared.readers;
        let table = shared.table(resource);
        if after < table.oldest {
            return Err(TooOld { asked: after, oldest: table.oldest });
        }
        let from = table.history.partition_point(|change| change.revision <= after);
        let newest = table.topics.join(&topic, id, after, table.history.range(from..));
        Ok(Watcher::new(self.clone(), resource.to_owned(), scope, after, newest).about(topic, id))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn put(&mut self, resource: &str, object: Object) -> Put {
        let revision = object.revision();
        let table = self.table(resource);
        let before = table.objects.insert(object.clone());
        let put = if before.is_some() { Put::Updated(object.clone()) } else { Put::Created(object.clone()) };
        table.record(Change { revision, kind: ChangeKind::Put, object, before: before.into() });
        self.revision = revision;
        put
    }

    fn delete(&mut self, resource: &str, namespace: &str, name: &str, revision: u64) -> Option<Object> {
        let table = self.table(resource);
        let before = table.objects.remove(namespace, name)?;
        let object = before.at(revision);
        table.record(Change {
            revision,
            kind: ChangeKind::Deleted,
            object: object.clone(),
            before: Before::Object(before),
        });
        self.revision = revision;
        Some(object)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The table of a watcher that has begun on it; `None` when it was forgotten since.
    pub(super) fn watched_mut(&mut self, resource: &str) -> Option<&mut Table> {
        self.resources.get_mut(resource)
    }

    fn table(&mut self, resource: &str) -> &mut Table {
        if !self.resources.contains_key(resource) {
            let table = Table {
                objects: Objects::default(),
                album: Album::default(),
                history: VecDeque::new(),
                history_bytes: 0,
                history_limit: self.history_bytes,
                oldest: self.first,
                begun: Some(self.first),
                newest: watch::Sender::new(self.first),
                topics: Topics::default(),
            };
            self.resources.insert(resource.to_owned(), table);
        }
        self.resources.get_mut(resource).expect("it was put there a line above")
    }
}

impl Table {
    /// Changes after that revision, oldest first: as many as are handed over at once, and the rest of what the last one's
    /// revision changed. Whoever goes on after the last one misses nothing.
    pub(super) fn after(&self, revision: u64) -> Result<Vec<Arc<Change>>, TooOld> {
        if revision < self.oldest {
            return Err(TooOld { asked: revision, oldest: self.oldest });
        }
        let from = self.history.partition_point(|change| change.revision <= revision);
        let mut fits = hand();
        let mut changes: Vec<_> =
            self.history.range(from..).take_while(|change| fits(change)).cloned().collect();
        if let Some(last) = changes.last().map(|last| last.revision) {
            let rest = self.history.range(from + changes.len()..);
            changes.extend(rest.take_while(|change| change.revision == last).cloned());
        }
        Ok(changes)
    }

    /// Takes what waits for somebody who hears of a topic: as much as is handed over at once, as [`Self::after`] does.
    pub(super) fn about(&mut self, topic: &Topic, id: u64) -> Vec<Arc<Change>> {
        self.topics.take(topic, id, hand())
    }

    #[cfg(test)]
    pub(super) fn is_heard_by_nobody(&self) -> bool {
        self.topics.is_empty()
    }

    /// Somebody hears of that no more.
    pub(super) fn leave(&mut self, topic: &Topic, id: u64) {
        self.topics.leave(topic, id);
    }

    /// The past is a picture of it, or the present with every later change undone, newest first.
    fn at(&self, revision: u64) -> Result<Picture, TooOld> {
        if let Some(kept) = self.album.find(revision) {
            return Ok(kept.clone());
        }
        if revision < self.oldest {
            return Err(TooOld { asked: revision, oldest: self.oldest });
        }
        let mut objects = self.objects.clone();
        for change in self.history.iter().rev().take_while(|change| change.revision > revision) {
            match &change.before {
                Before::Forgotten => return Err(TooOld { asked: revision, oldest: change.revision }),
                Before::Object(before) => drop(objects.insert(before.clone())),
                Before::Nothing => drop(objects.remove(change.object.namespace(), change.object.name())),
            }
        }
        Ok(Picture { revision, objects })
    }

    fn record(&mut self, change: Change) {
        let revision = change.revision;
        self.history_bytes += change.weight();
        self.album.superseded(change.weight());
        let change = Arc::new(change);
        self.topics.tell(&change);
        self.history.push_back(change);
        self.forget_what_is_too_much();
        self.newest.send_replace(revision);
    }

    fn take_in_past(&mut self, begun: u64, past: Vec<Change>, oldest: u64) {
        // What was on its way while it was adopted is part of the past.
        while let Some(known) = self.history.pop_front_if(|change| change.revision <= begun) {
            self.history_bytes -= known.weight();
        }
        for change in past.into_iter().rev() {
            self.history_bytes += change.weight();
            self.history.push_front(Arc::new(change));
        }
        (self.oldest, self.begun) = (oldest, None);
        self.forget_what_is_too_much();
    }

    fn forget_what_is_too_much(&mut self) {
        while self.history.len() > HISTORY_CHANGES || self.history_bytes > self.history_limit {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_bytes -= oldest.weight();
            (self.oldest, self.begun) = (oldest.revision, None);
        }
    }
}

/// Says of one change after the other whether it is still handed over with those before it.
fn hand() -> impl FnMut(&Change) -> bool {
    let (mut changes, mut bytes) = (0, 0);
    move |change| {
        let room = changes < HAND_CHANGES && bytes < HAND_BYTES;
        changes += 1;
        bytes += change.bytes();
        room
    }
}
