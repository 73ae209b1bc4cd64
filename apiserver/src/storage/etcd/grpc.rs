//! The part of gRPC that the store needs: message framing and the status of calls.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::HeaderMap;
use percent_encoding::percent_decode_str;
use prost::Message;

/// Frame header: a flag and a length.
const HEAD_BYTES: usize = 5;
/// Maximum size of a response. A larger page is requested again in smaller parts.
pub(super) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The gRPC status of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u32,
    pub(super) message: String,
    /// The error, if it is one that callers handle.
    pub(super) error: Option<EtcdError>,
}

/// Errors of etcd that callers handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtcdError {
    /// The requested revision is compacted.
    Compacted,
    /// The requested revision is in the future.
    FutureRevision,
    /// The database has reached its quota.
    NoSpace,
}

/// etcd has no codes for these errors: its own client libraries recognize them by the gRPC code and this text (package
/// `rpctypes` of etcd).
const ETCD_ERRORS: &[(u32, &str, EtcdError)] = &[
    (Status::OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted", EtcdError::Compacted),
    (
        Status::OUT_OF_RANGE,
        "etcdserver: mvcc: required revision is a future revision",
        EtcdError::FutureRevision,
    ),
    (Status::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", EtcdError::NoSpace),
];

impl Status {
    pub(super) const OK: u32 = 0;
    pub(super) const INVALID_ARGUMENT: u32 = 3;
    pub(super) const PERMISSION_DENIED: u32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(super) const FAILED_PRECONDITION: u32 = 9;
    pub(super) const OUT_OF_RANGE: u32 = 11;
    pub(super) const UNIMPLEMENTED: u32 = 12;
    pub(super) const UNAUTHENTICATED: u32 = 16;

    /// Reads the status from headers or trailers, if they contain one.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let code = text("grpc-status")?.parse().ok()?;
        let message = percent_decode_str(text("grpc-message").unwrap_or_default()).decode_utf8_lossy();
        let known = ETCD_ERRORS.iter().find(|(of, text, _)| *of == code && *text == message);
        Some(Self { code, error: known.map(|(_, _, error)| *error), message: message.into_owned() })
    }
}

/// Encodes a message in a frame.
pub(super) fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + length);
    bytes.put_u8(0);
    // Transactions are limited far below 4 GiB.
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut bytes);
    bytes.freeze()
}

/// The reason why a frame cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FrameError {
    /// The message exceeds the size limit.
    TooLarge(usize),
    /// The message is compressed, which the client did not negotiate.
    Compressed,
}

/// Decodes frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// Adds received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete message.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(head) = self.buffer.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [flag, length @ ..] = *head;
        if flag != 0 {
            return Err(FrameError::Compressed);
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE_BYTES {
            return Err(FrameError::TooLarge(length));
        }
        if self.buffer.len() < HEAD_BYTES + length {
            self.buffer.reserve(HEAD_BYTES + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEAD_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}
