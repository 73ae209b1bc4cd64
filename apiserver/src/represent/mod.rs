//! Encodes responses as JSON, YAML or protobuf, and shapes them as object, table or partial metadata.

mod accept;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::protobuf::encode;
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub use self::accept::{Accept, As, Encoding, Format, MetaVersion, Offer};
pub use self::table::Table;
use crate::request::Include;
use crate::resource::Columns;
use crate::status::Status;

/// The top-level fields of a JSON object, not decoded.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Creates a JSON response with a trailing newline, as kube-apiserver does.
pub(crate) fn json(media_type: &'static str, body: impl Into<Vec<u8>>) -> Response {
    let mut body = body.into();
    body.push(b'\n');
    ([(header::CONTENT_TYPE, media_type)], Body::from(body)).into_response()
}

/// Encodes an object, list, table or Status.
///
/// # Errors
/// 500 if encoding fails, 406 if the kind has no protobuf message.
pub(crate) fn encoded(encoding: Encoding, json: &[u8]) -> Result<Vec<u8>, Status> {
    match encoding {
        Encoding::Json => Ok([json, b"\n"].concat()),
        Encoding::Yaml => {
            let value: Value = serde_json::from_slice(json).map_err(Status::internal)?;
            Ok(serde_yaml::to_string(&value).map_err(Status::internal)?.into_bytes())
        }
        Encoding::Protobuf => protobuf(json),
    }
}

/// Creates a response in an encoding.
///
/// # Errors
/// The same as [`encoded`].
pub(crate) fn answer(encoding: Encoding, json: &[u8]) -> Result<Response, Status> {
    let body = encoded(encoding, json)?;
    Ok(([(header::CONTENT_TYPE, encoding.media_type())], Body::from(body)).into_response())
}

/// Encodes an object as protobuf with its envelope.
///
/// # Errors
/// The same as [`encoded`].
pub(crate) fn protobuf(json: &[u8]) -> Result<Vec<u8>, Status> {
    let fields: Fields<'_> = serde_json::from_slice(json).map_err(Status::internal)?;
    let text = |name: &str| -> &str {
        let raw = fields.get(name).map(|value| value.get()).unwrap_or_default();
        serde_json::from_str(raw).unwrap_or_default()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind == "PartialObjectMetadata" {
        let metadata = fields.get("metadata").map_or("{}", |metadata| metadata.get());
        let message = encode::partial_metadata(metadata.as_bytes()).map_err(Status::internal)?;
        return Ok(encode::envelope(api_version, kind, &message));
    }
    let object = encode::object(api_version, kind, json).map_err(Status::internal)?;
    object.ok_or_else(Status::not_acceptable)
}

/// The `PartialObjectMetadata` of an object, as JSON.
pub(crate) fn metadata_json(object: &[u8], version: MetaVersion) -> Vec<u8> {
    let metadata = metadata_of(object);
    let head =
        format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{}","metadata":"#, version.api_version());
    [head.as_bytes(), metadata.as_bytes(), b"}"].concat()
}

/// The `metadata` of an object, as JSON.
pub(crate) fn metadata_of(object: &[u8]) -> &str {
    let fields: Fields<'_> = serde_json::from_slice(object).unwrap_or_default();
    fields.get("metadata").map_or("{}", |metadata| metadata.get())
}

/// Creates an error response in an encoding that the client accepts.
pub(crate) async fn error(accept: &Accept, status: Status) -> Response {
    let format = Format { encoding: accept.of_errors(), shape: As::Object };
    respond(format, None, status.into_response()).await
}

/// Options for responses as tables.
pub(crate) struct TableOptions<'a> {
    /// Columns of the resource.
    pub columns: &'a dyn Columns,
    /// The part of the object that each row contains.
    pub include: Include,
}

/// Converts a JSON response to the requested format. Other media types and streams stay unchanged.
pub(crate) async fn respond(
    format: Format,
    table_options: Option<TableOptions<'_>>,
    response: Response,
) -> Response {
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|it| it == "application/json");
    let is_whole = response.body().size_hint().exact().is_some_and(|length| length > 0);
    if format == Format::JSON || !is_json || !is_whole {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A body with a known length is in memory already.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let shaped =
        table_options.map_or(body.clone(), |table_options| shape(format.shape, &table_options, body));
    match encoded(format.encoding, &shaped) {
        Ok(body) => {
            let media_type = HeaderValue::from_static(format.encoding.media_type());
            parts.headers.insert(header::CONTENT_TYPE, media_type);
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(body))
        }
        // The write has succeeded, so an object without protobuf message is returned as JSON.
        Err(error) if error.code == StatusCode::NOT_ACCEPTABLE.as_u16() => {
            Response::from_parts(parts, Body::from(shaped))
        }
        Err(error) => error.into_response(),
    }
}

/// Converts an object to a shape. A `Status` always keeps its own.
fn shape(shape: As, table_options: &TableOptions<'_>, body: Bytes) -> Bytes {
    let parse = || serde_json::from_slice::<Map<String, Value>>(&body).unwrap_or_default();
    match shape {
        As::Object => body,
        As::Metadata(version) => match parse().get("kind").and_then(Value::as_str) {
            Some("Status") => body,
            Some(_) | None => metadata_json(&body, version).into(),
        },
        As::Table(version) => {
            let object = parse();
            if object.get("kind").and_then(Value::as_str) == Some("Status") {
                return body;
            }
            let revision = object.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
            let metadata = serde_json::json!({"resourceVersion": revision});
            let table =
                Table { version, include: table_options.include, with_columns: true, now: Timestamp::now() };
            table.of(table_options.columns, std::iter::once(object), metadata).to_string().into()
        }
    }
}
