//! What a client sends, in JSON, YAML or protobuf, as one object of the kind that is written.

use std::error::Error as _;
use std::time::Duration;

use api::decode::repeated::{self, Repeated, Repetition};
use api::fault::Fault;
use api::protobuf;
use axum::body::{Body, Bytes, to_bytes};
use http::{HeaderMap, StatusCode, header};
use http_body_util::LengthLimitError;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::options::Validation;
use crate::resource::Resource;
use crate::status::Status;

/// Longest body; the stock server's limit.
pub(crate) const MAX_BYTES: usize = 3 * 1024 * 1024;

/// An object that is to be written, and what is to be said about it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub object: Map<String, Value>,
    /// It has been brought into the form that is stored, and nothing in it is of another type than its field.
    pub fits: bool,
    /// For `Warning` headers.
    pub warnings: Vec<String>,
}

impl Sent {
    /// An object as the server has decided it.
    pub fn decided(object: Map<String, Value>) -> Self {
        Self { object, fits: false, warnings: Vec::new() }
    }
}

/// The media type of a request, without parameters; JSON when it names none.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.is_empty() { "application/json" } else { media_type }
}

/// How long a client may take to send a body: the longest one over 1 Mbit/s.
const TIME: Duration = Duration::from_secs(30);

/// All of a body.
///
/// # Errors
/// 413 for too long a body, 408 for one that takes too long, 400 for one that breaks off.
pub(crate) async fn whole(body: Body) -> Result<Bytes, Status> {
    let read = timeout(TIME, to_bytes(body, MAX_BYTES)).await.map_err(|_| {
        let message = format!("the body did not come within {} s: send it faster", TIME.as_secs());
        Status::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
    })?;
    read.map_err(|error| match error.source() {
        Some(source) if source.is::<LengthLimitError>() => {
            Status::too_large(format!("Request entity too large: limit is {MAX_BYTES}"))
        }
        _ => Status::bad_request(format!("the body broke off: {error}")),
    })
}

/// Reads any document; of a field that stands twice the last one counts.
///
/// # Errors
/// 400 for what cannot be read, 415 for a media type that is not taken.
pub(crate) fn document(media_type: &str, bytes: &[u8]) -> Result<Value, Status> {
    read(media_type, bytes).map(|read| read.value)
}

/// Reads any document, with what stands twice in it.
///
/// # Errors
/// 400 for what cannot be read, 415 for a media type that is not taken.
pub(super) fn read(media_type: &str, bytes: &[u8]) -> Result<Repeated, Status> {
    let wrong =
        |error: &dyn std::fmt::Display| Status::bad_request(format!("the body cannot be read: {error}"));
    match media_type {
        "application/json" => repeated::json(bytes).map_err(|error| wrong(&error)),
        "application/yaml" | "application/apply-patch+yaml" => {
            let text = std::str::from_utf8(bytes).map_err(|error| wrong(&error))?;
            // Appliers send JSON under this name.
            match text.trim_start().starts_with('{').then(|| repeated::json(bytes)) {
                Some(Ok(read)) => Ok(read),
                Some(Err(_)) | None => repeated::yaml(text).map_err(|error| wrong(&error)),
            }
        }
        protobuf::CONTENT_TYPE => {
            let value = protobuf::decode(bytes).map_err(|error| wrong(&error))?;
            Ok(Repeated { value, ..Repeated::default() })
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

/// An object of one of these versions of a kind that is built in, such as a `Scale`, without fields that it does not have.
///
/// # Errors
/// 400 for anything else.
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

/// The object that is written, checked to be of the resource's kind and without fields that the kind does not have.
///
/// # Errors
/// 400 for another kind, and for unknown and repeated fields where they are refused.
pub(super) fn object(
    document: Repeated,
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
    // What is unknown as well as repeated is told once.
    let is_known = |repetition: &&Repetition| {
        !unknown.iter().any(|path| {
            let rest = repetition.path.strip_prefix(path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    let repeated = document.repeated.iter().filter(is_known).map(|repetition| repetition.said.clone());
    let said: Vec<String> =
        unknown.iter().map(|path| format!("unknown field \"{path}\"")).chain(repeated).collect();
    match validation {
        Validation::Strict if !said.is_empty() => {
            let why = format!("strict decoding error: {}", said.join(", "));
            Err(unreadable(api_version, &resource.kind, &why))
        }
        Validation::Strict | Validation::Warn | Validation::Ignore => {
            Ok(Sent { object, fits: false, warnings: said })
        }
    }
}

/// Brings an object of a built-in kind into the form that is stored, and refuses one with values that its fields cannot hold.
///
/// # Errors
/// 400 that names all of them.
pub(super) fn check_types(sent: &mut Sent, resource: &Resource) -> Result<(), Status> {
    if resource.schema.is_some() {
        return Ok(());
    }
    told(&resource.fit(&mut sent.object), resource.api_version(), &resource.kind)?;
    sent.fits = true;
    Ok(())
}

/// Brings an object of a built-in kind into the form the API has it in.
///
/// # Errors
/// 400 that names every value that its field cannot hold.
pub(crate) fn fit(object: &mut Map<String, Value>, api_version: &str, kind: &str) -> Result<(), Status> {
    told(&api::schema::fit(object, api_version, kind), api_version, kind)
}

fn told(mistyped: &[Fault], api_version: &str, kind: &str) -> Result<(), Status> {
    if mistyped.is_empty() {
        return Ok(());
    }
    let said: Vec<String> = mistyped.iter().map(|fault| format!("{}: {}", fault.path, fault.what)).collect();
    Err(unreadable(api_version, kind, &said.join(", ")))
}

/// That a body is not what it should be, as the stock server begins to say it.
fn unreadable(api_version: &str, kind: &str, why: &str) -> Status {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}
