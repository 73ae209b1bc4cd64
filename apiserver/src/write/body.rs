//! What a client sends, in JSON, YAML or protobuf, as one object of the kind that is written.

use api::protobuf;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value};

use super::options::Validation;
use crate::resource::Resource;
use crate::status::Status;

/// Longest body; the stock server's limit.
pub(super) const MAX_BYTES: usize = 3 * 1024 * 1024;

/// An object as it was sent, and what is to be said about it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub object: Map<String, Value>,
    /// For `Warning` headers.
    pub warnings: Vec<String>,
}

/// The media type of a request, without parameters; JSON when it names none.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.is_empty() { "application/json" } else { media_type }
}

/// Reads any document.
///
/// # Errors
/// 400 for what cannot be read, 415 for a media type that is not taken.
pub(super) fn document(media_type: &str, bytes: &[u8]) -> Result<Value, Status> {
    let wrong =
        |error: &dyn std::fmt::Display| Status::bad_request(format!("the body cannot be read: {error}"));
    match media_type {
        "application/json" => serde_json::from_slice(bytes).map_err(|error| wrong(&error)),
        "application/yaml" | "application/apply-patch+yaml" => {
            api::decode::value(bytes).map(Option::unwrap_or_default).map_err(|problem| wrong(&problem))
        }
        protobuf::CONTENT_TYPE => protobuf::decode(bytes).map_err(|error| wrong(&error)),
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
/// 400 for another kind, and for unknown fields where they are refused.
pub(super) fn object(document: Value, resource: &Resource, validation: Validation) -> Result<Sent, Status> {
    let Value::Object(mut object) = document else {
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
    let mut said = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    match validation {
        Validation::Strict if !unknown.is_empty() => {
            let said = said.collect::<Vec<_>>().join(", ");
            Err(Status::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {said}",
                resource.kind, resource.version, resource.kind
            )))
        }
        Validation::Warn => Ok(Sent { object, warnings: said.by_ref().collect() }),
        Validation::Strict | Validation::Ignore => Ok(Sent { object, warnings: Vec::new() }),
    }
}
