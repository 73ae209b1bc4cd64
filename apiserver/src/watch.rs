//! Watch streams, which end at their timeout or when the client is too slow.
//!
//! Large objects are sent from the cached bytes. Other representations are encoded once for all watches.

pub mod limits;
mod lines;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use self::limits::{STALL_TIMEOUT, Slot};
use self::lines::{CHUNK_BYTES, Lines};
use crate::list::{Page, refuse_future};
use crate::represent::{self, As, Encoding, Format, Table};
use crate::request::{Include, ListOptions};
use crate::resource::Resource;
use crate::status::Status;
use crate::watch_cache::{
    Before, Change, ChangeKind, Form, Object, Representation, Scope, TooOld, WatchCache, Watcher,
};

/// Minimum timeout of a watch without a requested timeout, as in kube-apiserver. Up to the same amount is added at
/// random.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
/// Interval of bookmarks on a quiet watch.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Minimum interval between writes of a watch, so that changes are combined. A change after a quiet period is sent
/// at once. At a thousand changes per second this saves seven of eight writes.
const BATCH_INTERVAL: Duration = Duration::from_millis(8);

/// Bytes of objects that a watch decodes before it yields to other tasks.
const DECODED_BYTES: usize = 256 * 1024;

/// A running watch.
struct Watch {
    resource: Arc<Resource>,
    options: ListOptions,
    format: Format,
    /// True after the column definitions were sent, with the first event.
    columns_sent: bool,
    initial: VecDeque<Object>,
    initial_end: Option<u64>,
    watcher: Watcher,
    /// Changes that were read from the cache and are not encoded yet.
    changes: VecDeque<Arc<Change>>,
    lines: Lines,
    /// The watch as counted for the user, or `None` for exempt users.
    slot: Option<Slot>,
    /// Earliest time of the next write.
    due_at: Instant,
    ends_at: Instant,
    bookmark_at: Instant,
    ended: bool,
}

/// The event that a change causes in this watch.
enum Event<'a> {
    /// The current object, with the type of the event.
    Now(&'static str, &'a Object),
    /// The previous object, because the selector no longer matches.
    Left(&'a Object),
}

/// Starts a watch. Each event is one JSON line or protobuf frame.
///
/// # Errors
/// 410 for a revision that is too old, 504 for a future one.
pub fn start(
    store: &WatchCache,
    resource: &Arc<Resource>,
    scope: Scope,
    options: ListOptions,
    format: Format,
    slot: Option<Slot>,
) -> Result<Body, Status> {
    let name = resource.stored();
    let requested = options.revision.unwrap_or_default();
    refuse_future(store, requested)?;
    // Without a revision, with revision 0, or on request, a watch starts with the current objects.
    let (initial, after) = if requested == 0 || options.initial_events {
        let everything = ListOptions {
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            ..ListOptions::default()
        };
        let page = Page::read(store, name, &scope, &everything)?;
        (page.objects.into(), page.revision)
    } else {
        (VecDeque::new(), requested)
    };
    let watcher = match options.fields.field_value() {
        Some(field_value) => store.watch_field(name, scope, field_value, after)?,
        None => store.watch(name, scope, after)?,
    };
    let now = Instant::now();
    // Spread by the revision, so that watches started together end at different times.
    let spread = Duration::from_secs(after.wrapping_mul(7919) % DEFAULT_TIMEOUT.as_secs());
    let watch = Watch {
        resource: resource.clone(),
        format,
        columns_sent: false,
        initial,
        initial_end: options.initial_events.then_some(after),
        watcher,
        changes: VecDeque::new(),
        lines: Lines::new(format.encoding),
        slot,
        due_at: now,
        ends_at: now + options.timeout.unwrap_or(DEFAULT_TIMEOUT + spread),
        bookmark_at: now + BOOKMARK_INTERVAL,
        ended: false,
        options,
    };
    let stream = stream::unfold(watch, |mut watch| async {
        let chunk = watch.next().await?;
        Some((Ok::<_, Infallible>(chunk), watch))
    });
    Ok(Body::from_stream(stream))
}

impl Watch {
    /// The next bytes, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.lines.pop() {
                return self.charged(chunk).await;
            }
            if self.ended {
                return None;
            }
            self.encode().await;
        }
    }

    /// Counts a chunk against the limit of the user until it is sent. Returns `None` if the user's other watches
    /// are stalled.
    async fn charged(&self, chunk: Bytes) -> Option<Bytes> {
        let Some(slot) = &self.slot else { return Some(chunk) };
        let charged = timeout(STALL_TIMEOUT, slot.charge(chunk)).await;
        if charged.is_err() {
            let resource = self.resource.stored();
            tracing::debug!(
                resource,
                "closing a watch: other watches of the user have not read their events"
            );
        }
        charged.ok()
    }

    /// Waits for the first event, and encodes the available events.
    async fn encode(&mut self) {
        let mut decoded = 0;
        while let Some(object) = self.initial.pop_front() {
            let bytes = self.encoded(&object);
            self.send("ADDED", bytes);
            decoded += object.json().len();
            if self.lines.len() > CHUNK_BYTES || decoded > DECODED_BYTES {
                // Decoding many objects takes long; yields to other tasks.
                return tokio::task::yield_now().await;
            }
        }
        if let Some(revision) = self.initial_end.take() {
            self.bookmark(revision, true);
        }
        while self.lines.len() == 0 && !self.ended {
            if !self.changes.is_empty() {
                self.encode_changes();
                continue;
            }
            tokio::select! {
                changes = due(self.due_at, &mut self.watcher) => {
                    self.due_at = Instant::now() + BATCH_INTERVAL;
                    match changes {
                        Ok(changes) => self.changes.extend(changes),
                        Err(too_old) => self.end(too_old),
                    }
                }
                () = sleep_until(self.bookmark_at), if self.options.bookmarks => {
                    self.bookmark_at = Instant::now() + BOOKMARK_INTERVAL;
                    let revision = self.watcher.bookmark_revision();
                    self.bookmark(revision, false);
                }
                () = sleep_until(self.ends_at) => self.ended = true,
            }
        }
    }

    fn encode_changes(&mut self) {
        while let Some(change) = self.changes.pop_front() {
            match self.event(&change) {
                Ok(None) => {}
                Ok(Some(Event::Now(kind, object))) => {
                    let bytes = self.shared(&change, object, false);
                    self.send(kind, bytes);
                }
                Ok(Some(Event::Left(object))) => {
                    let bytes = self.shared(&change, object, true);
                    self.send("DELETED", bytes);
                }
                Err(too_old) => {
                    self.changes.clear();
                    return self.end(too_old);
                }
            }
            if self.lines.len() > CHUNK_BYTES {
                return;
            }
        }
    }

    fn end(&mut self, too_old: TooOld) {
        self.ended = true;
        let resource = self.resource.stored();
        tracing::debug!(
            resource,
            requested = too_old.requested,
            oldest = too_old.oldest,
            "closing a watch that fell behind"
        );
        let status = Status::from(too_old).object().to_string();
        self.send("ERROR", in_encoding(self.format.encoding, status.into()));
    }

    /// The event for a change, depending on whether the selectors match the object before and after it.
    fn event<'a>(&self, change: &'a Change) -> Result<Option<Event<'a>>, TooOld> {
        let ListOptions { labels, fields, .. } = &self.options;
        let seen = |object: &Object| labels.matches(object) && fields.matches(object);
        let is_seen = seen(&change.object);
        let before = match &change.before {
            Before::Nothing => None,
            Before::Object(object) => Some(object).filter(|object| seen(object)),
            // Name and namespace never change, so such selectors need no previous object.
            Before::Forgotten if labels.is_empty() && fields.select_by_name_only() => {
                Some(&change.object).filter(|_| is_seen)
            }
            Before::Forgotten => {
                return Err(TooOld { requested: change.revision.saturating_sub(1), oldest: change.revision });
            }
        };
        Ok(match change.kind {
            ChangeKind::Deleted => before.map(|_| Event::Now("DELETED", &change.object)),
            ChangeKind::Put if is_seen => {
                let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
                Some(Event::Now(kind, &change.object))
            }
            ChangeKind::Put => before.map(Event::Left),
        })
    }

    /// The encoded object of a change, shared by watches with the same representation.
    fn shared(&mut self, change: &Arc<Change>, object: &Object, is_before: bool) -> Bytes {
        if self.format == Format::JSON && self.resource.conversion.is_none() && !is_before {
            return object.json().clone();
        }
        let form = self.form();
        let representation = Representation { version: self.resource.version.clone(), form, is_before };
        let (resource, revision) = (&self.resource, change.revision);
        self.watcher.encoded(change, representation, || match is_before {
            true => encode(resource, form, &object.at(revision)),
            false => encode(resource, form, object),
        })
    }

    /// Encodes an object.
    fn encoded(&mut self, object: &Object) -> Bytes {
        let form = self.form();
        encode(&self.resource, form, object)
    }

    /// The format of the next object, and what it includes. Only the first object of a table watch has the columns.
    fn form(&mut self) -> Form {
        let format = self.format;
        if !matches!(format.shape, As::Table(_)) {
            return Form { format, include: Include::None, with_columns: false };
        }
        let with_columns = !std::mem::replace(&mut self.columns_sent, true);
        Form { format, include: self.options.include, with_columns }
    }

    /// Adds an event. An object that could not be encoded ends the watch. The client then lists again and gets the
    /// error.
    fn send(&mut self, kind: &str, object: Bytes) {
        if object.is_empty() {
            self.ended = true;
        } else {
            self.lines.push(kind, &object);
        }
    }

    fn bookmark(&mut self, revision: u64, ends_initial: bool) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.format.shape {
            As::Object => (self.resource.kind.as_ref(), self.resource.api_version()),
            As::Table(version) => ("Table", version.api_version()),
            As::Metadata(version) => ("PartialObjectMetadata", version.api_version()),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if matches!(self.format.shape, As::Table(_)) {
            object["columnDefinitions"] = Value::Null;
            object["rows"] = json!([]);
        }
        self.send("BOOKMARK", in_encoding(self.format.encoding, object.to_string().into()));
    }
}

/// Encodes an object; empty if that fails.
fn encode(resource: &Resource, form: Form, object: &Object) -> Bytes {
    let json = match form.format.shape {
        As::Object => resource.json(object),
        As::Metadata(version) => represent::metadata_json(&resource.json(object), version).into(),
        As::Table(version) => {
            let metadata = json!({"resourceVersion": object.revision().to_string()});
            let rows = std::iter::once(resource.tree(object));
            let Form { include, with_columns, .. } = form;
            let table = Table { version, include, with_columns, now: Timestamp::now() };
            return table.of(resource.columns.as_ref(), rows, metadata).to_string().into();
        }
    };
    in_encoding(form.format.encoding, json)
}

/// Encodes JSON for a watch; empty if that fails.
fn in_encoding(encoding: Encoding, json: Bytes) -> Bytes {
    match encoding {
        Encoding::Json | Encoding::Yaml => json,
        Encoding::Protobuf => match represent::protobuf(&json) {
            Ok(object) => object.into(),
            Err(error) => {
                tracing::error!(%error, "closing a watch: an object cannot be encoded in protobuf");
                Bytes::new()
            }
        },
    }
}

/// Waits until `at`, then for changes.
async fn due(at: Instant, watcher: &mut Watcher) -> Result<Vec<Arc<Change>>, TooOld> {
    // An expired timer still costs up to a millisecond.
    if Instant::now() < at {
        sleep_until(at).await;
    }
    watcher.next().await
}
