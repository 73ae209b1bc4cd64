//! Sends one HTTP/1.1 request on a new connection.
//!
//! A thousand probes per second must be cheap: the request is encoded once, and the response is parsed with the parser of
//! hyper, without a full HTTP client.

use httparse::{EMPTY_HEADER, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum bytes of a body that are read; the limit of the stock kubelet.
pub(super) const BODY_LIMIT: usize = 10 * 1024;
/// Maximum size of a response head in bytes.
pub(super) const HEAD_LIMIT: usize = 64 * 1024;
/// Maximum number of headers of a response.
const HEADERS_LIMIT: usize = 128;
/// Initial size of the buffer. Most response heads fit into it.
const HEAD_GUESS: usize = 1024;

/// An HTTP/1 response, as a probe evaluates it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub status: u16,
    /// Value of the `Location` header.
    pub location: Option<String>,
    /// The body, at most its first [`BODY_LIMIT`] bytes.
    pub body: Vec<u8>,
}

/// Sends the request and reads the response, with at most [`BODY_LIMIT`] bytes of its body. It lets the server
/// finish, so that a probe causes no broken-pipe errors in the server's log.
pub(super) async fn send<IO>(mut io: IO, request: &[u8]) -> Result<Answer, String>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    io.write_all(request).await.map_err(|error| format!("write: {}", super::address::io_text(&error)))?;
    io.flush().await.map_err(|error| format!("write: {}", super::address::io_text(&error)))?;
    let mut read = Vec::with_capacity(HEAD_GUESS);
    let mut head = None;
    loop {
        let got = io.read_buf(&mut read).await;
        let got = got.map_err(|error| format!("read: {}", super::address::io_text(&error)))?;
        if head.is_none() {
            head = Head::parse(&mut read)?;
        }
        match &head {
            Some(head) => match head.body(&read, got == 0)? {
                Some(body) => {
                    return Ok(Answer { status: head.status, location: head.location.clone(), body });
                }
                None => continue,
            },
            None if got == 0 => return Err("EOF".to_owned()),
            None if read.len() >= HEAD_LIMIT => {
                return Err(format!("the answer's headers are longer than {HEAD_LIMIT} bytes"));
            }
            None => {}
        }
    }
}

/// Status line and headers of a response.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    location: Option<String>,
    framing: Framing,
}

/// How the length of a body is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClosed,
}

impl Head {
    /// Parses the head, and removes it from the input. `None` if it is incomplete. Informational responses (1xx)
    /// are skipped.
    fn parse(read: &mut Vec<u8>) -> Result<Option<Self>, String> {
        loop {
            let mut headers = [EMPTY_HEADER; HEADERS_LIMIT];
            let mut response = httparse::Response::new(&mut headers);
            let length = match response.parse(read) {
                Ok(Status::Complete(length)) => length,
                Ok(Status::Partial) => return Ok(None),
                Err(error) => return Err(format!("malformed HTTP response: {error}")),
            };
            let status = response.code.unwrap_or_default();
            if (100..200).contains(&status) && status != 101 {
                read.drain(..length);
                continue;
            }
            let head = Self {
                status,
                location: location(response.headers),
                framing: framing(status, response.headers),
            };
            read.drain(..length);
            return Ok(Some(head));
        }
    }

    /// The body. `None` until enough of it has arrived or the connection is closed.
    fn body(&self, read: &[u8], closed: bool) -> Result<Option<Vec<u8>>, String> {
        let cut = |body: &[u8]| body[..body.len().min(BODY_LIMIT)].to_vec();
        match self.framing {
            Framing::Length(length) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if read.len() >= length.min(BODY_LIMIT) {
                    return Ok(Some(cut(&read[..length.min(read.len())])));
                }
            }
            Framing::Chunked => {
                let (body, complete) = unchunk(read)?;
                if complete || body.len() >= BODY_LIMIT || read.len() >= HEAD_LIMIT {
                    return Ok(Some(cut(&body)));
                }
            }
            Framing::UntilClosed => {
                if closed || read.len() >= BODY_LIMIT {
                    return Ok(Some(cut(read)));
                }
                return Ok(None);
            }
        }
        if closed { Err("unexpected EOF".to_owned()) } else { Ok(None) }
    }
}

fn location(headers: &[httparse::Header<'_>]) -> Option<String> {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case("location"))?;
    std::str::from_utf8(header.value).ok().map(str::to_owned)
}

fn framing(status: u16, headers: &[httparse::Header<'_>]) -> Framing {
    if matches!(status, 101 | 204 | 304) {
        return Framing::Length(0);
    }
    let mut length = None;
    for header in headers {
        let Ok(value) = std::str::from_utf8(header.value) else { continue };
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Framing::Chunked;
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        }
    }
    length.map_or(Framing::UntilClosed, Framing::Length)
}

/// Decodes the chunks that were received. Returns true if the last chunk is among them.
fn unchunk(mut read: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let mut body = Vec::new();
    loop {
        let (at, size) = match httparse::parse_chunk_size(read) {
            Ok(Status::Complete(chunk)) => chunk,
            Ok(Status::Partial) => return Ok((body, false)),
            Err(_) => return Err("malformed chunked encoding".to_owned()),
        };
        if size == 0 {
            return Ok((body, true));
        }
        let end = usize::try_from(size).ok().and_then(|size| at.checked_add(size));
        match end.and_then(|end| read.get(at..end).zip(read.get(end..))) {
            Some((chunk, rest)) => {
                body.extend_from_slice(chunk);
                // The line end after a chunk may not have arrived yet.
                match rest.strip_prefix(b"\r\n") {
                    Some(rest) => read = rest,
                    None if rest.len() < 2 => return Ok((body, false)),
                    None => return Err("malformed chunked encoding".to_owned()),
                }
            }
            None => {
                body.extend_from_slice(&read[at..]);
                return Ok((body, false));
            }
        }
    }
}
