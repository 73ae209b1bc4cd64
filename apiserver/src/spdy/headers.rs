//! Header blocks: zlib with a dictionary, and one compression context per direction and session.

use bytes::{Buf as _, BufMut as _, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::dictionary;

/// Maximum number of headers per block. kubectl sends one with exec streams and three with port-forward
/// streams.
pub const MOST_HEADERS: u32 = 64;
/// Maximum uncompressed size of a block in bytes; blocks of kubectl have less than 100.
pub const MOST_BYTES: usize = 16 * 1024;
/// zlib header: deflate, 32 KiB window, preset dictionary.
const ZLIB: [u8; 2] = [0x78, 0xbb];
/// Size of the zlib header and the dictionary ID.
const BEGINNING_BYTES: usize = 6;
/// Bit of the second header byte that announces a dictionary.
const HAS_DICTIONARY: u8 = 0x20;
/// Type of a stored deflate block that is not the last; length and complement follow.
const STORED: u8 = 0;

/// The reason why a block cannot be decoded. Later blocks depend on it and cannot be decoded either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The block does not use the SPDY/3 dictionary.
    #[error("the headers are not compressed with the dictionary of SPDY/3")]
    Dictionary,
    /// The block is not valid zlib.
    #[error("cannot decompress the headers")]
    Deflate,
    /// The block exceeds a limit.
    #[error("more than {MOST_BYTES} bytes or {MOST_HEADERS} headers")]
    TooLong,
    /// The block is truncated or has trailing bytes.
    #[error("the headers are truncated or have trailing bytes")]
    Length,
    /// A name or value contains invalid characters.
    #[error("a header name or value contains invalid characters")]
    Characters,
}

/// Decompresses the blocks of one direction, in order.
#[derive(Debug, Default)]
pub struct Inflater(Option<Decompress>);

impl Inflater {
    /// Decodes the headers of the next block.
    ///
    /// # Errors
    /// If the block is invalid. No later block can then be decoded.
    pub fn headers(&mut self, block: &[u8]) -> Result<HeaderMap, Error> {
        if let Some(context) = &mut self.0 {
            return parse(&inflate(context, block)?);
        }
        let (beginning, block) = block.split_at_checked(BEGINNING_BYTES).ok_or(Error::Length)?;
        let needs = |id: u32| beginning[2..] == id.to_be_bytes();
        if beginning[1] & HAS_DICTIONARY == 0 || !needs(dictionary::ID) {
            return Err(Error::Dictionary);
        }
        // Primes the window with the dictionary, as if it had been sent in a stored block.
        let context = self.0.insert(Decompress::new(false));
        let mut before = BytesMut::new();
        store(&dictionary::dictionary(), &mut before);
        inflate(context, &before)?;
        parse(&inflate(context, block)?)
    }
}

/// Encodes the blocks of one direction, in order.
///
/// Blocks are not compressed: the server sends only empty blocks, and a compressor needs a third of a megabyte per
/// session.
#[derive(Debug, Default)]
pub struct Deflater {
    begun: bool,
}

impl Deflater {
    /// Encodes the next block.
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
        // Go's reader returns buffered data at an empty stored block.
        store(&[], into);
    }
}

/// Writes a stored deflate block.
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
        // A full buffer may mean that more output follows.
        Ok(Status::Ok | Status::BufError) if plain.len() == plain.capacity() => Err(Error::TooLong),
        Ok(Status::Ok | Status::BufError) if is_all => Ok(plain),
        // A finished stream has no next block.
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
        // Several values of a header are separated by NUL.
        for value in text(&mut plain)?.split(|byte| *byte == 0) {
            if headers.len() >= MOST_HEADERS as usize {
                return Err(Error::TooLong);
            }
            headers.append(&name, HeaderValue::from_bytes(value).map_err(|_| Error::Characters)?);
        }
    }
    if plain.is_empty() { Ok(headers) } else { Err(Error::Length) }
}

/// Reads a length-prefixed string.
fn text<'a>(plain: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    let length = plain.try_get_u32().map_err(|_| Error::Length)?;
    let length = usize::try_from(length).map_err(|_| Error::Length)?;
    let (text, rest) = plain.split_at_checked(length).ok_or(Error::Length)?;
    *plain = rest;
    Ok(text)
}
