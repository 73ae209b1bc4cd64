//! The block of headers that a stream begins with: zlib with a dictionary, one context a direction for a whole session.

use bytes::{Buf as _, BufMut as _, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::dictionary;

/// Headers a block may have; kubectl sends one with a command's stream and three with a forwarded connection's.
pub const MOST_HEADERS: u32 = 64;
/// Bytes a block may have once it is unpacked; kubectl's have less than a hundred.
pub const MOST_BYTES: usize = 16 * 1024;
/// Deflate with a window of 32 KiB, and a dictionary: what a stream of zlib begins with, before the dictionary's id.
const ZLIB: [u8; 2] = [0x78, 0xbb];
/// How a zlib stream begins: two bytes and the id.
const BEGINNING_BYTES: usize = 6;
/// The bit of the second byte that says that there is a dictionary.
const HAS_DICTIONARY: u8 = 0x20;
/// A stored block's type and the bit that there are more; its length, and the length's complement, follow.
const STORED: u8 = 0;

/// Why a block cannot be read; nothing after it can be either, for want of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not begin as zlib with the dictionary of SPDY/3.
    #[error("the headers are not compressed with the dictionary of SPDY/3")]
    Dictionary,
    /// It is not zlib.
    #[error("the headers cannot be unpacked")]
    Deflate,
    /// It is longer than is taken.
    #[error("more than {MOST_BYTES} bytes or {MOST_HEADERS} headers")]
    TooLong,
    /// It ends in the middle of a header, or goes on after the last.
    #[error("the headers are cut short or go on after their end")]
    Length,
    /// A name or value has characters that none has.
    #[error("a header's name or value has characters that it must not have")]
    Characters,
}

/// Unpacks the blocks of one direction, in order.
#[derive(Debug, Default)]
pub struct Inflater(Option<Decompress>);

impl Inflater {
    /// The headers of the next block.
    ///
    /// # Errors
    /// When it cannot be read; then none after it can.
    pub fn headers(&mut self, block: &[u8]) -> Result<HeaderMap, Error> {
        if let Some(context) = &mut self.0 {
            return parse(&inflate(context, block)?);
        }
        let (beginning, block) = block.split_at_checked(BEGINNING_BYTES).ok_or(Error::Length)?;
        let needs = |id: u32| beginning[2..] == id.to_be_bytes();
        if beginning[1] & HAS_DICTIONARY == 0 || !needs(dictionary::ID) {
            return Err(Error::Dictionary);
        }
        // The dictionary is what the window holds at first: it gets there as if it had been sent before.
        let context = self.0.insert(Decompress::new(false));
        let mut before = BytesMut::new();
        store(&dictionary::dictionary(), &mut before);
        inflate(context, &before)?;
        parse(&inflate(context, block)?)
    }
}

/// Packs the blocks of one direction, in order.
///
/// Nothing is made smaller: a server answers with no headers at all, and a packer costs a third of a megabyte a session.
#[derive(Debug, Default)]
pub struct Deflater {
    begun: bool,
}

impl Deflater {
    /// The next block.
    pub fn block(&mut self, headers: &HeaderMap, into: &mut BytesMut) {
        if !self.begun {
            into.put_slice(&ZLIB);
            into.put_u32(dictionary::ID);
            self.begun = true;
        }
        let mut plain = BytesMut::new();
        plain.put_u32(headers.keys_len() as u32);
        for name in headers.keys() {
            let values: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
            for text in [name.as_str().as_bytes(), &values.join(&0)] {
                plain.put_u32(text.len() as u32);
                plain.put_slice(text);
            }
        }
        for piece in plain.chunks(usize::from(u16::MAX)) {
            store(piece, into);
        }
        // An empty block is where Go's reader stops to hand out what it has.
        store(&[], into);
    }
}

/// Writes a stored block of deflate.
fn store(piece: &[u8], into: &mut BytesMut) {
    let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
    into.put_u8(STORED);
    into.put_u16_le(length);
    into.put_u16_le(!length);
    into.put_slice(&piece[..usize::from(length)]);
}

fn inflate(context: &mut Decompress, block: &[u8]) -> Result<Vec<u8>, Error> {
    let mut plain = Vec::with_capacity(MOST_BYTES);
    let before = context.total_in();
    let status = context.decompress_vec(block, &mut plain, FlushDecompress::Sync);
    let is_all = context.total_in() - before == block.len() as u64;
    match status {
        // Full to the brim, it may hold more back.
        Ok(Status::Ok | Status::BufError) if plain.len() == plain.capacity() => Err(Error::TooLong),
        Ok(Status::Ok | Status::BufError) if is_all => Ok(plain),
        // A stream that has ended has no next block.
        Ok(_) | Err(_) => Err(Error::Deflate),
    }
}

fn parse(mut plain: &[u8]) -> Result<HeaderMap, Error> {
    let count = plain.try_get_u32().map_err(|_| Error::Length)?;
    if count > MOST_HEADERS {
        return Err(Error::TooLong);
    }
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        let name = HeaderName::from_bytes(text(&mut plain)?).map_err(|_| Error::Characters)?;
        // Several values of a name stand in one, with a zero between two.
        for value in text(&mut plain)?.split(|byte| *byte == 0) {
            if headers.len() >= MOST_HEADERS as usize {
                return Err(Error::TooLong);
            }
            headers.append(&name, HeaderValue::from_bytes(value).map_err(|_| Error::Characters)?);
        }
    }
    if plain.is_empty() { Ok(headers) } else { Err(Error::Length) }
}

/// A text behind its length.
fn text<'a>(plain: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    let length = plain.try_get_u32().map_err(|_| Error::Length)?;
    let length = usize::try_from(length).map_err(|_| Error::Length)?;
    let (text, rest) = plain.split_at_checked(length).ok_or(Error::Length)?;
    *plain = rest;
    Ok(text)
}
