//! The envelope of protobuf objects: magic bytes and a `runtime.Unknown` with the kind.

use super::decoder::broken;
use super::error::Error;
use super::scalar::text;
use super::wire::{Reader, Wire};
use super::{CONTENT_TYPE, shown};
use crate::path::Path;

/// The magic bytes at the start of each body.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// A decoded `runtime.Unknown`.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) raw: &'a [u8],
    /// True if `raw` is JSON.
    pub(super) is_json: bool,
}

/// Decodes a `runtime.Unknown`.
pub(super) fn open<'a>(body: &'a [u8], path: &Path<'_>) -> Result<Envelope<'a>, Error> {
    let mut reader = Reader::new(body.strip_prefix(MAGIC).ok_or(Error::Magic)?);
    let mut envelope = Envelope::default();
    while let Some((number, value)) = reader.field().map_err(|why| broken(why, path))? {
        match (number, value) {
            (1, Wire::Bytes(type_meta)) => {
                let mut reader = Reader::new(type_meta);
                while let Some((number, value)) = reader.field().map_err(|why| broken(why, path))? {
                    match number {
                        1 => envelope.api_version = text(value, &path.field("apiVersion"))?,
                        2 => envelope.kind = text(value, &path.field("kind"))?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(raw)) => envelope.raw = raw,
            (3, value) => match text(value, path)? {
                "" => {}
                encoding => return Err(Error::Encoding { encoding: shown(encoding) }),
            },
            (4, value) => match text(value, path)? {
                "" | CONTENT_TYPE => envelope.is_json = false,
                "application/json" => envelope.is_json = true,
                content_type => return Err(Error::ContentType { content_type: shown(content_type) }),
            },
            (1 | 2, found) => {
                let (expected, found) = ("a message", found.described());
                return Err(Error::WireType { path: path.to_owned(), expected, found });
            }
            _ => {}
        }
    }
    Ok(envelope)
}
