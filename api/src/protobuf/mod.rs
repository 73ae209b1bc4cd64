//! Bodies in the protobuf of Kubernetes, as Go clients send them: read along the table of types, for every kind.

mod envelope;
mod error;
mod scalar;
#[cfg(test)]
mod tests;
mod walk;
mod wire;

use serde_json::{Map, Value};

pub use self::error::Error;
use self::walk::Walk;
use crate::path::Path;
use crate::schema::all;

/// The content type of such a body.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Decodes a whole body into the object as JSON would have it, with its `apiVersion` and `kind`.
///
/// Go writes every field that is not a pointer, so nothing is kept of a zero that JSON would leave out. Fields that
/// are not known are passed over, as protobuf has it.
///
/// # Errors
/// When the body is not such a message, or of a kind that only JSON has.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    object(body, &mut Walk::default(), &Path::ROOT, 0)
}

/// Decodes a body that may stand within another one, `depth` messages deep.
fn object(body: &[u8], walk: &mut Walk, path: &Path<'_>, depth: usize) -> Result<Value, Error> {
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
    walk.message(of, envelope.raw, &mut object, path, depth)?;
    Ok(Value::Object(object))
}

/// As much of a name as a message shows.
fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}
