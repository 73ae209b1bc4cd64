//! A SPDY client.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::spdy::frame::{Decoder, Encoder, Frame};
use crate::spdy::{Admit, Session, Stream};

/// Time limit of an operation.
const DEADLINE: Duration = Duration::from_secs(20);
/// Idle timeout of the session.
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
    /// A client and its session.
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

    /// The next frame, or `None` when the connection is closed. Skips empty SETTINGS, with which the server probes
    /// the client while its output is blocked.
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

    /// Opens a stream.
    pub async fn send_request(&mut self, stream: u32, pairs: &[(&str, &str)]) {
        let headers = headers(pairs);
        self.send(Frame::SynStream { stream, fin: false, unidirectional: false, headers }).await;
    }

    /// Opens a stream that the server accepts.
    pub async fn begin(&mut self, session: &mut Session, stream: u32, pairs: &[(&str, &str)]) -> Stream {
        self.send_request(stream, pairs).await;
        let taken = session.accept().await.unwrap();
        assert_eq!((taken.id, &taken.headers), (stream, &headers(pairs)));
        assert_eq!(
            self.next().await,
            Some(Frame::SynReply { stream, fin: false, headers: HeaderMap::new() })
        );
        taken
    }

    /// All data of a stream until its end; other streams must be silent.
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
