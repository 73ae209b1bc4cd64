//! Write pipeline: completes, validates and persists an object, for creates and updates.

use std::sync::Arc;

use api::apply::{self, Part as Owned, Writer, track_update};
use api::equal::equal_fields;
use api::strategy::{Cause, Json, mistyped};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::body::Sent;
use super::object_meta::Generated;
use super::{MAX_ATTEMPTS, Write, check_name, delete, object_meta, response};
use crate::admission::{Admission, AdmissionRequest, Operation, Warnings};
use crate::registry;
use crate::resource::{self, Subresource};
use crate::status::Status;
use crate::watch_cache::{Content, Object};

/// Alphabet of generated names, as in kube-apiserver. It has no vowels, to avoid words.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the suffix after `generateName`.
pub(super) const SUFFIX_LENGTH: usize = 5;

/// The kind of request that writes an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteOrigin {
    /// Create, update or patch. The client becomes the owner of changed fields.
    Update,
    /// Server-side apply, with the new managed fields.
    Apply(Vec<u8>),
}

/// The stored object, both encoded and decoded without managed fields.
#[derive(Clone, Copy)]
struct Before<'a> {
    stored: &'a Object,
    tree: &'a Json,
}

/// A completed object before validation.
struct Complete {
    object: Json,
    /// Managed fields.
    record: Vec<u8>,
    /// Errors for values of the wrong type.
    mistyped: Vec<Cause>,
    warnings: Vec<String>,
}

/// Result of a write, with warnings.
#[derive(Debug)]
pub(super) struct Written {
    object: WrittenObject,
    pub is_new: bool,
    warnings: Vec<String>,
}

/// The object to return.
#[derive(Debug)]
enum WrittenObject {
    /// The object as it is stored.
    Stored(Object),
    /// The decoded object: of a dry run, of a delete, or in another version.
    Decoded(Json),
}

impl Written {
    fn stored(write: &Write<'_>, object: Object, is_new: bool, warnings: Vec<String>) -> Self {
        let object = match &write.resource.conversion {
            None => WrittenObject::Stored(object),
            Some(_) => WrittenObject::Decoded(write.resource.tree(&object)),
        };
        Self { object, is_new, warnings }
    }

    fn decoded(mut object: Json, record: &[u8], is_new: bool, warnings: Vec<String>) -> Self {
        if let Ok(record) = serde_json::from_slice::<Value>(record) {
            object_meta::metadata(&mut object).insert("managedFields".to_owned(), record);
        }
        Self { object: WrittenObject::Decoded(object), is_new, warnings }
    }

    /// The decoded object.
    pub fn into_object(self) -> Json {
        match self.object {
            WrittenObject::Stored(object) => object.decode(),
            WrittenObject::Decoded(object) => object,
        }
    }

    /// The response.
    pub fn response(&self, code: StatusCode) -> Response {
        match &self.object {
            WrittenObject::Stored(object) => response(code, object.json().clone(), &self.warnings),
            WrittenObject::Decoded(object) => {
                response(code, serde_json::to_vec(object).unwrap_or_default(), &self.warnings)
            }
        }
    }
}

impl Write<'_> {
    /// Creates an object, which may replace a placeholder. Returns `None` if the name is taken.
    pub(super) async fn commit_new(
        &self,
        mut sent: Sent,
        by: WriteOrigin,
    ) -> Result<Option<Written>, Status> {
        let fresh = fresh(self.now);
        object_meta::created(self.resource, &mut sent.object, self.namespace, &fresh)?;
        let name = object_meta::text(&sent.object, "name").to_owned();
        check_name(self.resource, &name)?;
        for _ in 0..MAX_ATTEMPTS {
            let Some(there) = self.placeholder(&name) else { break };
            match self.put_new(&name, sent.clone(), by.clone(), Some(&there)).await? {
                // The placeholder changed or is gone: retry.
                Err(registry::Error::Changed) => {}
                put => return self.settled(&name, put),
            }
        }
        let put = self.put_new(&name, sent, by, None).await?;
        self.settled(&name, put)
    }

    /// Completes, validates and persists a new object. The inner result is that of the registry.
    async fn put_new(
        &self,
        name: &str,
        mut sent: Sent,
        by: WriteOrigin,
        there: Option<&Object>,
    ) -> Result<Result<Written, registry::Error>, Status> {
        if let Some(there) = there {
            object_meta::inherit_identity(
                &mut sent.object,
                &self.resource.tree_without_managed_fields(there),
            );
        }
        let mut complete = self.complete(Operation::Create, name, sent, None, by).await?;
        self.resource.strategy.prepare(&mut complete.object, None, &self.part());
        let record = std::mem::take(&mut complete.record);
        self.deadline.check()?;
        let (object, warnings) = self.check(Operation::Create, name, complete, &record, None).await?;
        self.deadline.check()?;
        if self.options.dry_run {
            let has_no_finalizers = there.is_some() || self.find(name).is_none();
            let added = || Written::decoded(object, &record, true, warnings);
            return Ok(has_no_finalizers.then(added).ok_or(registry::Error::Exists));
        }
        let object = self.as_stored(object);
        let content = Content { object: &object, record: &record };
        let written = match there {
            Some(there) => self.context.registry.replace(self.resource, there, content).await,
            None => self.context.registry.create(self.resource, content).await,
        };
        Ok(written.map(|object| Written::stored(self, object, true, warnings)))
    }

    /// The result of a create, or `None` if the name is taken.
    fn settled(&self, name: &str, put: Result<Written, registry::Error>) -> Result<Option<Written>, Status> {
        match put {
            Ok(written) => Ok(Some(written)),
            Err(registry::Error::Exists) => Ok(None),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// The placeholder that the new object may replace.
    fn placeholder(&self, name: &str) -> Option<Object> {
        let there = self.find(name)?;
        let tree = self.resource.tree_without_managed_fields(&there);
        let keeps =
            |admission: &Arc<dyn Admission>| admission.is_placeholder(self.resource, &tree, &self.user);
        self.context.admission.iter().any(keeps).then_some(there)
    }

    /// Updates an object, or deletes a terminating one whose last finalizer was removed. Returns `None` on a
    /// conflict.
    pub(super) async fn commit_over(
        &self,
        before: &Object,
        old: &Json,
        mut sent: Sent,
        by: WriteOrigin,
    ) -> Result<Option<Written>, Status> {
        let (name, part) = (before.name(), self.part());
        sent.object = object_meta::updated(self.resource, old, sent.object, &part, self.update_fields())?;
        let is_apply = matches!(by, WriteOrigin::Apply(_));
        let there = Before { stored: before, tree: old };
        let mut complete = self.complete(Operation::Update, name, sent, Some(there), by).await?;
        self.resource.strategy.prepare(&mut complete.object, Some(old), &part);
        object_meta::count_generation(self.resource, old, &mut complete.object);
        let record = std::mem::take(&mut complete.record);
        self.deadline.check()?;
        let (object, warnings) = self.check(Operation::Update, name, complete, &record, Some(there)).await?;
        self.deadline.check()?;
        if self.options.dry_run {
            return Ok(Some(Written::decoded(object, &record, false, warnings)));
        }
        let written = if delete::is_deletable(self.resource, &object) {
            let gone = self.context.registry.delete(self.resource, before).await;
            gone.map(|_| Written::decoded(object, &record, false, warnings))
        } else if equal_fields(old, &object) && is_same_record(before.record(), &record, is_apply) {
            Ok(Written::stored(self, before.clone(), false, warnings))
        } else {
            let is_heartbeat = self.resource.strategy.is_heartbeat(old, &object)
                && apply::is_same_but_for_times(before.record(), &record);
            let (registry, object) = (self.context.registry, self.as_stored(object));
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

    /// Sets defaults and runs mutating admission.
    async fn complete(
        &self,
        operation: Operation,
        name: &str,
        sent: Sent,
        before: Option<Before<'_>>,
        by: WriteOrigin,
    ) -> Result<Complete, Status> {
        let Sent { mut object, fits, mut warnings } = sent;
        let mut mistyped = if fits { Vec::new() } else { self.fit(&mut object) };
        self.resource.strategy.default(&mut object).map_err(Status::object_too_large)?;
        // Fields set by admission and defaulting have no owner, so that later applies need not name them.
        let old = before.map(|before| before.tree);
        let recorded = before.map(|before| before.stored.record()).unwrap_or_default();
        let record = match by {
            WriteOrigin::Update => track_update(old, recorded, &mut object, &self.writer()),
            WriteOrigin::Apply(record) => record,
        };
        let mut attempt = self.attempt(operation, name, object, old);
        attempt.managed_fields = (&record, recorded);
        for admission in self.context.admission {
            admission.mutate(&mut attempt).await?;
        }
        let AdmissionRequest { object, warnings: added, .. } = attempt;
        warnings.extend(added.into_vec());
        let is_touched = object.is_touched();
        let mut object = object.into_object();
        if is_touched {
            // Objects changed by admission are normalized and defaulted again.
            mistyped = self.fit(&mut object);
            self.resource.strategy.default(&mut object).map_err(Status::object_too_large)?;
        }
        Ok(Complete { object, record, mistyped, warnings })
    }

    /// Normalizes the object, and returns errors for values of the wrong type.
    fn fit(&self, object: &mut Json) -> Vec<Cause> {
        let faults = self.resource.fit(object);
        mistyped(&faults, object)
    }

    /// Validates the object by strategy and admission, and returns it with warnings.
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
        attempt.managed_fields = (record, before.map(|before| before.stored.record()).unwrap_or_default());
        for admission in self.context.admission {
            admission.validate(&attempt).await?;
        }
        warnings.extend(attempt.warnings.into_vec());
        Ok((attempt.object.into_object(), warnings))
    }

    /// The admission request of this write.
    pub(super) fn attempt<'a>(
        &'a self,
        operation: Operation,
        name: &'a str,
        object: Json,
        old: Option<&'a Json>,
    ) -> AdmissionRequest<'a> {
        AdmissionRequest {
            operation,
            resource: self.resource,
            subresource: self.subresource.map(|part| part.name),
            namespace: self.namespace,
            name,
            object: object.into(),
            old,
            managed_fields: (&[], &[]),
            user: &self.user,
            dry_run: self.options.dry_run,
            warnings: Warnings::default(),
        }
    }

    /// The field manager of this write.
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
        match &self.resource.conversion {
            None => object,
            Some(conversion) => conversion.to_stored(object),
        }
    }
}

/// Whether managed fields are equal. For an apply, timestamps are ignored.
fn is_same_record(before: &[u8], after: &[u8], is_apply: bool) -> bool {
    let read = |record: &[u8]| serde_json::from_slice::<Value>(record).ok();
    before == after
        || (is_apply && apply::is_same_but_for_times(before, after))
        || (!is_apply && read(before).is_some_and(|before| Some(before) == read(after)))
}

/// Returns the object in a JSON value.
pub(super) fn tree(value: Value) -> Json {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Generates a UID and a name suffix.
fn fresh(now: jiff::Timestamp) -> Generated {
    let random = Uuid::new_v4();
    let letter = |byte: &u8| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()]);
    Generated {
        uid: Uuid::new_v4().to_string(),
        suffix: random.as_bytes().iter().take(SUFFIX_LENGTH).map(letter).collect(),
        now,
    }
}
