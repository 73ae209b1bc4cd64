//! JSON patch, merge patch, strategic merge patch and server-side apply.

use api::apply::{self, ApplyError};
use api::decode::duplicates::WithDuplicates;
use api::patch::{PatchError, json, merge, strategic};
use api::strategy::{Cause, Reason};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::body::Sent;
use super::commit::{WriteOrigin, tree};
use super::{MAX_ATTEMPTS, Write, body, object_meta};
use crate::status::Status;
use crate::watch_cache::Object;

pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl Write<'_> {
    pub(super) async fn patch(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        // Custom resources have no merge keys for strategic merge.
        let is_known = self.resource.schema.is_none();
        match media_type {
            APPLY => return self.apply(name, bytes).await,
            STRATEGIC if is_known => {}
            JSON_PATCH | MERGE => {}
            _ => return Err(unsupported(media_type, is_known)),
        }
        let WithDuplicates { value: patch, duplicates } = body::read("application/json", bytes)?;
        let is_pinned = patch.pointer("/metadata/resourceVersion").is_some_and(Value::is_string);
        let is_about_record = is_about_record(&patch);
        let written = self.change(name, is_pinned, |old, stored| {
            let old = if is_about_record { self.resource.tree(stored) } else { old.clone() };
            let old = Value::Object(old);
            let patched = match media_type {
                JSON_PATCH => json::apply(old, &patch),
                STRATEGIC => strategic::apply(old, &patch, self.resource.shape()),
                _ => merge::apply(old, &patch),
            };
            let patched = patched.map_err(|error| self.refused(name, &error))?;
            let document = WithDuplicates { value: patched, duplicates: duplicates.clone() };
            body::object(document, self.resource, self.options.validation)
        });
        Ok(written.await?.response(StatusCode::OK))
    }

    /// Carries out a server-side apply, which may create the object.
    async fn apply(&self, name: &str, bytes: &[u8]) -> Result<Response, Status> {
        let mut sent = self.read(APPLY, bytes)?;
        object_meta::metadata(&mut sent.object).entry("name").or_insert_with(|| name.into());
        // Authorization checked the name in the path.
        object_meta::check_given_name(&sent.object, name)?;
        let wanted = Value::Object(std::mem::take(&mut sent.object));
        for _ in 0..MAX_ATTEMPTS {
            self.deadline.check()?;
            // A subresource requires an existing object.
            let before = if self.subresource.is_none() { self.find(name) } else { Some(self.get(name)?) };
            let old = before
                .as_ref()
                .map(|before| Value::Object(self.resource.tree_without_managed_fields(before)));
            let recorded = before.as_ref().map(Object::record).unwrap_or_default();
            let (applied, by) =
                match apply::apply(old.as_ref(), recorded, &wanted, self.options.force, &self.writer()) {
                    Ok(apply::Applied { object, record }) => {
                        let sent = Sent { warnings: sent.warnings.clone(), ..Sent::decided(tree(object)) };
                        (sent, WriteOrigin::Apply(record))
                    }
                    Err(ApplyError::Malformed(what)) => return Err(Status::bad_request(what)),
                    Err(ApplyError::Conflicts(conflicts)) => return Err(conflicted(&conflicts)),
                };
            let written = match (&before, old) {
                (Some(before), Some(old)) => self.commit_over(before, &tree(old), applied, by).await?,
                _ => {
                    let mut applied = applied;
                    // Stock servers ignore the version of an object that does not exist, for example from a backup.
                    object_meta::metadata(&mut applied.object).remove("resourceVersion");
                    self.commit_new(applied, by).await?
                }
            };
            if let Some(written) = written {
                let code = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
                return Ok(written.response(code));
            }
        }
        Err(Status::changed(self.resource, name))
    }

    pub(super) fn refused(&self, name: &str, error: &PatchError) -> Status {
        match error {
            PatchError::Malformed(what) => Status::bad_request(what),
            PatchError::TooLarge(what) => Status::too_large(what),
            PatchError::Unprocessable(what) => {
                let cause =
                    Cause { field: "patch".to_owned(), reason: Reason::Invalid, message: what.clone() };
                Status::invalid(self.resource, name, &[cause])
            }
        }
    }
}

/// True for a patch that reads or writes managed fields.
fn is_about_record(patch: &Value) -> bool {
    let touches = |path: &Value| {
        let path = path.as_str().unwrap_or_default();
        matches!(path, "" | "/metadata") || path.starts_with("/metadata/managedFields")
    };
    match patch {
        Value::Array(operations) => operations
            .iter()
            .any(|operation| ["path", "from"].iter().filter_map(|field| operation.get(field)).any(touches)),
        other => other.pointer("/metadata/managedFields").is_some(),
    }
}

pub(super) fn unsupported(media_type: &str, is_known: bool) -> Status {
    let strategic = if is_known { ", application/strategic-merge-patch+json" } else { "" };
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: \
         {JSON_PATCH}, {MERGE}, {APPLY}{strategic}; it was {media_type}"
    );
    Status::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
}

/// The conflict error of an apply, with one cause per field.
fn conflicted(conflicts: &apply::Conflicts) -> Status {
    let causes: Vec<Value> = conflicts
        .0
        .iter()
        .map(|conflict| {
            let message = format!("conflict with {}", conflict.manager);
            json!({"reason": "FieldManagerConflict", "message": message, "field": conflict.path})
        })
        .collect();
    let status = Status::new(StatusCode::CONFLICT, "Conflict", conflicts.to_string());
    Status { details: Some(json!({"causes": causes})), ..status }
}
