//! Decodes and [encodes](encode) the protobuf format of Kubernetes for all built-in kinds.

mod decoder;
pub mod encode;
mod envelope;
mod error;
mod scalar;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::{Map, Value};

use self::decoder::Decoder;
pub use self::error::Error;
use crate::path::Path;
use crate::schema::all;

/// The content type of protobuf bodies.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Decodes a body to the JSON of the object, with `apiVersion` and `kind`.
///
/// Go writes zero values of fields that are not pointers; they are left out as in JSON. Unknown fields are ignored.
///
/// # Errors
/// If the body is invalid, or its kind has no protobuf message.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    object(body, &mut Decoder::default(), &Path::ROOT, 0)
}

/// Decodes a body that may be nested in another one, at message depth `depth`.
fn object(body: &[u8], decoder: &mut Decoder, path: &Path<'_>, depth: usize) -> Result<Value, Error> {
    let envelope = envelope::open(body, path)?;
    if envelope.is_json {
        return scalar::json(envelope.raw, path);
    }
    let (api_version, kind) = (envelope.api_version, envelope.kind);
    let Some(of) = all().kind_of(api_version, kind) else {
        return Err(Error::UnknownKind { api_version: shown(api_version), kind: shown(kind) });
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    decoder.message(of, envelope.raw, &mut object, path, depth)?;
    Ok(Value::Object(object))
}

/// Truncates a name for messages.
fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}
