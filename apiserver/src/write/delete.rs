//! Deletes objects: at once, after a grace period, or when the last finalizer is removed.

use api::strategy::Cause;
use axum::response::Response;
use http::{Method, StatusCode, Uri};
use serde_json::{Map, Value, json};

use super::options::{self, Options};
use super::propagation::{POLICIES, Propagation};
use super::{MAX_ATTEMPTS, Write, body, object_meta, response};
use crate::admission::Operation;
use crate::list::Page;
use crate::registry;
use crate::request::ListOptions;
use crate::resource::Resource;
use crate::status::Status;
use crate::watch_cache::{Object, Scope};

const PODS: &str = "pods";
/// Default grace period of pods: `terminationGracePeriodSeconds` of the Pod API.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Parsed `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    grace_seconds: Option<i64>,
    propagation: Propagation,
    pub uid: Option<String>,
    pub revision: Option<String>,
    pub dry_run: bool,
    /// A condition to add, such as `DisruptionTarget`.
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
        self.remove(name, &DeleteOptions::read(&document, &self.options)?).await
    }

    /// Deletes all selected objects one by one. Returns the list from before the deletion.
    pub(super) async fn delete_all(
        &self,
        uri: &Uri,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<Response, Status> {
        let mut options = ListOptions::parse(uri, false)?;
        self.resource.select(&mut options.fields)?;
        let document = if bytes.is_empty() { Value::Null } else { body::document(media_type, bytes)? };
        let wanted = DeleteOptions::read(&document, &self.options)?;
        let scope = self.namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.to_owned()));
        let page = Page::read(self.context.registry.cache(), self.resource.stored(), &scope, &options)?;
        for object in &page.objects {
            match self.remove(object.name(), &wanted).await {
                // Deleted concurrently.
                Err(status) if status.code == StatusCode::NOT_FOUND.as_u16() => {}
                removed => drop(removed?),
            }
        }
        let warnings: Vec<String> = self.propagation_warning(&wanted).into_iter().collect();
        Ok(response(StatusCode::OK, Vec::new(), &warnings).map(|_| page.into_body(self.resource)))
    }

    /// Deletes an object, or marks it as terminating.
    pub(super) async fn remove(&self, name: &str, wanted: &DeleteOptions) -> Result<Response, Status> {
        for _ in 0..MAX_ATTEMPTS {
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

    /// Runs admission for an operation that does not write an object.
    pub(super) async fn admit(
        &self,
        operation: Operation,
        name: &str,
        sent: Map<String, Value>,
        old: &Map<String, Value>,
    ) -> Result<(), Status> {
        let mut attempt = self.attempt(operation, name, sent, Some(old));
        for admission in self.context.admission {
            admission.mutate(&mut attempt).await?;
        }
        for admission in self.context.admission {
            admission.validate(&attempt).await?;
        }
        Ok(())
    }

    async fn delete_once(
        &self,
        before: &Object,
        mut object: Map<String, Value>,
        wanted: &DeleteOptions,
    ) -> Result<Response, registry::Error> {
        let grace = self.grace(&object, wanted);
        wanted.propagation.apply(&mut object, self.resource.garbage_collection);
        if let Some(condition) = &wanted.condition {
            object_meta::put_condition(&mut object, condition);
        }
        if let Some(shorter) = wanted.grace_seconds {
            object_meta::shorten_grace(&mut object, shorter);
        }
        let dry_run = wanted.dry_run;
        let warnings: Vec<String> = self.propagation_warning(wanted).into_iter().collect();
        if grace == 0 && has_no_finalizers(self.resource, &object) {
            if !dry_run {
                let revision = self.context.registry.delete(self.resource, before).await?;
                object_meta::metadata(&mut object)
                    .insert("resourceVersion".to_owned(), revision.to_string().into());
            }
            return Ok(response(StatusCode::OK, self.deleted(object).to_string(), &warnings));
        }
        if grace == 0 {
            object_meta::metadata(&mut object).insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        }
        object_meta::mark_deleted(&mut object, grace, self.now);
        let is_accepted = wanted.propagation.is_accepted();
        let code = if is_accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
        if dry_run {
            return Ok(response(code, self.shown(object).to_string(), &warnings));
        }
        let object = self.context.registry.replace(self.resource, before, &object).await?;
        Ok(response(code, self.resource.json(&object), &warnings))
    }

    /// The warning that dependents are orphaned by default.
    fn propagation_warning(&self, wanted: &DeleteOptions) -> Option<String> {
        wanted.propagation.warning(self.resource.garbage_collection).map(str::to_owned)
    }

    /// The response after the object was removed: the object or a Status, depending on the kind.
    fn deleted(&self, mut object: Map<String, Value>) -> Value {
        if self.resource.returns_deleted {
            if self.resource.stored() == PODS {
                // A deleted pod always has a deletion timestamp, even with grace period 0.
                object_meta::mark_deleted(&mut object, 0, self.now);
            }
            return self.shown(object);
        }
        let mut details = json!({
            "name": object_meta::text(&object, "name"), "kind": self.resource.plural, "uid": object_meta::text(&object, "uid"),
        });
        if !self.resource.group.is_empty() {
            details["group"] = self.resource.group.as_ref().into();
        }
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        })
    }

    /// Converts an object to the requested version.
    fn shown(&self, object: Map<String, Value>) -> Value {
        match &self.resource.conversion {
            None => object.into(),
            Some(conversion) => conversion.to_served(object).into(),
        }
    }

    fn check_preconditions(
        &self,
        name: &str,
        object: &Map<String, Value>,
        wanted: &DeleteOptions,
    ) -> Result<(), Status> {
        for (what, field, expected) in
            [("UID", "uid", &wanted.uid), ("ResourceVersion", "resourceVersion", &wanted.revision)]
        {
            let found = object_meta::text(object, field);
            if let Some(expected) = expected.as_deref().filter(|expected| *expected != found) {
                let why = format!(
                    "Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}"
                );
                return Err(Status::conflict(self.resource, name, &why));
            }
        }
        Ok(())
    }

    /// The grace period in seconds. Only pods that are bound and not finished have one.
    fn grace(&self, object: &Map<String, Value>, wanted: &DeleteOptions) -> i64 {
        let of = |part: &str, field: &str| object.get(part).and_then(|part| part.get(field));
        let text = |part, field| of(part, field).and_then(Value::as_str).unwrap_or_default();
        let has_ended = matches!(text("status", "phase"), "Succeeded" | "Failed");
        if self.resource.stored() != PODS || text("spec", "nodeName").is_empty() || has_ended {
            return 0;
        }
        let own = of("spec", "terminationGracePeriodSeconds").and_then(Value::as_i64);
        wanted.grace_seconds.or(own).unwrap_or(DEFAULT_GRACE_SECONDS)
    }
}

impl DeleteOptions {
    /// Parses `DeleteOptions`; query parameters are the defaults. Invalid fields are rejected, because ignoring a
    /// misspelled dry run or precondition would delete data.
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
        // As in kube-apiserver, a negative period is the shortest one that lets a container end by itself.
        let grace = grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let orphan = document.get("orphanDependents").and_then(Value::as_bool).or(options.orphan);
        let policy = text("/propagationPolicy").or_else(|| options.propagation.clone());
        let stages = document.get("dryRun").and_then(Value::as_array);
        let stages: Vec<&str> =
            stages.into_iter().flatten().map(|stage| stage.as_str().unwrap_or("")).collect();
        let mut causes: Vec<Cause> = options::check_dry_run(&stages).into_iter().collect();
        let propagation = match (policy, orphan) {
            (Some(policy), None) => Propagation::named(&policy).unwrap_or_else(|| {
                causes.push(Cause::not_supported("propagationPolicy", &policy, POLICIES));
                Propagation::Unset
            }),
            (Some(policy), Some(_)) => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                causes.push(Cause::invalid("propagationPolicy", format!("{policy:?}"), why));
                Propagation::Unset
            }
            (None, Some(orphan)) => Propagation::OrphanDependents(orphan),
            (None, None) => Propagation::Unset,
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

/// True if a terminating object can be removed.
pub(super) fn is_deletable(resource: &Resource, object: &Map<String, Value>) -> bool {
    object_meta::is_terminating(object) && has_no_finalizers(resource, object) && !is_grace_pending(object)
}

/// True if there are no finalizers. Namespaces also have finalizers in their spec.
fn has_no_finalizers(resource: &Resource, object: &Map<String, Value>) -> bool {
    let spec = object.get("spec").filter(|_| resource.stored() == "namespaces");
    let in_spec = spec.and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    object_meta::finalizers(object).is_empty() && in_spec.is_none_or(Vec::is_empty)
}

/// True while the grace period has not ended, because the kubelet is still stopping the pod.
fn is_grace_pending(object: &Map<String, Value>) -> bool {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let grace = metadata.and_then(|metadata| metadata.get("deletionGracePeriodSeconds"));
    grace.and_then(Value::as_i64).unwrap_or(0) > 0
}
