//! Channels over SPDY, each a stream: what kubectl before 1.30 speaks, and later ones when a WebSocket is refused.

use std::future::pending;
use std::pin::pin;

use apiserver::activity::Activity;
use apiserver::spdy::pairs::{self, Pair, Pairs};
use apiserver::spdy::remote::{Streams, told};
use apiserver::spdy::{Session, Stream};
use axum::extract::ws::{Message, WebSocket};
use bytes::{Bytes, BytesMut};
use futures_util::sink::unfold;
use futures_util::{StreamExt as _, stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::channels::{Connection, Gone, Process, Size, Told};
use super::forward::{To, carry};
use super::websocket::{WAITING, payloads, read_off, resize, tell};

/// Connections to ports of one session, those among them whose client has gone and whose port has not ended.
const MOST_CONNECTIONS: usize = 256;
/// Bytes that are handed on at once.
const PIECE: usize = 16 * 1024;
/// The longest that a size of a terminal is told in.
const MOST_SIZE_BYTES: usize = 1024;

/// The client's side of a process.
pub fn process(streams: Streams) -> Process {
    let Streams { session, protocol, stdin, stdout, stderr, resize, error } = streams;
    let outputs = Outputs { stdout, stderr, error, protocol };
    Process {
        stdin: match stdin {
            // Whole: its other direction ends when no more input is taken, which is how a client learns that.
            Some(stream) => Box::new(tokio::io::join(stream.reader, stream.writer)),
            None => Box::new(tokio::io::empty()),
        },
        sizes: sizes(resize).boxed(),
        told: Box::pin(unfold(outputs, Outputs::tell)),
        gone: Box::pin(gone(session)),
    }
}

/// Forwards connections until the client is gone.
pub async fn forward(session: Session, to: To) {
    let (mut pairs, mut work) = (Pairs::new(session), JoinSet::new());
    loop {
        tokio::select! {
            pair = pairs.next() => {
                let Some(Pair { port, data, error }) = pair else { return };
                if work.len() >= MOST_CONNECTIONS {
                    // Without a word to the client, which would end all the others because of it.
                    tracing::warn!(port, "{MOST_CONNECTIONS} connections are forwarded by one session already; one more is closed");
                    continue;
                }
                let data = Box::new(tokio::io::join(data.reader, data.writer));
                let connection = Connection { port, data, error: Box::new(error.writer) };
                work.spawn(carry(connection, to.clone()));
            }
            Some(_) = work.join_next() => {}
        }
    }
}

/// The same where the bytes of SPDY are in the messages of a WebSocket, as kubectl wraps them since 1.31.
pub async fn forward_within(socket: WebSocket, to: To) {
    let (near, far) = tokio::io::duplex(PIECE);
    let (mut from, mut into) = tokio::io::split(near);
    let (mut sink, mut messages) = socket.split();
    let (gets, told) = mpsc::channel(WAITING);
    // The session within knows itself when nothing moves.
    let (activity, idle) = (Activity::begin(), to.idle);
    let heard = payloads(&mut messages, activity.clone());
    // Each owns its half: whichever ends, the session sees that the client is gone.
    let come = async move {
        let mut heard = pin!(heard);
        while let Some(bytes) = heard.next().await {
            if into.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = into.shutdown().await;
    };
    let go = async move {
        let mut bytes = BytesMut::new();
        while let Ok(1..) = from.read_buf(&mut bytes).await {
            if gets.send(Message::Binary(bytes.split().freeze())).await.is_err() {
                return;
            }
        }
    };
    let within = async {
        tokio::join!(forward(Session::start(far, pairs::admit, idle), to), come, go);
        pending().await
    };
    let told = tokio::select! {
        told = tell(&mut sink, told, activity.clone(), idle) => told,
        never = within => never,
    };
    if told.is_ok() {
        read_off(messages).await;
    }
}

async fn gone(mut session: Session) {
    // Whatever else it begins is not one of the process's.
    while session.accept().await.is_some() {}
}

/// Sizes of a terminal, one JSON object after the other.
fn sizes(resize: Option<Stream>) -> impl futures_util::Stream<Item = Size> {
    stream::unfold((resize, Vec::new()), |(stream, mut come)| async move {
        let mut stream = stream?;
        loop {
            if let Some(end) = come.iter().position(|byte| *byte == b'}') {
                let object: Vec<u8> = come.drain(..=end).collect();
                if let Some(size) = self::resize(&object) {
                    return Some((size, (Some(stream), come)));
                }
            } else if come.len() > MOST_SIZE_BYTES
                || !matches!(stream.reader.read_buf(&mut come).await, Ok(1..))
            {
                return None;
            }
        }
    })
}

/// Where a client is told of a process.
struct Outputs {
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    error: Stream,
    protocol: &'static str,
}

impl Outputs {
    async fn tell(mut self, said: Told) -> Result<Self, Gone> {
        let (stream, bytes) = match said {
            Told::Stdout(bytes) => (self.stdout.as_mut(), bytes),
            Told::Stderr(bytes) => (self.stderr.as_mut(), bytes),
            Told::Ended(status) => (Some(&mut self.error), Bytes::from(told(self.protocol, &status))),
        };
        if let Some(stream) = stream {
            stream.writer.write_all(&bytes).await.map_err(|_| Gone)?;
        }
        Ok(self)
    }
}
