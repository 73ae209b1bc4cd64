//! Deletions: at once, after a grace, or after the last finalizer.

use api::strategy::Cause;
use axum::response::Response;
use http::{Method, StatusCode, Uri};
use serde_json::{Map, Value, json};

use super::options::{self, Options};
use super::{TRIES, Write, body, meta, response};
use crate::admission::Operation;
use crate::list::Page;
use crate::registry;
use crate::request::ListOptions;
use crate::resource::Resource;
use crate::status::Status;
use crate::store::{Object, Scope};

/// The finalizer that keeps an owner until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an owner until its dependents no longer name it.
const ORPHAN: &str = "orphan";
/// Grace of a pod that names none: `terminationGracePeriodSeconds` of the Pod API.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// What may become of dependents.
const POLICIES: &[&str] = &["Foreground", "Background", "Orphan"];

/// How a deletion is wanted: `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    grace_seconds: Option<i64>,
    propagation: Option<String>,
    pub uid: Option<String>,
    pub revision: Option<String>,
    pub dry_run: bool,
    /// A condition that says why.
    pub condition: Option<Value>,
}

impl Write<'_> {
    pub(super) async fn delete(
        &self,
        name: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<Response, Status> {
        let document = if bytes.is_empty() { Value::Null } else { body::document(media_type, bytes)? };
        self.remove(name, &Wanted::read(&document, &self.options)?).await
    }

    /// Removes every object that the selectors in the query mean, one after another; answers what there was.
    pub(super) async fn delete_all(
        &self,
        uri: &Uri,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<Response, Status> {
        let mut options = ListOptions::parse(uri)?;
        self.resource.select(&mut options.fields)?;
        let document = if bytes.is_empty() { Value::Null } else { body::document(media_type, bytes)? };
        let wanted = Wanted::read(&document, &self.options)?;
        let scope = self.namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.to_owned()));
        let page = Page::read(self.desk.registry.cache(), self.resource.stored(), &scope, &options)?;
        for object in &page.objects {
            match self.remove(object.name(), &wanted).await {
                // Somebody else was quicker.
                Err(status) if status.code == StatusCode::NOT_FOUND.as_u16() => {}
                removed => drop(removed?),
            }
        }
        Ok(response(StatusCode::OK, page.json(self.resource), &[]))
    }

    /// Removes an object, or begins to.
    pub(super) async fn remove(&self, name: &str, wanted: &Wanted) -> Result<Response, Status> {
        for _ in 0..TRIES {
            let before = self.get(name)?;
            let old = before.decode();
            self.check_preconditions(name, &old, wanted)?;
            self.admit(Operation::Delete, name, Map::new(), &old).await?;
            match self.delete_once(&before, old, wanted).await {
                Ok(response) => return Ok(response),
                Err(registry::Error::Changed) => {}
                Err(error) => return Err(self.failed(name, &error)),
            }
        }
        Err(Status::changed(self.resource, name))
    }

    /// Asks admission about something that does not change the object itself.
    pub(super) async fn admit(
        &self,
        operation: Operation,
        name: &str,
        sent: Map<String, Value>,
        old: &Map<String, Value>,
    ) -> Result<(), Status> {
        let mut attempt = self.attempt(operation, name, sent, Some(old));
        for admission in self.desk.admission {
            admission.mutate(&mut attempt).await?;
        }
        for admission in self.desk.admission {
            admission.validate(&attempt).await?;
        }
        Ok(())
    }

    async fn delete_once(
        &self,
        before: &Object,
        mut object: Map<String, Value>,
        wanted: &Wanted,
    ) -> Result<Response, registry::Error> {
        let grace = self.grace(&object, wanted);
        propagate(&mut object, wanted.propagation.as_deref());
        if let Some(condition) = &wanted.condition {
            meta::put_condition(&mut object, condition);
        }
        if let Some(shorter) = wanted.grace_seconds {
            meta::hurry(&mut object, shorter);
        }
        let dry_run = wanted.dry_run;
        if grace == 0 && is_free(self.resource, &object) {
            if !dry_run {
                self.desk.registry.delete(self.resource, before).await?;
            }
            return Ok(self.deleted(&object));
        }
        if grace == 0 {
            meta::metadata(&mut object).insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        }
        meta::doomed(&mut object, grace, self.now);
        let is_foreground = wanted.propagation.as_deref() == Some("Foreground");
        let code = if is_foreground { StatusCode::ACCEPTED } else { StatusCode::OK };
        if dry_run {
            let shown = match &self.resource.view {
                None => object,
                Some(view) => view.shown(object),
            };
            return Ok(response(code, serde_json::to_vec(&shown).unwrap_or_default(), &[]));
        }
        let object = self.desk.registry.replace(self.resource, before, &object).await?;
        Ok(response(code, self.resource.json(&object), &[]))
    }

    /// What clients are told of an object that is gone.
    fn deleted(&self, object: &Map<String, Value>) -> Response {
        let mut details = json!({
            "name": meta::text(object, "name"), "kind": self.resource.plural, "uid": meta::text(object, "uid"),
        });
        if !self.resource.group.is_empty() {
            details["group"] = self.resource.group.as_ref().into();
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        });
        response(StatusCode::OK, status.to_string(), &[])
    }

    fn check_preconditions(
        &self,
        name: &str,
        object: &Map<String, Value>,
        wanted: &Wanted,
    ) -> Result<(), Status> {
        for (what, field, expected) in
            [("UID", "uid", &wanted.uid), ("ResourceVersion", "resourceVersion", &wanted.revision)]
        {
            let found = meta::text(object, field);
            if let Some(expected) = expected.as_deref().filter(|expected| *expected != found) {
                let why = format!(
                    "Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}"
                );
                return Err(Status::conflict(self.resource, name, &why));
            }
        }
        Ok(())
    }

    /// Seconds until the object goes: those of a pod that runs somewhere, none for anything else.
    fn grace(&self, object: &Map<String, Value>, wanted: &Wanted) -> i64 {
        let of = |part: &str, field: &str| object.get(part).and_then(|part| part.get(field));
        let text = |part, field| of(part, field).and_then(Value::as_str).unwrap_or_default();
        let has_ended = matches!(text("status", "phase"), "Succeeded" | "Failed");
        if self.resource.stored() != "pods" || text("spec", "nodeName").is_empty() || has_ended {
            return 0;
        }
        let own = of("spec", "terminationGracePeriodSeconds").and_then(Value::as_i64);
        wanted.grace_seconds.or(own).unwrap_or(DEFAULT_GRACE_SECONDS)
    }
}

impl Wanted {
    /// Reads `DeleteOptions`, and what the query says where they say nothing. What is misspelled is refused, not passed
    /// over: nothing is deleted for good that was to be tried, or that was to be another object.
    pub fn read(document: &Value, options: &Options) -> Result<Self, Status> {
        let mut document = match document {
            Value::Null => Map::new(),
            Value::Object(document) => document.clone(),
            _ => return Err(Status::bad_request("the body is not an object")),
        };
        body::fit(&mut document, "v1", "DeleteOptions")?;
        let document = Value::Object(document);
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let grace = document.get("gracePeriodSeconds").and_then(Value::as_i64).or(options.grace_seconds);
        if grace.is_some_and(|seconds| seconds < 0) {
            return Err(Status::bad_request("gracePeriodSeconds must be greater than or equal to 0"));
        }
        let orphan = document.get("orphanDependents").and_then(Value::as_bool).or(options.orphan);
        let policy = text("/propagationPolicy").or_else(|| options.propagation.clone());
        let stages = document.get("dryRun").and_then(Value::as_array);
        let stages: Vec<&str> =
            stages.into_iter().flatten().map(|stage| stage.as_str().unwrap_or("")).collect();
        let mut causes: Vec<Cause> = options::trial(&stages).into_iter().collect();
        let propagation = match (policy, orphan) {
            (Some(policy), None) => {
                if !POLICIES.contains(&policy.as_str()) {
                    causes.push(Cause::not_supported("propagationPolicy", &policy, POLICIES));
                }
                Some(policy)
            }
            (Some(policy), Some(_)) => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                causes.push(Cause::invalid("propagationPolicy", format!("{policy:?}"), why));
                None
            }
            (None, Some(true)) => Some("Orphan".to_owned()),
            (None, Some(false)) => Some("Background".to_owned()),
            (None, None) => None,
        };
        if !causes.is_empty() {
            return Err(options::refused(&Method::DELETE, &causes));
        }
        Ok(Self {
            grace_seconds: grace,
            propagation,
            uid: text("/preconditions/uid"),
            revision: text("/preconditions/resourceVersion"),
            dry_run: options.dry_run || !stages.is_empty(),
            condition: None,
        })
    }
}

/// True when an object that is being deleted has nothing left to wait for.
pub(super) fn is_due(resource: &Resource, object: &Map<String, Value>) -> bool {
    meta::is_doomed(object) && is_free(resource, object) && !waits(object)
}

/// True when no finalizer keeps the object; a namespace has some in its spec as well.
fn is_free(resource: &Resource, object: &Map<String, Value>) -> bool {
    let spec = object.get("spec").filter(|_| resource.stored() == "namespaces");
    let in_spec = spec.and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    meta::finalizers(object).is_empty() && in_spec.is_none_or(Vec::is_empty)
}

/// True while something else than finalizers is waited for: a node that ends the pod.
fn waits(object: &Map<String, Value>) -> bool {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let grace = metadata.and_then(|metadata| metadata.get("deletionGracePeriodSeconds"));
    grace.and_then(Value::as_i64).unwrap_or(0) > 0
}

/// Puts on and takes off the finalizers that say what becomes of dependents.
fn propagate(object: &mut Map<String, Value>, policy: Option<&str>) {
    let Some(policy) = policy else { return };
    let mut finalizers: Vec<String> = meta::finalizers(object)
        .into_iter()
        .filter(|finalizer| ![FOREGROUND, ORPHAN].contains(finalizer))
        .map(str::to_owned)
        .collect();
    match policy {
        "Foreground" => finalizers.push(FOREGROUND.to_owned()),
        "Orphan" => finalizers.push(ORPHAN.to_owned()),
        _ => {}
    }
    let metadata = meta::metadata(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}
