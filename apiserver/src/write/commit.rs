//! The one way by which an object is completed, checked and written, new or over the one that is there.

use std::sync::Arc;

use api::apply::{self, Part as Owned, Writer, track_update};
use api::equal::equal_fields;
use api::strategy::{Cause, Json, mistyped};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::body::Sent;
use super::meta::Fresh;
use super::{TRIES, Write, check_name, delete, meta, response};
use crate::admission::{Admission, Attempt, Operation, Warnings};
use crate::registry;
use crate::resource::{self, Subresource};
use crate::status::Status;
use crate::store::{Content, Object};

/// The letters of generated names: no vowels, so that no words come about; the stock server's.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many of them are put after `generateName`.
pub(super) const SUFFIX: usize = 5;

/// How it was decided what is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A client has sent or patched the object; what differs is its own from now on.
    Update,
    /// An applier has said what it wants, and is noted with it in this record.
    Apply(Vec<u8>),
}

/// The object that is there: as it is stored, and as a tree without its record.
#[derive(Clone, Copy)]
struct Before<'a> {
    stored: &'a Object,
    tree: &'a Json,
}

/// An object that says all it means, before it is checked.
struct Complete {
    object: Json,
    /// Who owns what of it.
    record: Vec<u8>,
    /// What of it is of another type than its field.
    mistyped: Vec<Cause>,
    warnings: Vec<String>,
}

/// What was written, and what is said about it.
#[derive(Debug)]
pub(super) struct Written {
    object: Shown,
    pub is_new: bool,
    warnings: Vec<String>,
}

/// The object that is answered.
#[derive(Debug)]
enum Shown {
    /// As it is stored.
    Stored(Object),
    /// As it would be, or as it last was, or in another version.
    Told(Json),
}

impl Written {
    fn stored(write: &Write<'_>, object: Object, is_new: bool, warnings: Vec<String>) -> Self {
        let object = match &write.resource.view {
            None => Shown::Stored(object),
            Some(_) => Shown::Told(write.resource.tree(&object)),
        };
        Self { object, is_new, warnings }
    }

    fn told(mut object: Json, record: &[u8], is_new: bool, warnings: Vec<String>) -> Self {
        if let Ok(record) = serde_json::from_slice::<Value>(record) {
            meta::metadata(&mut object).insert("managedFields".to_owned(), record);
        }
        Self { object: Shown::Told(object), is_new, warnings }
    }

    /// The object as a tree.
    pub fn into_object(self) -> Json {
        match self.object {
            Shown::Stored(object) => object.decode(),
            Shown::Told(object) => object,
        }
    }

    /// What the client is answered.
    pub fn response(&self, code: StatusCode) -> Response {
        match &self.object {
            Shown::Stored(object) => response(code, object.json().clone(), &self.warnings),
            Shown::Told(object) => {
                response(code, serde_json::to_vec(object).unwrap_or_default(), &self.warnings)
            }
        }
    }
}

impl Write<'_> {
    /// Writes a new object, be it over one that keeps its place; `None` when there is one of its name.
    pub(super) async fn commit_new(&self, mut sent: Sent, by: By) -> Result<Option<Written>, Status> {
        let fresh = fresh(self.now);
        meta::created(self.resource, &mut sent.object, self.namespace, &fresh)?;
        let name = meta::text(&sent.object, "name").to_owned();
        check_name(self.resource, &name)?;
        for _ in 0..TRIES {
            let Some(there) = self.placeholder(&name) else { break };
            match self.put_new(&name, sent.clone(), by.clone(), Some(&there)).await? {
                // It was written to, or went, or somebody else has taken the place.
                Err(registry::Error::Changed) => {}
                put => return self.settled(&name, put),
            }
        }
        let put = self.put_new(&name, sent, by, None).await?;
        self.settled(&name, put)
    }

    /// Completes a new object, checks it and puts it there, or says what the registry has against that.
    async fn put_new(
        &self,
        name: &str,
        mut sent: Sent,
        by: By,
        there: Option<&Object>,
    ) -> Result<Result<Written, registry::Error>, Status> {
        if let Some(there) = there {
            meta::goes_on(&mut sent.object, &self.resource.bare(there));
        }
        let mut complete = self.complete(Operation::Create, name, sent, None, by).await?;
        self.resource.strategy.prepare(&mut complete.object, None, &self.part());
        let record = std::mem::take(&mut complete.record);
        let (object, warnings) = self.check(Operation::Create, name, complete, &record, None).await?;
        if self.options.dry_run {
            let is_free = there.is_some() || self.find(name).is_none();
            let told = || Written::told(object, &record, true, warnings);
            return Ok(is_free.then(told).ok_or(registry::Error::Exists));
        }
        let object = self.as_stored(object);
        let content = Content { object: &object, record: &record };
        let written = match there {
            Some(there) => self.desk.registry.replace(self.resource, there, content).await,
            None => self.desk.registry.create(self.resource, content).await,
        };
        Ok(written.map(|object| Written::stored(self, object, true, warnings)))
    }

    /// What has become of a new object; `None` when there is one of its name.
    fn settled(&self, name: &str, put: Result<Written, registry::Error>) -> Result<Option<Written>, Status> {
        match put {
            Ok(written) => Ok(Some(written)),
            Err(registry::Error::Exists) => Ok(None),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// The object that keeps the place of one that is to be made.
    fn placeholder(&self, name: &str) -> Option<Object> {
        let there = self.find(name)?;
        let tree = self.resource.bare(&there);
        let keeps = |admission: &Arc<dyn Admission>| admission.keeps_place(self.resource, &tree, &self.user);
        self.desk.admission.iter().any(keeps).then_some(there)
    }

    /// Writes an object over the one that is there, or takes that one out when the last thing it waited for is gone;
    /// `None` when somebody else came before.
    pub(super) async fn commit_over(
        &self,
        before: &Object,
        old: &Json,
        mut sent: Sent,
        by: By,
    ) -> Result<Option<Written>, Status> {
        let (name, part) = (before.name(), self.part());
        sent.object = meta::updated(self.resource, old, sent.object, &part, self.pick())?;
        let is_apply = matches!(by, By::Apply(_));
        let there = Before { stored: before, tree: old };
        let mut complete = self.complete(Operation::Update, name, sent, Some(there), by).await?;
        self.resource.strategy.prepare(&mut complete.object, Some(old), &part);
        meta::count_generation(self.resource, old, &mut complete.object);
        let record = std::mem::take(&mut complete.record);
        let (object, warnings) = self.check(Operation::Update, name, complete, &record, Some(there)).await?;
        if self.options.dry_run {
            return Ok(Some(Written::told(object, &record, false, warnings)));
        }
        let written = if delete::is_due(self.resource, &object) {
            let gone = self.desk.registry.delete(self.resource, before).await;
            gone.map(|()| Written::told(object, &record, false, warnings))
        } else if equal_fields(old, &object) && is_same_record(before.record(), &record, is_apply) {
            Ok(Written::stored(self, before.clone(), false, warnings))
        } else {
            let is_heartbeat = self.resource.strategy.is_heartbeat(old, &object)
                && apply::is_same_but_for_times(before.record(), &record);
            let (registry, object) = (self.desk.registry, self.as_stored(object));
            let content = Content { object: &object, record: &record };
            let written = if is_heartbeat {
                registry.renew(self.resource, before, content).await
            } else {
                registry.replace(self.resource, before, content).await
            };
            written.map(|object| Written::stored(self, object, false, warnings))
        };
        match written {
            Ok(written) => Ok(Some(written)),
            Err(registry::Error::Changed) => Ok(None),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// Fills in what the client left to the kind and to admission.
    async fn complete(
        &self,
        operation: Operation,
        name: &str,
        sent: Sent,
        before: Option<Before<'_>>,
        by: By,
    ) -> Result<Complete, Status> {
        let Sent { mut object, fits, mut warnings } = sent;
        let mut mistyped = if fits { Vec::new() } else { self.fit(&mut object) };
        self.resource.strategy.default(&mut object);
        // What admission adds and the kind decides by itself is nobody's: a client that applies later need not name it.
        let old = before.map(|before| before.tree);
        let recorded = before.map(|before| before.stored.record()).unwrap_or_default();
        let record = match by {
            By::Update => track_update(old, recorded, &mut object, &self.writer()),
            By::Apply(record) => record,
        };
        let mut attempt = self.attempt(operation, name, object, old);
        attempt.records = (&record, recorded);
        for admission in self.desk.admission {
            admission.mutate(&mut attempt).await?;
        }
        let Attempt { object, warnings: told, .. } = attempt;
        warnings.extend(told.into_vec());
        let is_touched = object.is_touched();
        let mut object = object.into_object();
        if is_touched {
            // What admission has added is stored like the rest, and may need defaults of its own.
            mistyped = self.fit(&mut object);
            self.resource.strategy.default(&mut object);
        }
        Ok(Complete { object, record, mistyped, warnings })
    }

    /// Brings an object into the form that is stored; what of it is of another type than its field.
    fn fit(&self, object: &mut Json) -> Vec<Cause> {
        let faults = self.resource.fit(object);
        mistyped(&faults, object)
    }

    /// Refuses what the kind or admission refuses; with everything that is to be said.
    async fn check(
        &self,
        operation: Operation,
        name: &str,
        complete: Complete,
        record: &[u8],
        before: Option<Before<'_>>,
    ) -> Result<(Json, Vec<String>), Status> {
        let Complete { object, mistyped, mut warnings, .. } = complete;
        let old = before.map(|before| before.tree);
        let (group, kind) = (&self.resource.group, &self.resource.kind);
        let mut causes = api::strategy::metadata(&object, old, group, kind);
        causes.extend(if mistyped.is_empty() {
            self.resource.strategy.validate(&object, old, &self.part())
        } else {
            mistyped
        });
        if !causes.is_empty() {
            return Err(Status::invalid(self.resource, name, &causes));
        }
        warnings.extend(self.resource.strategy.warnings(&object));
        let mut attempt = self.attempt(operation, name, object, old);
        attempt.records = (record, before.map(|before| before.stored.record()).unwrap_or_default());
        for admission in self.desk.admission {
            admission.validate(&attempt).await?;
        }
        warnings.extend(attempt.warnings.into_vec());
        Ok((attempt.object.into_object(), warnings))
    }

    /// A write as admission sees it.
    pub(super) fn attempt<'a>(
        &'a self,
        operation: Operation,
        name: &'a str,
        object: Json,
        old: Option<&'a Json>,
    ) -> Attempt<'a> {
        Attempt {
            operation,
            resource: self.resource,
            subresource: self.subresource.map(|part| part.name),
            namespace: self.namespace,
            name,
            object: object.into(),
            old,
            records: (&[], &[]),
            user: &self.user,
            dry_run: self.options.dry_run,
            warnings: Warnings::default(),
        }
    }

    /// Who writes, as the record of owners has it.
    pub(super) fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.manager,
            part: match self.subresource {
                Some(Subresource { part: resource::Part::Status, .. }) => Owned::Status,
                Some(part) => Owned::Other(part.name),
                None if self.resource.has_status() => Owned::Main,
                None => Owned::Whole,
            },
            api_version: self.resource.api_version(),
            shape: self.resource.shape(),
            now: self.now,
        }
    }

    fn as_stored(&self, object: Json) -> Json {
        match &self.resource.view {
            None => object,
            Some(view) => view.stored(object),
        }
    }
}

/// True when a record says what it said before; an applier's times do not count.
fn is_same_record(before: &[u8], after: &[u8], is_apply: bool) -> bool {
    let read = |record: &[u8]| serde_json::from_slice::<Value>(record).ok();
    before == after
        || (is_apply && apply::is_same_but_for_times(before, after))
        || (!is_apply && read(before).is_some_and(|before| Some(before) == read(after)))
}

/// The object that a value is.
pub(super) fn tree(value: Value) -> Json {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// An identity and a suffix nobody else has.
fn fresh(now: jiff::Timestamp) -> Fresh {
    let random = Uuid::new_v4();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    Fresh {
        uid: Uuid::new_v4().to_string(),
        suffix: random.as_bytes().iter().take(SUFFIX).map(letter).collect(),
        now,
    }
}
