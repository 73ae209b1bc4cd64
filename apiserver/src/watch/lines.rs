//! Output buffer of a watch. Small events are combined, large objects are shared.

use std::collections::VecDeque;

use api::protobuf::encode;
use axum::body::Bytes;

use crate::represent::Encoding;

/// Target size of combined small events, in bytes.
pub(super) const CHUNK_BYTES: usize = 32 * 1024;
/// Objects of at least this size are shared instead of copied.
const SHARED_BYTES: usize = 8 * 1024;

/// Encoded events to be sent.
#[derive(Debug)]
pub(super) struct Lines {
    encoding: Encoding,
    chunks: VecDeque<Bytes>,
    /// Events after the last chunk.
    last: Vec<u8>,
    bytes: usize,
}

impl Lines {
    /// Creates an empty buffer for an encoding.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding, chunks: VecDeque::new(), last: Vec::new(), bytes: 0 }
    }

    /// Adds an event.
    pub fn push(&mut self, kind: &str, object: &Bytes) {
        let before = self.last.len();
        let tail: &[u8] = match self.encoding {
            Encoding::Json | Encoding::Yaml => {
                self.last.extend_from_slice(br#"{"type":""#);
                self.last.extend_from_slice(kind.as_bytes());
                self.last.extend_from_slice(br#"","object":"#);
                b"}\n"
            }
            Encoding::Protobuf => {
                self.last.extend_from_slice(&encode::watch_frame_head(kind, object.len()));
                b""
            }
        };
        if object.len() < SHARED_BYTES {
            self.last.extend_from_slice(object);
        } else {
            self.bytes += object.len();
            self.chunks.push_back(std::mem::take(&mut self.last).into());
            self.chunks.push_back(object.clone());
        }
        self.last.extend_from_slice(tail);
        self.bytes += self.last.len().saturating_sub(before);
    }

    /// Approximate number of pending bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Removes and returns the next bytes to send.
    pub fn pop(&mut self) -> Option<Bytes> {
        let chunk = match self.chunks.pop_front() {
            Some(chunk) => chunk,
            None if self.last.is_empty() => return None,
            None => std::mem::take(&mut self.last).into(),
        };
        if self.chunks.is_empty() && self.last.is_empty() {
            self.bytes = 0;
        }
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of combined and shared events.
    #![allow(clippy::panic, reason = "tests")]

    use super::*;

    #[test]
    fn small_watch_events_are_batched_and_large_objects_shared() {
        let mut lines = Lines::new(Encoding::Json);
        lines.push("ADDED", &Bytes::from_static(b"1"));
        lines.push("MODIFIED", &Bytes::from_static(b"2"));
        let large = Bytes::from(vec![b'3'; SHARED_BYTES]);
        lines.push("DELETED", &large);
        lines.push("ADDED", &Bytes::from_static(b"4"));
        assert!(lines.len() > SHARED_BYTES);
        let chunks: Vec<Bytes> = std::iter::from_fn(|| lines.pop()).collect();
        assert_eq!(lines.len(), 0);
        let [before, shared, after] = chunks.as_slice() else { panic!("{} chunks", chunks.len()) };
        let expected = concat!(
            r#"{"type":"ADDED","object":1}"#,
            "\n",
            r#"{"type":"MODIFIED","object":2}"#,
            "\n",
            r#"{"type":"DELETED","object":"#,
        );
        assert_eq!(before, expected.as_bytes());
        assert_eq!(shared.as_ptr(), large.as_ptr(), "the object's own bytes");
        assert_eq!(after, b"}\n{\"type\":\"ADDED\",\"object\":4}\n".as_slice());
    }
}
