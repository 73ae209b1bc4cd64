//! Request bodies in JSON, YAML or protobuf.

use std::error::Error as _;
use std::time::Duration;

use api::decode::duplicates::{self, DuplicateField, WithDuplicates};
use api::field_error::FieldError;
use api::protobuf;
use axum::body::{Body, Bytes, to_bytes};
use http::{HeaderMap, StatusCode, header};
use http_body_util::LengthLimitError;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::options::Validation;
use crate::identity::Identity;
use crate::resource::Resource;
use crate::status::Status;

/// Storage name of CertificateSigningRequests.
const CERTIFICATE_REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

/// Maximum body size in bytes, as in kube-apiserver.
pub(crate) const MAX_BYTES: usize = 3 * 1024 * 1024;

/// Maximum size of the body of an anonymous CertificateSigningRequest: a CSR of 16 KiB in base64, and the rest of
/// the object.
const ANONYMOUS_REQUEST_MAX_BYTES: usize = 64 * 1024;

/// Maximum size of a body for a user and resource. Anonymous clients may create CertificateSigningRequests, so
/// their bodies are limited before parsing.
pub(crate) fn max_bytes(resource: &Resource, user: &Identity) -> usize {
    if user.is_anonymous() && resource.stored() == CERTIFICATE_REQUESTS {
        ANONYMOUS_REQUEST_MAX_BYTES
    } else {
        MAX_BYTES
    }
}

/// An object to be written, with warnings.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub object: Map<String, Value>,
    /// True if the types of the fields have been checked and normalized.
    pub fits: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

impl Sent {
    /// Creates an object that the server built itself.
    pub fn decided(object: Map<String, Value>) -> Self {
        Self { object, fits: false, warnings: Vec::new() }
    }
}

/// Media type without parameters; JSON by default.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.is_empty() { "application/json" } else { media_type }
}

/// How long a client may take to send a body: the maximum size at 1 Mbit/s.
const TIME: Duration = Duration::from_secs(30);

/// Reads a body.
///
/// # Errors
/// 413 if too large, 408 on timeout, 400 if it is truncated.
pub(crate) async fn whole(body: Body, max_bytes: usize) -> Result<Bytes, Status> {
    let read = timeout(TIME, to_bytes(body, max_bytes)).await.map_err(|_| {
        let message = format!("the body was not received within {} s", TIME.as_secs());
        Status::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
    })?;
    read.map_err(|error| match error.source() {
        Some(source) if source.is::<LengthLimitError>() => {
            Status::too_large(format!("Request entity too large: limit is {max_bytes}"))
        }
        _ => Status::bad_request(format!("the body is incomplete: {error}")),
    })
}

/// Parses a document. The last of repeated fields wins.
///
/// # Errors
/// 400 for a syntax error, 415 for an unsupported media type.
pub(crate) fn document(media_type: &str, bytes: &[u8]) -> Result<Value, Status> {
    read(media_type, bytes).map(|read| read.value)
}

/// Parses a document and reports repeated fields.
///
/// # Errors
/// 400 for a syntax error, 415 for an unsupported media type.
pub(super) fn read(media_type: &str, bytes: &[u8]) -> Result<WithDuplicates, Status> {
    let wrong =
        |error: &dyn std::fmt::Display| Status::bad_request(format!("the body cannot be read: {error}"));
    match media_type {
        "application/json" => duplicates::json(bytes).map_err(|error| wrong(&error)),
        "application/yaml" | "application/apply-patch+yaml" => {
            let text = std::str::from_utf8(bytes).map_err(|error| wrong(&error))?;
            // Clients send JSON as apply patches.
            match text.trim_start().starts_with('{').then(|| duplicates::json(bytes)) {
                Some(Ok(read)) => Ok(read),
                Some(Err(_)) | None => duplicates::yaml(text).map_err(|error| wrong(&error)),
            }
        }
        protobuf::CONTENT_TYPE => {
            let value = protobuf::decode(bytes).map_err(|error| wrong(&error))?;
            Ok(WithDuplicates { value, ..WithDuplicates::default() })
        }
        other => {
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, {}; it was {other}",
                protobuf::CONTENT_TYPE
            );
            Err(Status::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message))
        }
    }
}

/// Parses an object of a built-in kind such as `Scale`, without unknown fields.
///
/// # Errors
/// 400 for another kind or version.
pub(super) fn of_kind(
    document: Value,
    api_versions: &[&str],
    kind: &str,
) -> Result<Map<String, Value>, Status> {
    let Value::Object(mut object) = document else {
        return Err(Status::bad_request("the body is not an object"));
    };
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, given) = (text("apiVersion"), text("kind"));
    if !given.is_empty() && given != kind {
        return Err(Status::bad_request(format!("the body is a {given} where a {kind} is expected")));
    }
    if !version.is_empty() && !api_versions.contains(&version.as_str()) {
        let expected = api_versions.join(" or ");
        return Err(Status::bad_request(format!("the {kind} is of {version} where {expected} is expected")));
    }
    for api_version in api_versions.iter().take(1) {
        api::schema::prune(&mut object, api_version, kind);
    }
    Ok(object)
}

/// Parses the object to be written, checks its kind and removes unknown fields.
///
/// # Errors
/// 400 for another kind. With strict validation, also 400 for unknown and repeated fields.
pub(super) fn object(
    document: WithDuplicates,
    resource: &Resource,
    validation: Validation,
) -> Result<Sent, Status> {
    let Value::Object(mut object) = document.value else {
        return Err(Status::bad_request("the body is not an object"));
    };
    let api_version = resource.api_version();
    for (field, expected) in [("apiVersion", api_version), ("kind", resource.kind.as_ref())] {
        match object.get(field).and_then(Value::as_str).unwrap_or_default() {
            "" => drop(object.insert(field.to_owned(), expected.into())),
            given if given == expected => {}
            given => {
                return Err(Status::bad_request(format!(
                    "the {field} in the data ({given}) does not match the expected one ({expected})"
                )));
            }
        }
    }
    let unknown = resource.prune(&mut object);
    if validation == Validation::Ignore {
        return Ok(Sent { object, fits: false, warnings: Vec::new() });
    }
    // A field that is unknown and repeated is reported once.
    let is_known = |repetition: &&DuplicateField| {
        !unknown.iter().any(|path| {
            let rest = repetition.path.strip_prefix(path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    let repeated = document.duplicates.iter().filter(is_known).map(|duplicate| duplicate.message.clone());
    let messages: Vec<String> =
        unknown.iter().map(|path| format!("unknown field \"{path}\"")).chain(repeated).collect();
    match validation {
        Validation::Strict if !messages.is_empty() => {
            let why = format!("strict decoding error: {}", messages.join(", "));
            Err(unreadable(api_version, &resource.kind, &why))
        }
        Validation::Strict | Validation::Warn | Validation::Ignore => {
            Ok(Sent { object, fits: false, warnings: messages })
        }
    }
}

/// Normalizes and checks field types of built-in kinds.
///
/// # Errors
/// 400 listing all invalid values.
pub(super) fn check_types(sent: &mut Sent, resource: &Resource) -> Result<(), Status> {
    if resource.schema.is_some() {
        return Ok(());
    }
    check_faults(&resource.fit(&mut sent.object), resource.api_version(), &resource.kind)?;
    sent.fits = true;
    Ok(())
}

/// Normalizes and checks field types of a built-in kind.
///
/// # Errors
/// 400 listing all invalid values.
pub(crate) fn fit(object: &mut Map<String, Value>, api_version: &str, kind: &str) -> Result<(), Status> {
    check_faults(&api::schema::normalize(object, api_version, kind), api_version, kind)
}

fn check_faults(mistyped: &[FieldError], api_version: &str, kind: &str) -> Result<(), Status> {
    if mistyped.is_empty() {
        return Ok(());
    }
    let messages: Vec<String> =
        mistyped.iter().map(|fault| format!("{}: {}", fault.path, fault.what)).collect();
    Err(unreadable(api_version, kind, &messages.join(", ")))
}

/// Returns a decoding error with the prefix of kube-apiserver.
fn unreadable(api_version: &str, kind: &str, why: &str) -> Status {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}
