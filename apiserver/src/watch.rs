//! Watches: what changes, as a stream of events that ends when its time is up or its reader is too slow.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::list::{Page, refuse_future};
use crate::request::{As, ListOptions};
use crate::resource::Resource;
use crate::status::Status;
use crate::store::{Before, Change, ChangeKind, Memory, Object, Scope, TooOld, Watcher};
use crate::table;

/// How long a watch lasts that does not say; the stock server's least, to which it adds as much again at random.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
/// How often a quiet watch that allows it gets a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How soon after a write the next one may follow: what happens meanwhile goes out together. What comes after a quiet
/// moment goes out at once, and a busy watch costs an eighth of the writes at a thousand changes a second.
const GATHER: Duration = Duration::from_millis(8);

/// A watch under way.
struct Watch {
    resource: Arc<Resource>,
    options: ListOptions,
    shape: As,
    /// Column heads go out once, with the first event.
    heads_sent: bool,
    initial: VecDeque<Object>,
    initial_end: Option<u64>,
    watcher: Watcher,
    /// When the next changes may go out.
    due_at: Instant,
    ends_at: Instant,
    bookmark_at: Instant,
    ended: bool,
}

/// Starts a watch; what is sent is one JSON object a line.
///
/// # Errors
/// 410 for a revision that is forgotten, 504 for one that is still to come.
pub fn start(
    store: &Memory,
    resource: &Arc<Resource>,
    scope: Scope,
    options: ListOptions,
    shape: As,
) -> Result<Body, Status> {
    let name = resource.stored();
    let asked = options.revision.unwrap_or_default();
    refuse_future(store, asked)?;
    // Without a revision, or with 0, or when asked for it, a watch begins with all there is.
    let (initial, after) = if asked == 0 || options.initial_events {
        let everything = ListOptions {
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            ..ListOptions::default()
        };
        let page = Page::read(store, name, &scope, &everything)?;
        (page.objects.into(), page.revision)
    } else {
        (VecDeque::new(), asked)
    };
    let watcher = match options.fields.topic() {
        Some(topic) => store.watch_topic(name, scope, topic, after)?,
        None => store.watch(name, scope, after)?,
    };
    let now = Instant::now();
    // Spread by the revision, so that watches begun together do not all end together.
    let spread = Duration::from_secs(after.wrapping_mul(7919) % DEFAULT_TIMEOUT.as_secs());
    let watch = Watch {
        resource: resource.clone(),
        shape,
        heads_sent: false,
        initial,
        initial_end: options.initial_events.then_some(after),
        watcher,
        due_at: now,
        ends_at: now + options.timeout.unwrap_or(DEFAULT_TIMEOUT + spread),
        bookmark_at: now + BOOKMARK_EVERY,
        ended: false,
        options,
    };
    let stream = stream::unfold(watch, |mut watch| async {
        let chunk = watch.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), watch))
    });
    Ok(Body::from_stream(stream))
}

impl Watch {
    /// The next lines, `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        /// Lines put together into one write.
        const CHUNK_BYTES: usize = 64 * 1024;

        let mut out = Vec::new();
        while let Some(object) = self.initial.pop_front() {
            self.line(&mut out, "ADDED", &object);
            if out.len() > CHUNK_BYTES {
                return Some(out);
            }
        }
        if let Some(revision) = self.initial_end.take() {
            self.bookmark(&mut out, revision, true);
        }
        while out.is_empty() && !self.ended {
            tokio::select! {
                changes = due(self.due_at, &mut self.watcher) => {
                    self.due_at = Instant::now() + GATHER;
                    self.changes(&mut out, changes);
                }
                () = sleep_until(self.bookmark_at), if self.options.bookmarks => {
                    self.bookmark_at = Instant::now() + BOOKMARK_EVERY;
                    let revision = self.watcher.progress();
                    self.bookmark(&mut out, revision, false);
                }
                () = sleep_until(self.ends_at) => self.ended = true,
            }
        }
        (!out.is_empty()).then_some(out)
    }

    fn changes(&mut self, out: &mut Vec<u8>, changes: Result<Vec<Arc<Change>>, TooOld>) {
        match changes {
            Ok(changes) => {
                for change in changes {
                    match self.event(&change) {
                        Ok(None) => {}
                        Ok(Some((kind, object))) => self.line(out, kind, &object),
                        Err(too_old) => return self.end(out, too_old),
                    }
                }
            }
            Err(too_old) => self.end(out, too_old),
        }
    }

    fn end(&mut self, out: &mut Vec<u8>, too_old: TooOld) {
        self.ended = true;
        let resource = self.resource.stored();
        tracing::debug!(
            resource,
            asked = too_old.asked,
            oldest = too_old.oldest,
            "a watch fell behind and was cut off"
        );
        line(out, "ERROR", Status::from(too_old).object().to_string().as_bytes());
    }

    /// What a change is to someone who sees only what the selectors let through.
    fn event(&self, change: &Change) -> Result<Option<(&'static str, Object)>, TooOld> {
        let ListOptions { labels, fields, .. } = &self.options;
        let seen = |object: &Object| labels.matches(object) && fields.matches(object);
        let is_seen = seen(&change.object);
        let before = match &change.before {
            Before::Nothing => None,
            Before::Object(object) => Some(object).filter(|object| seen(object)),
            // It has the name that the object has now, whatever else it had.
            Before::Forgotten if labels.is_empty() && fields.are_of_the_name() => {
                Some(&change.object).filter(|_| is_seen)
            }
            Before::Forgotten => {
                return Err(TooOld { asked: change.revision.saturating_sub(1), oldest: change.revision });
            }
        };
        Ok(match change.kind {
            ChangeKind::Deleted => before.map(|_| ("DELETED", change.object.clone())),
            ChangeKind::Put if is_seen => {
                let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
                Some((kind, change.object.clone()))
            }
            ChangeKind::Put => before.map(|object| ("DELETED", object.at(change.revision))),
        })
    }

    fn line(&mut self, out: &mut Vec<u8>, kind: &str, object: &Object) {
        match self.shape {
            As::Json => return line(out, kind, &self.resource.json(object)),
            As::Metadata => {
                let metadata = table::metadata_only(self.resource.tree(object));
                return line(out, kind, metadata.to_string().as_bytes());
            }
            As::Table => {}
        }
        let metadata = json!({"resourceVersion": object.revision().to_string()});
        let rows = std::iter::once(self.resource.tree(object));
        let table = table::table(
            self.resource.columns.as_ref(),
            rows,
            metadata,
            self.options.include,
            !self.heads_sent,
            Timestamp::now(),
        );
        self.heads_sent = true;
        line(out, kind, table.to_string().as_bytes());
    }

    fn bookmark(&self, out: &mut Vec<u8>, revision: u64, ends_initial: bool) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.shape {
            As::Json => (self.resource.kind.as_ref(), self.resource.api_version()),
            As::Table => ("Table", "meta.k8s.io/v1"),
            As::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if self.shape == As::Table {
            object["columnDefinitions"] = Value::Null;
            object["rows"] = json!([]);
        }
        line(out, "BOOKMARK", object.to_string().as_bytes());
    }
}

/// The changes there are when something has changed and the moment has come.
async fn due(at: Instant, watcher: &mut Watcher) -> Result<Vec<Arc<Change>>, TooOld> {
    // A timer takes a millisecond even when the moment has passed.
    if Instant::now() < at {
        sleep_until(at).await;
    }
    watcher.next().await
}

fn line(out: &mut Vec<u8>, kind: &str, object: &[u8]) {
    out.reserve(object.len() + 32);
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(br#"","object":"#);
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
}
