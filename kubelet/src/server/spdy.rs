//! Streams over SPDY, for kubectl before 1.30 and for clients that fall back from WebSocket.

use std::future::pending;
use std::pin::pin;

use apiserver::activity::Activity;
use apiserver::spdy::exec::{Streams, encode_status};
use apiserver::spdy::port_forward::{self, ForwardedConnection, ForwardedConnections};
use apiserver::spdy::{Session, Stream};
use axum::extract::ws::{Message, WebSocket};
use bytes::{Bytes, BytesMut};
use futures_util::sink::unfold;
use futures_util::{StreamExt as _, stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::channels::{Connection, Gone, Process, ProcessOutput, Size};
use super::forward::{Destination, forward_port};
use super::websocket::{WAITING, drain, payloads, resize, send_all};

/// Maximum number of forwarded connections per session. Closed ones count until their port has finished.
const MOST_CONNECTIONS: usize = 256;
/// Maximum bytes that are forwarded at once.
const PIECE: usize = 16 * 1024;
/// Maximum size of a terminal size message in bytes.
const MOST_SIZE_BYTES: usize = 1024;

/// The client's streams of a process.
pub fn process(streams: Streams) -> Process {
    let Streams { session, protocol, stdin, stdout, stderr, resize, error } = streams;
    let outputs = Outputs { stdout, stderr, error, protocol };
    Process {
        stdin: match stdin {
            // Joined with its writer, so that the client's stream closes when input is no longer read.
            Some(stream) => Box::new(tokio::io::join(stream.reader, stream.writer)),
            None => Box::new(tokio::io::empty()),
        },
        sizes: sizes(resize).boxed(),
        output_sink: Box::pin(unfold(outputs, Outputs::send_output)),
        gone: Box::pin(gone(session)),
    }
}

/// Forwards connections until the client disconnects.
pub async fn forward(session: Session, to: Destination) {
    let (mut pairs, mut work) = (ForwardedConnections::new(session), JoinSet::new());
    loop {
        tokio::select! {
            pair = pairs.next() => {
                let Some(ForwardedConnection { port, data, error }) = pair else { return };
                if work.len() >= MOST_CONNECTIONS {
                    // The client gets no error, because an error would end all its other connections.
                    tracing::warn!(port, "{MOST_CONNECTIONS} connections are forwarded by this session; closing a new one");
                    continue;
                }
                let data = Box::new(tokio::io::join(data.reader, data.writer));
                let connection = Connection { port, data, error: Box::new(error.writer) };
                work.spawn(forward_port(connection, to.clone()));
            }
            Some(_) = work.join_next() => {}
        }
    }
}

/// Forwards connections over SPDY that is tunneled through WebSocket messages, as in kubectl 1.31 and later.
pub async fn forward_within(socket: WebSocket, to: Destination) {
    let (near, far) = tokio::io::duplex(PIECE);
    let (mut from, mut into) = tokio::io::split(near);
    let (mut sink, mut messages) = socket.split();
    let (sender, outgoing) = mpsc::channel(WAITING);
    // The SPDY session has its own idle timeout.
    let (activity, idle) = (Activity::begin(), to.idle);
    let incoming = payloads(&mut messages, activity.clone());
    // Each direction owns its half, so that the session notices when either ends.
    let receive = async move {
        let mut incoming = pin!(incoming);
        while let Some(bytes) = incoming.next().await {
            if into.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = into.shutdown().await;
    };
    let send = async move {
        let mut bytes = BytesMut::new();
        while let Ok(1..) = from.read_buf(&mut bytes).await {
            if sender.send(Message::Binary(bytes.split().freeze())).await.is_err() {
                return;
            }
        }
    };
    let within = async {
        tokio::join!(forward(Session::start(far, port_forward::admit, idle), to), receive, send);
        pending().await
    };
    let sent = tokio::select! {
        sent = send_all(&mut sink, outgoing, activity.clone(), idle) => sent,
        never = within => never,
    };
    if sent.is_ok() {
        drain(messages).await;
    }
}

async fn gone(mut session: Session) {
    // Further streams of the client are ignored.
    while session.accept().await.is_some() {}
}

/// Parses terminal sizes from a sequence of JSON objects.
fn sizes(resize: Option<Stream>) -> impl futures_util::Stream<Item = Size> {
    stream::unfold((resize, Vec::new()), |(stream, mut buffer)| async move {
        let mut stream = stream?;
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'}') {
                let object: Vec<u8> = buffer.drain(..=end).collect();
                if let Some(size) = self::resize(&object) {
                    return Some((size, (Some(stream), buffer)));
                }
            } else if buffer.len() > MOST_SIZE_BYTES
                || !matches!(stream.reader.read_buf(&mut buffer).await, Ok(1..))
            {
                return None;
            }
        }
    })
}

/// The output streams of a process session.
struct Outputs {
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    error: Stream,
    protocol: &'static str,
}

impl Outputs {
    async fn send_output(mut self, process_output: ProcessOutput) -> Result<Self, Gone> {
        let (stream, bytes) = match process_output {
            ProcessOutput::Stdout(bytes) => (self.stdout.as_mut(), bytes),
            ProcessOutput::Stderr(bytes) => (self.stderr.as_mut(), bytes),
            ProcessOutput::Ended(status) => {
                (Some(&mut self.error), Bytes::from(encode_status(self.protocol, &status)))
            }
        };
        if let Some(stream) = stream {
            stream.writer.write_all(&bytes).await.map_err(|_| Gone)?;
        }
        Ok(self)
    }
}
