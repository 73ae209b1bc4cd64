//! Exec over SPDY, frame by frame.

use apiserver::spdy::frame::{Decoder, Encoder, Frame};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::bed::{Bed, DEADLINE};

struct Client {
    stream: UnixStream,
    encoder: Encoder,
    decoder: Decoder,
    come: BytesMut,
}

impl Client {
    /// A client with an accepted upgrade.
    async fn upgraded(bed: &Bed, path: &str) -> Self {
        let mut stream = bed.connect().await;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
             X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(tokio::time::timeout(DEADLINE, stream.read_u8()).await.unwrap().unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
        Self { stream, encoder: Encoder::default(), decoder: Decoder::default(), come: BytesMut::new() }
    }

    async fn send(&mut self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        self.encoder.encode(frame, &mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn next(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.decoder.next(&mut self.come).unwrap() {
                return frame;
            }
            let read = tokio::time::timeout(DEADLINE, self.stream.read_buf(&mut self.come)).await;
            assert!(read.unwrap().unwrap() > 0, "the connection ended");
        }
    }

    /// Opens a stream, which is accepted.
    async fn begin(&mut self, stream: u32, kind: &'static str) {
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("streamtype"),
            HeaderValue::from_static(kind),
        )]);
        self.send(&Frame::SynStream { stream, fin: false, unidirectional: false, headers }).await;
        assert!(matches!(self.next().await, Frame::SynReply { stream: taken, .. } if taken == stream));
    }
}

#[tokio::test]
async fn spdy_command_starts_when_all_streams_are_open() {
    let bed = Bed::new().await;
    let path = "/exec/shop/web/c?command=cat&input=1&output=1&error=1";
    let mut client = Client::upgraded(&bed, path).await;
    let has_begun = || bed.fake.calls().iter().any(|call| call.starts_with("exec_start"));
    for (stream, kind) in [(1, "error"), (3, "stdin"), (5, "stdout")] {
        client.begin(stream, kind).await;
        assert!(!has_begun(), "after {kind}");
    }
    client.begin(7, "stderr").await;
    client.send(&Frame::Data { stream: 3, fin: false, bytes: Bytes::from_static(b"heard") }).await;
    assert_eq!(
        client.next().await,
        Frame::Data { stream: 5, fin: false, bytes: Bytes::from_static(b"heard") }
    );
    assert!(has_begun());
}
