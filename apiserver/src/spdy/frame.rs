//! Encodes and decodes SPDY/3.1 frames. Pure.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::HeaderMap;

use super::headers::{self, Deflater, Inflater};

/// Version in control frames. 3.1 differs from 3 only in session flow control.
const VERSION: u16 = 3;
/// Frame header size.
const HEAD_BYTES: usize = 8;
/// Bit that marks control frames.
const CONTROL: u16 = 0x8000;
/// Mask of stream IDs.
const STREAM: u32 = 0x7fff_ffff;
/// Maximum payload of a control frame: twice the limit of uncompressed headers. SETTINGS frames need not be larger.
pub const MOST_CONTROL_BYTES: usize = 2 * headers::MOST_BYTES;
/// Maximum length of a data frame.
const MOST_DATA_BYTES: usize = 0x00ff_ffff;

const FIN: u8 = 1;
const UNIDIRECTIONAL: u8 = 2;

mod kind {
    pub const SYN_STREAM: u16 = 1;
    pub const SYN_REPLY: u16 = 2;
    pub const RST_STREAM: u16 = 3;
    pub const SETTINGS: u16 = 4;
    pub const PING: u16 = 6;
    pub const GOAWAY: u16 = 7;
    pub const HEADERS: u16 = 8;
    pub const WINDOW_UPDATE: u16 = 9;
}

/// Reset reasons of `RST_STREAM`.
pub mod reason {
    /// Protocol violation.
    pub const PROTOCOL_ERROR: u32 = 1;
    /// The stream was refused before it was processed.
    pub const REFUSED: u32 = 3;
    /// The stream is no longer needed.
    pub const CANCEL: u32 = 5;
}

/// A frame, or a fragment of a data frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Opens a stream.
    SynStream {
        /// Stream ID, odd for client streams.
        stream: u32,
        /// True if the sender closes its side.
        fin: bool,
        /// True if the receiver must not send.
        unidirectional: bool,
        /// Headers of the stream.
        headers: HeaderMap,
    },
    /// Accepts a stream.
    SynReply {
        /// Stream ID.
        stream: u32,
        /// True if the sender closes its side.
        fin: bool,
        /// Headers of the stream.
        headers: HeaderMap,
    },
    /// Aborts a stream in both directions.
    Reset {
        /// Stream ID.
        stream: u32,
        /// One of [`reason`].
        reason: u32,
    },
    /// Settings: flags and ID, and value.
    Settings(Vec<(u32, u32)>),
    /// A ping, which the receiver returns. The IDs of clients are odd.
    Ping(u32),
    /// No further streams are accepted.
    GoAway {
        /// Last accepted stream ID.
        last: u32,
        /// 0 for a normal end, 1 for a protocol error.
        status: u32,
    },
    /// Additional headers of a stream.
    Headers {
        /// Stream ID.
        stream: u32,
        /// True if the sender closes its side.
        fin: bool,
        /// Additional headers of the stream.
        headers: HeaderMap,
    },
    /// Increases a flow-control window.
    WindowUpdate {
        /// Stream ID, or 0 for the session.
        stream: u32,
        /// Number of bytes.
        bytes: u32,
    },
    /// Stream data.
    Data {
        /// Stream ID.
        stream: u32,
        /// True if the sender closes its side.
        fin: bool,
        /// Bytes of the stream.
        bytes: Bytes,
    },
}

/// The reason why a frame cannot be decoded. The rest of the connection cannot be read either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The frame has another protocol or version.
    #[error("version {0} is not SPDY/3")]
    Version(u16),
    /// The control frame is too long.
    #[error("a control frame of {0} bytes exceeds the limit of {MOST_CONTROL_BYTES}")]
    TooLong(usize),
    /// The length does not fit the type of the frame.
    #[error("a control frame of type {0} has an invalid length")]
    Length(u16),
    /// The stream ID is 0.
    #[error("a frame without a stream ID")]
    NoStream,
    /// The headers are invalid.
    #[error("{0}")]
    Headers(#[from] headers::Error),
}

/// A data frame that has not been received completely.
#[derive(Debug)]
struct PartialData {
    stream: u32,
    fin: bool,
    left: usize,
}

/// Decodes frames.
#[derive(Debug, Default)]
pub struct Decoder {
    inflater: Inflater,
    begun: Option<PartialData>,
}

impl Decoder {
    /// Decodes the next frame. Returns `None` until more bytes arrive.
    ///
    /// Data frames are returned in fragments, so that they need not be buffered. Frames of unknown types are
    /// skipped.
    ///
    /// # Errors
    /// If the bytes are invalid. Nothing more can then be decoded.
    pub fn next(&mut self, come: &mut BytesMut) -> Result<Option<Frame>, Error> {
        loop {
            if let Some(begun) = self.begun.take() {
                return Ok(self.data(begun, come));
            }
            let Some(head) = come.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
            let (what, flags) = (&head[..4], head[4]);
            let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
            let [first, kind] = [&what[..2], &what[2..]].map(|half| u16::from_be_bytes([half[0], half[1]]));
            if first & CONTROL == 0 {
                let stream = stream(u32::from(first) << 16 | u32::from(kind))?;
                come.advance(HEAD_BYTES);
                self.begun = Some(PartialData { stream, fin: flags & FIN != 0, left: length });
                continue;
            }
            if first & !CONTROL != VERSION {
                return Err(Error::Version(first & !CONTROL));
            }
            if length > MOST_CONTROL_BYTES {
                return Err(Error::TooLong(length));
            }
            if come.len() < HEAD_BYTES + length {
                return Ok(None);
            }
            come.advance(HEAD_BYTES);
            if let Some(frame) = self.control(kind, flags, &come.split_to(length))? {
                return Ok(Some(frame));
            }
        }
    }

    fn data(&mut self, begun: PartialData, come: &mut BytesMut) -> Option<Frame> {
        let PartialData { stream, fin, left } = begun;
        let bytes = come.split_to(left.min(come.len())).freeze();
        let left = left - bytes.len();
        if left > 0 {
            self.begun = Some(PartialData { stream, fin, left });
        }
        let is_nothing = left > 0 && bytes.is_empty();
        (!is_nothing).then_some(Frame::Data { stream, fin: fin && left == 0, bytes })
    }

    fn control(&mut self, kind: u16, flags: u8, payload: &[u8]) -> Result<Option<Frame>, Error> {
        let mut rest = payload;
        let fin = flags & FIN != 0;
        let mut number = || rest.try_get_u32().map_err(|_| Error::Length(kind));
        let frame = match kind {
            kind::SYN_STREAM => {
                let stream = stream(number()?)?;
                // Associated stream, priority and slot are not used.
                let block = payload.get(10..).ok_or(Error::Length(kind))?;
                let unidirectional = flags & UNIDIRECTIONAL != 0;
                return Ok(Some(Frame::SynStream {
                    stream,
                    fin,
                    unidirectional,
                    headers: self.inflater.headers(block)?,
                }));
            }
            kind::SYN_REPLY => {
                let stream = stream(number()?)?;
                return Ok(Some(Frame::SynReply { stream, fin, headers: self.inflater.headers(rest)? }));
            }
            kind::HEADERS => {
                let stream = stream(number()?)?;
                return Ok(Some(Frame::Headers { stream, fin, headers: self.inflater.headers(rest)? }));
            }
            kind::RST_STREAM => Frame::Reset { stream: stream(number()?)?, reason: number()? },
            kind::SETTINGS => {
                let count = number()?;
                let mut settings = Vec::new();
                // The count is untrusted; the payload length limits the loop.
                while settings.len() < count as usize {
                    settings.push((number()?, number()?));
                }
                Frame::Settings(settings)
            }
            kind::PING => Frame::Ping(number()?),
            kind::GOAWAY => Frame::GoAway { last: number()? & STREAM, status: number()? },
            kind::WINDOW_UPDATE => {
                Frame::WindowUpdate { stream: number()? & STREAM, bytes: number()? & STREAM }
            }
            _ => return Ok(None),
        };
        if rest.is_empty() { Ok(Some(frame)) } else { Err(Error::Length(kind)) }
    }
}

fn stream(number: u32) -> Result<u32, Error> {
    match number & STREAM {
        0 => Err(Error::NoStream),
        number => Ok(number),
    }
}

/// Encodes frames.
#[derive(Debug, Default)]
pub struct Encoder {
    deflater: Deflater,
}

impl Encoder {
    /// Appends a frame. Long data is split into several frames.
    pub fn encode(&mut self, frame: &Frame, into: &mut BytesMut) {
        match frame {
            Frame::Data { stream, fin, bytes } => {
                let mut rest = &bytes[..];
                loop {
                    let (piece, after) = rest.split_at(rest.len().min(MOST_DATA_BYTES));
                    into.put_u32(stream & STREAM);
                    let fin = *fin && after.is_empty();
                    into.put_u32(u32::from(fin) << 24 | piece.len() as u32);
                    into.put_slice(piece);
                    rest = after;
                    if rest.is_empty() {
                        break;
                    }
                }
            }
            Frame::SynStream { stream, fin, unidirectional, headers } => {
                let flags = (u8::from(*fin) * FIN) | (u8::from(*unidirectional) * UNIDIRECTIONAL);
                self.with_headers(kind::SYN_STREAM, flags, &[*stream, 0], &[0, 0], headers, into);
            }
            Frame::SynReply { stream, fin, headers } => {
                self.with_headers(kind::SYN_REPLY, u8::from(*fin), &[*stream], &[], headers, into);
            }
            Frame::Headers { stream, fin, headers } => {
                self.with_headers(kind::HEADERS, u8::from(*fin), &[*stream], &[], headers, into);
            }
            Frame::Reset { stream, reason } => control(kind::RST_STREAM, &[*stream, *reason], into),
            Frame::Settings(settings) => {
                let pairs = settings.iter().flat_map(|(flags_and_number, value)| [*flags_and_number, *value]);
                let numbers: Vec<u32> = std::iter::once(settings.len() as u32).chain(pairs).collect();
                control(kind::SETTINGS, &numbers, into);
            }
            Frame::Ping(number) => control(kind::PING, &[*number], into),
            Frame::GoAway { last, status } => control(kind::GOAWAY, &[*last, *status], into),
            Frame::WindowUpdate { stream, bytes } => control(kind::WINDOW_UPDATE, &[*stream, *bytes], into),
        }
    }

    fn with_headers(
        &mut self,
        kind: u16,
        flags: u8,
        numbers: &[u32],
        more: &[u8],
        headers: &HeaderMap,
        into: &mut BytesMut,
    ) {
        let mut block = BytesMut::new();
        self.deflater.block(headers, &mut block);
        head(kind, flags, 4 * numbers.len() + more.len() + block.len(), into);
        for number in numbers {
            into.put_u32(*number);
        }
        into.put_slice(more);
        into.put_slice(&block);
    }
}

fn control(kind: u16, numbers: &[u32], into: &mut BytesMut) {
    head(kind, 0, 4 * numbers.len(), into);
    for number in numbers {
        into.put_u32(*number);
    }
}

fn head(kind: u16, flags: u8, length: usize, into: &mut BytesMut) {
    into.put_u16(CONTROL | VERSION);
    into.put_u16(kind);
    into.put_u32(u32::from(flags) << 24 | length as u32);
}
