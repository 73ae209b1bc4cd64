//! Patches of every kind: JSON patch, merge patch, strategic merge patch, server-side apply.

use api::apply::{self, Refusal};
use api::patch::{PatchError, json, merge, strategic};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::meta::Part;
use super::{TRIES, Write, Written, body, meta, response};
use crate::registry;
use crate::status::Status;

impl Write<'_> {
    pub(super) async fn patch(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        let part = self.part()?;
        if media_type == "application/apply-patch+yaml" {
            return self.apply(name, part, bytes).await;
        }
        let api_version = self.resource.api_version();
        let shape = api::schema::shape(&api_version, self.resource.kind);
        let patch = body::document("application/json", bytes)?;
        let is_pinned = patch.pointer("/metadata/resourceVersion").is_some_and(Value::is_string);
        let written = self
            .change(name, part, is_pinned, |old| {
                let old = Value::Object(old.clone());
                let patched = match media_type {
                    "application/json-patch+json" => json::apply(&old, &patch),
                    "application/merge-patch+json" => merge::apply(&old, &patch),
                    "application/strategic-merge-patch+json" => strategic::apply(&old, &patch, shape),
                    _ => return Err(unsupported(media_type)),
                };
                let patched = patched.map_err(|error| self.refused(name, &error))?;
                Ok(body::object(patched, self.resource, self.options.validation)?.object)
            })
            .await?;
        Ok(response(StatusCode::OK, &written.object, &[]))
    }

    /// Server-side apply: the manager says what it wants of the object, which is made when it is not there.
    async fn apply(&self, name: &str, part: Part, bytes: &[u8]) -> Result<Response, Status> {
        if self.options.field_manager.is_none() {
            return Err(Status::bad_request("fieldManager is required for apply patch"));
        }
        let wanted = body::document("application/apply-patch+yaml", bytes)?;
        let sent = body::object(wanted, self.resource, self.options.validation)?;
        let mut wanted = sent.object;
        let metadata = meta::metadata(&mut wanted);
        metadata.entry("name").or_insert_with(|| name.into());
        for _ in 0..TRIES {
            let before = self.find(name);
            let old = before.as_ref().map(|before| Value::Object(before.decode()));
            let api_version = self.resource.api_version();
            let applied = apply::apply(
                old.as_ref(),
                &Value::Object(wanted.clone()),
                self.options.force,
                &self.writer(&api_version, part),
            );
            let object = match applied {
                Ok(applied) => applied.object.as_object().cloned().unwrap_or_default(),
                Err(Refusal::Malformed(what)) => return Err(Status::bad_request(what)),
                Err(Refusal::Conflicts(conflicts)) => return Err(conflicted(&conflicts)),
            };
            match self.write_applied(name, part, before.as_ref(), object).await {
                Ok(written) => {
                    let code = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
                    return Ok(response(code, &written.object, &sent.warnings));
                }
                Err(None) => {}
                Err(Some(status)) => return Err(status),
            }
        }
        Err(Status::changed(self.resource, name))
    }

    /// `Err(None)` when somebody else came before.
    async fn write_applied(
        &self,
        name: &str,
        part: Part,
        before: Option<&crate::store::Object>,
        mut object: Map<String, Value>,
    ) -> Result<Written, Option<Status>> {
        let Some(before) = before else {
            let fresh = super::fresh(self.now);
            if let Some(caller) = &self.caller {
                caller.check_create(self.objects)?;
            }
            meta::created(self.resource, &mut object, self.objects.namespace.as_deref(), &fresh)?;
            super::check_name(self.resource, name)?;
            self.check_grant(None, &object)?;
            if self.options.dry_run {
                return Ok(Written { object, is_new: true });
            }
            return match self.registry.create(self.resource, &object).await {
                Ok(written) => Ok(Written { object: written.decode(), is_new: true }),
                Err(registry::Error::Exists) => Err(None),
                Err(error) => Err(Some(self.failed(name, &error))),
            };
        };
        let old = before.decode();
        let object = meta::updated(self.resource, &old, object, part)?;
        self.check_grant(Some(&old), &object)?;
        if self.options.dry_run {
            return Ok(Written { object, is_new: false });
        }
        let (old, object) = (Value::Object(old), Value::Object(object));
        if apply::is_same_but_for_times(&old, &object) {
            return Ok(Written { object: before.decode(), is_new: false });
        }
        let Value::Object(object) = object else {
            return Err(Some(Status::internal("an object became none")));
        };
        match self.registry.replace(self.resource, before, &object).await {
            Ok(written) => Ok(Written { object: written.decode(), is_new: false }),
            Err(registry::Error::Changed) => Err(None),
            Err(error) => Err(Some(self.failed(name, &error))),
        }
    }

    fn refused(&self, name: &str, error: &PatchError) -> Status {
        match error {
            PatchError::Malformed(what) => Status::bad_request(what),
            PatchError::TooLarge(what) => {
                Status::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", what)
            }
            PatchError::Unprocessable(what) => {
                Status::invalid(self.resource, name, &[("patch", "FieldValueInvalid", what)])
            }
        }
    }
}

fn unsupported(media_type: &str) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, \
         application/strategic-merge-patch+json; it was {media_type}"
    );
    Status::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
}

/// Who owns what the client would change, a cause each.
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
