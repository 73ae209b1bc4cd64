//! The other end of a session.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::spdy::frame::{Decoder, Encoder, Frame};
use crate::spdy::{Admit, Session, Stream};

/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long a session goes on in which nothing happens.
pub const IDLE: Duration = Duration::from_secs(4 * 60 * 60);

pub struct Client {
    io: DuplexStream,
    encoder: Encoder,
    decoder: Decoder,
    come: BytesMut,
}

pub fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

pub fn data(stream: u32, bytes: &[u8], fin: bool) -> Frame {
    Frame::Data { stream, fin, bytes: Bytes::copy_from_slice(bytes) }
}

impl Client {
    /// A client and the session that it talks to.
    pub fn new(admit: Admit) -> (Self, Session) {
        let (io, served) = tokio::io::duplex(64 * 1024);
        let client =
            Self { io, encoder: Encoder::default(), decoder: Decoder::default(), come: BytesMut::new() };
        (client, Session::start(served, admit, IDLE))
    }

    pub async fn send(&mut self, frame: Frame) {
        let mut bytes = BytesMut::new();
        self.encoder.encode(&frame, &mut bytes);
        self.send_bytes(&bytes).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
    }

    /// The next frame; `None` when the server has closed the connection. Settings that set nothing, by which a server
    /// finds out whether anybody is there (at any moment in which its way is blocked), are passed over as clients do.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            match self.decoder.next(&mut self.come).unwrap() {
                Some(Frame::Settings(settings)) if settings.is_empty() => continue,
                Some(frame) => return Some(frame),
                None => {}
            }
            let read = tokio::time::timeout(DEADLINE, self.io.read_buf(&mut self.come)).await;
            if read.unwrap().unwrap() == 0 {
                return None;
            }
        }
    }

    /// Asks for a stream.
    pub async fn ask(&mut self, stream: u32, pairs: &[(&str, &str)]) {
        let headers = headers(pairs);
        self.send(Frame::SynStream { stream, fin: false, unidirectional: false, headers }).await;
    }

    /// Begins a stream, which is taken.
    pub async fn begin(&mut self, session: &mut Session, stream: u32, pairs: &[(&str, &str)]) -> Stream {
        self.ask(stream, pairs).await;
        let taken = session.accept().await.unwrap();
        assert_eq!((taken.id, &taken.headers), (stream, &headers(pairs)));
        assert_eq!(
            self.next().await,
            Some(Frame::SynReply { stream, fin: false, headers: HeaderMap::new() })
        );
        taken
    }

    /// All bytes of a stream until the server says that this was all; other streams must be silent.
    pub async fn rest(&mut self, wanted: u32) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Some(Frame::Data { stream, fin, bytes }) if stream == wanted => {
                    all.extend_from_slice(&bytes);
                    if fin {
                        return all;
                    }
                }
                other => panic!("{other:?} after {} bytes", all.len()),
            }
        }
    }
}
