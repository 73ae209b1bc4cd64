//! Frames of SPDY/3.1 from bytes and to bytes. Pure.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::HeaderMap;

use super::headers::{self, Deflater, Inflater};

/// The version that control frames name: 3.1 differs from 3 only in the windows of whole sessions.
const VERSION: u16 = 3;
/// What every frame begins with: what it is, and how long.
const HEAD_BYTES: usize = 8;
/// The bit that tells control frames from data.
const CONTROL: u16 = 0x8000;
/// The bits of a stream's number.
const STREAM: u32 = 0x7fff_ffff;
/// Payload of a control frame; twice what headers may have unpacked, and settings for which nobody has a use.
pub const MOST_CONTROL_BYTES: usize = 2 * headers::MOST_BYTES;
/// The longest data that a frame can say it has.
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

/// Why a stream is reset, of `RST_STREAM`.
pub mod reason {
    /// It breaks the rules.
    pub const PROTOCOL_ERROR: u32 = 1;
    /// It was not begun with.
    pub const REFUSED: u32 = 3;
    /// It is no longer wanted.
    pub const CANCEL: u32 = 5;
}

/// A frame, or of data a piece of one: whatever has come of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A stream begins.
    SynStream {
        /// Its number: odd when a client begins it.
        stream: u32,
        /// Its sender sends nothing more on it.
        fin: bool,
        /// Its receiver sends nothing on it.
        unidirectional: bool,
        /// What it is for.
        headers: HeaderMap,
    },
    /// A stream is taken.
    SynReply {
        /// Which.
        stream: u32,
        /// Its sender sends nothing on it.
        fin: bool,
        /// What there is to say to that.
        headers: HeaderMap,
    },
    /// A stream ends at once, both ways.
    Reset {
        /// Which.
        stream: u32,
        /// One of [`reason`].
        reason: u32,
    },
    /// What the sender would like: flags and number of a setting, and its value.
    Settings(Vec<(u32, u32)>),
    /// Is somebody there? The answer is the same; numbers of clients are odd.
    Ping(u32),
    /// No more streams are taken.
    GoAway {
        /// The last that was.
        last: u32,
        /// 0 when all is well, 1 when the rules were broken.
        status: u32,
    },
    /// More headers of a stream.
    Headers {
        /// Which.
        stream: u32,
        /// Its sender sends nothing more on it.
        fin: bool,
        /// The headers.
        headers: HeaderMap,
    },
    /// So many more bytes may be sent.
    WindowUpdate {
        /// On which stream, or 0 for all together.
        stream: u32,
        /// How many.
        bytes: u32,
    },
    /// Bytes of a stream.
    Data {
        /// Which.
        stream: u32,
        /// Nothing comes after them.
        fin: bool,
        /// The bytes.
        bytes: Bytes,
    },
}

/// Why bytes are no frames; nothing that follows can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another protocol, or another version.
    #[error("version {0} is not SPDY/3")]
    Version(u16),
    /// Too long a control frame.
    #[error("a control frame of {0} bytes is longer than any that is needed ({MOST_CONTROL_BYTES})")]
    TooLong(usize),
    /// A control frame's length is not that of its kind.
    #[error("a control frame of kind {0} with a length that it cannot have")]
    Length(u16),
    /// What is of a stream names none.
    #[error("a frame of no stream")]
    NoStream,
    /// Headers that cannot be read.
    #[error("{0}")]
    Headers(#[from] headers::Error),
}

/// Data of which a part is still to come.
#[derive(Debug)]
struct Begun {
    stream: u32,
    fin: bool,
    left: usize,
}

/// Reads frames.
#[derive(Debug, Default)]
pub struct Decoder {
    inflater: Inflater,
    begun: Option<Begun>,
}

impl Decoder {
    /// Takes the next frame from what has come, or nothing when more has to come first.
    ///
    /// Data is handed out as it comes, so that a long frame needs no room; frames of an unknown kind are passed over.
    ///
    /// # Errors
    /// When it is no frame; then nothing after it can be read.
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
                self.begun = Some(Begun { stream, fin: flags & FIN != 0, left: length });
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

    fn data(&mut self, begun: Begun, come: &mut BytesMut) -> Option<Frame> {
        let Begun { stream, fin, left } = begun;
        let bytes = come.split_to(left.min(come.len())).freeze();
        let left = left - bytes.len();
        if left > 0 {
            self.begun = Some(Begun { stream, fin, left });
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
                // The stream it goes with, its priority and its slot do not matter here.
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
                // Not by the count, which may be anything: by what is there.
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

/// Writes frames.
#[derive(Debug, Default)]
pub struct Encoder {
    deflater: Deflater,
}

impl Encoder {
    /// Appends a frame; data that is too long for one becomes several.
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
