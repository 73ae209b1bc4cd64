//! Encodes objects in the protobuf format of Kubernetes, directly from their JSON.
//!
//! Fields that the JSON does not have are not written; Go decodes them as zero or nil. The fields of a nested message
//! that JSON inlines ([`Field::numbers`](crate::schema::Field)) are written as separate messages, which the decoder
//! merges.

mod value;
mod write;

use serde::de::DeserializeSeed;

use self::value::Message;
use self::write::{begin, bytes_field, end, length_field, text_field};
use super::envelope::MAGIC;
use crate::schema::{Struct, all};

/// The JSON cannot be encoded: it is invalid, or a value has another type than its field.
#[derive(Debug, thiserror::Error)]
#[error("the object cannot be encoded in protobuf: {0}")]
pub struct EncodeError(#[from] serde_json::Error);

/// True if the kind has a protobuf message: all built-in kinds, no custom resources.
pub fn has_message(api_version: &str, kind: &str) -> bool {
    all().kind_of(api_version, kind).is_some()
}

/// Encodes an object as the message of its kind, without an envelope. `apiVersion` and `kind` are not written.
///
/// # Errors
/// If the JSON does not fit the kind.
pub fn message(api_version: &str, kind: &str, json: &[u8]) -> Result<Option<Vec<u8>>, EncodeError> {
    all().kind_of(api_version, kind).map(|of| encode(of, json)).transpose()
}

/// Encodes an object of a built-in kind with its envelope. Returns `None` if the kind has no message.
///
/// # Errors
/// If the JSON does not fit the kind.
pub fn object(api_version: &str, kind: &str, json: &[u8]) -> Result<Option<Vec<u8>>, EncodeError> {
    Ok(message(api_version, kind, json)?.map(|message| envelope(api_version, kind, &message)))
}

/// Encodes a `meta.k8s.io` PartialObjectMetadata from the JSON of its `metadata`, without an envelope.
///
/// # Errors
/// If the JSON is not valid metadata.
pub fn partial_metadata(metadata: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(metadata.len());
    let start = begin(&mut out, 1);
    write_message("meta.v1.ObjectMeta", metadata, &mut out)?;
    end(&mut out, start);
    Ok(out)
}

/// The start of a list with its envelope, from the JSON of the list's `metadata`. Items of [`list_item`] with `items_bytes`
/// bytes in total follow, and [`ENVELOPE_END`]. All list types have the same field numbers.
///
/// # Errors
/// If the JSON is not valid list metadata.
pub fn list_head(
    api_version: &str,
    kind: &str,
    metadata: &[u8],
    items_bytes: usize,
) -> Result<Vec<u8>, EncodeError> {
    let mut list = Vec::new();
    let start = begin(&mut list, 1);
    write_message("meta.v1.ListMeta", metadata, &mut list)?;
    end(&mut list, start);
    let mut out = envelope_head(api_version, kind, list.len() + items_bytes);
    out.extend_from_slice(&list);
    Ok(out)
}

/// Appends an item of a list: the message of an object.
pub fn list_item(out: &mut Vec<u8>, message: &[u8]) {
    bytes_field(out, 2, message);
}

/// Wraps a message in a `runtime.Unknown`, after the four magic bytes.
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind, message.len());
    out.reserve_exact(message.len() + ENVELOPE_END.len());
    out.extend_from_slice(message);
    out.extend_from_slice(ENVELOPE_END);
    out
}

/// The end of an envelope: the stock server writes contentEncoding and contentType as empty strings.
pub const ENVELOPE_END: &[u8] = b"\x1a\0\x22\0";

/// The start of an envelope, before its message.
fn envelope_head(api_version: &str, kind: &str, message_bytes: usize) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let type_meta = begin(&mut out, 1);
    text_field(&mut out, 1, api_version);
    text_field(&mut out, 2, kind);
    end(&mut out, type_meta);
    length_field(&mut out, 2, message_bytes);
    out
}

/// The start of a watch frame, up to the object: the frame length in four bytes, then the start of a `meta.k8s.io`
/// WatchEvent. The object follows with its envelope; its size is `object_bytes`.
pub fn watch_frame_head(kind: &str, object_bytes: usize) -> Vec<u8> {
    let mut raw = Vec::with_capacity(10);
    length_field(&mut raw, 1, object_bytes);
    let mut out = vec![0; 4];
    text_field(&mut out, 1, kind);
    length_field(&mut out, 2, raw.len() + object_bytes);
    out.extend_from_slice(&raw);
    let length = u32::try_from(out.len() - 4 + object_bytes).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

fn encode(of: &'static Struct, json: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(json.len() / 2);
    read_into(of, json, &mut out)?;
    Ok(out)
}

fn write_message(name: &str, json: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match all().get(name) {
        Some(of) => read_into(of, json, out),
        None => Ok(()),
    }
}

fn read_into(of: &'static Struct, json: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Message { of, out }.deserialize(&mut deserializer)?;
    Ok(deserializer.end()?)
}

#[cfg(test)]
mod tests;
