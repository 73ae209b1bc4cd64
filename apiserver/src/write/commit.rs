//! The one way by which an object is completed, checked and written, new or over the one that is there.

use api::apply::{self, Part as Owned, Writer, track_update};
use api::strategy::{Json, Part};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::meta::Fresh;
use super::{Write, check_name, delete, meta, response};
use crate::admission::{Attempt, Operation, Warnings};
use crate::registry;
use crate::status::Status;
use crate::store::Object;

/// The letters of generated names: no vowels, so that no words come about; the stock server's.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many of them are put after `generateName`.
pub(super) const SUFFIX: usize = 5;

/// How it was decided what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A client has sent or patched the object; what differs is its own from now on.
    Update,
    /// An applier has said what it wants, and is noted with it already.
    Apply,
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

    fn told(object: Json, is_new: bool, warnings: Vec<String>) -> Self {
        Self { object: Shown::Told(object), is_new, warnings }
    }

    /// Says these things before the rest.
    pub fn warn_first(&mut self, warnings: Vec<String>) {
        self.warnings.splice(0..0, warnings);
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
    /// Writes a new object; `None` when there is one of its name.
    pub(super) async fn commit_new(&self, mut object: Json, by: By) -> Result<Option<Written>, Status> {
        let fresh = fresh(self.now);
        meta::created(self.resource, &mut object, self.objects.namespace.as_deref(), &fresh)?;
        let name = meta::text(&object, "name").to_owned();
        check_name(self.resource, &name)?;
        let (mut object, warnings) = self.complete(Operation::Create, &name, object, None, by).await?;
        self.resource.strategy.prepare(&mut object, None, &self.part);
        let (object, warnings) = self.check(Operation::Create, &name, object, None, warnings).await?;
        if self.options.dry_run {
            return Ok(self.find(&name).is_none().then(|| Written::told(object, true, warnings)));
        }
        match self.desk.registry.create(self.resource, &self.as_stored(object)).await {
            Ok(object) => Ok(Some(Written::stored(self, object, true, warnings))),
            Err(registry::Error::Exists) => Ok(None),
            Err(error) => Err(self.failed(&name, &error)),
        }
    }

    /// Writes an object over the one that is there, or takes that one out when the last thing it waited for is gone;
    /// `None` when somebody else came before.
    pub(super) async fn commit_over(
        &self,
        before: &Object,
        old: &Json,
        object: Json,
        by: By,
    ) -> Result<Option<Written>, Status> {
        let name = before.name();
        let object = meta::updated(self.resource, old, object, &self.part, self.pick)?;
        let (mut object, warnings) = self.complete(Operation::Update, name, object, Some(old), by).await?;
        self.resource.strategy.prepare(&mut object, Some(old), &self.part);
        meta::count_generation(self.resource, old, &mut object);
        let (object, warnings) = self.check(Operation::Update, name, object, Some(old), warnings).await?;
        if self.options.dry_run {
            return Ok(Some(Written::told(object, false, warnings)));
        }
        let written = if delete::is_due(self.resource, &object) {
            let gone = self.desk.registry.delete(self.resource, before).await;
            gone.map(|()| Written::told(object, false, warnings))
        } else if is_same(old, &object, by) {
            Ok(Written::stored(self, before.clone(), false, warnings))
        } else {
            let object = self.as_stored(object);
            let written = self.desk.registry.replace(self.resource, before, &object).await;
            written.map(|object| Written::stored(self, object, false, warnings))
        };
        match written {
            Ok(written) => Ok(Some(written)),
            Err(registry::Error::Changed) => Ok(None),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// Fills in what the client left to the kind and to admission; with what admission has to say.
    async fn complete(
        &self,
        operation: Operation,
        name: &str,
        mut object: Json,
        old: Option<&Json>,
        by: By,
    ) -> Result<(Json, Vec<String>), Status> {
        self.resource.strategy.default(&mut object);
        // What admission adds and the kind decides by itself is nobody's: a client that applies later need not name it.
        if by == By::Update {
            object = self.owned(old, object);
        }
        let mut attempt = self.attempt(operation, name, object, old);
        for admission in self.desk.admission {
            admission.mutate(&mut attempt).await?;
        }
        let Attempt { mut object, warnings, .. } = attempt;
        // What admission has added may need defaults of its own.
        self.resource.strategy.default(&mut object);
        Ok((object, warnings.into_vec()))
    }

    /// Refuses what the kind or admission refuses; with everything that is to be said.
    async fn check(
        &self,
        operation: Operation,
        name: &str,
        object: Json,
        old: Option<&Json>,
        mut warnings: Vec<String>,
    ) -> Result<(Json, Vec<String>), Status> {
        let (group, kind) = (&self.resource.group, &self.resource.kind);
        let mut causes = api::strategy::metadata(&object, old, group, kind);
        causes.extend(self.resource.strategy.validate(&object, old, &self.part));
        if !causes.is_empty() {
            return Err(Status::invalid(self.resource, name, &causes));
        }
        warnings.extend(self.resource.strategy.warnings(&object));
        let attempt = self.attempt(operation, name, object, old);
        for admission in self.desk.admission {
            admission.validate(&attempt).await?;
        }
        warnings.extend(attempt.warnings.into_vec());
        Ok((attempt.object, warnings))
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
            subresource: self.objects.subresource.as_deref(),
            namespace: self.objects.namespace.as_deref(),
            name,
            object,
            old,
            user: &self.user,
            dry_run: self.options.dry_run,
            warnings: Warnings::default(),
        }
    }

    /// Notes who owns what of an object as a client other than an applier has it.
    fn owned(&self, before: Option<&Json>, object: Json) -> Json {
        let before = before.map(|before| Value::Object(before.clone()));
        let mut object = Value::Object(object);
        track_update(before.as_ref(), &mut object, &self.writer());
        tree(object)
    }

    /// Who writes, as the record of owners has it.
    pub(super) fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.manager,
            part: match (&self.part, self.objects.subresource.as_deref()) {
                (Part::Status, _) => Owned::Status,
                (Part::Main | Part::Sub(_), Some(name)) => Owned::Other(name),
                (Part::Sub(name), None) => Owned::Other(name),
                (Part::Main, None) if self.resource.has_status() => Owned::Main,
                (Part::Main, None) => Owned::Whole,
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

/// True when writing the object would change nothing that counts.
fn is_same(old: &Json, object: &Json, by: By) -> bool {
    match by {
        By::Update => old == object,
        By::Apply => {
            apply::is_same_but_for_times(&Value::Object(old.clone()), &Value::Object(object.clone()))
        }
    }
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
