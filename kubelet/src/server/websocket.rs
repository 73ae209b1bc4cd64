//! Streams over a WebSocket. The first byte of each message is the channel number.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::pin;
use std::time::Duration;

use apiserver::Status;
use apiserver::activity::Activity;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, rejection};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _, sink, stream};
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::{mpsc, oneshot, watch};

use super::channels::{Gone, Process, ProcessOutput, Size};

/// Channel numbers.
mod channel {
    pub const STDIN: u8 = 0;
    pub const STDOUT: u8 = 1;
    pub const STDERR: u8 = 2;
    pub const ERROR: u8 = 3;
    pub const RESIZE: u8 = 4;
    pub const CLOSE: u8 = 255;
}

/// Subprotocols for processes, by preference. Only version 5 can signal the end of standard input. The oldest one
/// has no `Status`; conformance tests use it.
pub const OF_PROCESSES: [&str; 3] = ["v5.channel.k8s.io", "v4.channel.k8s.io", OLDEST];
const OLDEST: &str = "channel.k8s.io";
/// Capacity of message queues. It is large enough to keep both sides busy.
pub const WAITING: usize = 16;
/// Buffer for standard input in bytes. While it is full, the connection is not read.
const UNREAD_BYTES: usize = 64 * 1024;
/// How often a client is pinged while its input is not being read.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long to wait for the client's close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Negotiates a subprotocol.
///
/// # Errors
/// 400 if the request is not a WebSocket upgrade, 403 if no subprotocol matches.
pub async fn upgrade(
    parts: &mut Parts,
    protocols: &'static [&'static str],
) -> Result<WebSocketUpgrade, Status> {
    let upgrade = WebSocketUpgrade::from_request_parts(parts, &()).await.map_err(|error| {
        let message = match error {
            rejection::WebSocketUpgradeRejection::MethodNotGet(_)
            | rejection::WebSocketUpgradeRejection::InvalidUpgradeHeader(_)
            | rejection::WebSocketUpgradeRejection::InvalidConnectionHeader(_) => {
                format!(
                    "Upgrade request required: this endpoint supports WebSocket ({}), as kubectl 1.30 and later do, and SPDY/3.1",
                    protocols[0]
                )
            }
            other => format!("Upgrade request required: {other}"),
        };
        Status::bad_request(message)
    })?;
    let upgrade = upgrade.protocols(protocols.iter().copied());
    if upgrade.selected_protocol().is_none() {
        let message = format!("no common protocol: this endpoint supports {}", protocols.join(" and "));
        return Err(Status::new(StatusCode::FORBIDDEN, "Forbidden", message));
    }
    Ok(upgrade)
}

/// Returns the client's streams of a process, and the connection. The caller runs the connection beside the
/// process. A connection without data in either direction for `idle` counts as disconnected.
pub fn process(socket: WebSocket, idle: Duration) -> (Process, impl Future<Output = ()> + Send) {
    let knows_status = socket.protocol().is_none_or(|agreed| agreed.as_bytes() != OLDEST.as_bytes());
    let activity = Activity::begin();
    let (sender, queue) = mpsc::channel(WAITING);
    let (to_stdin, stdin) = tokio::io::duplex(UNREAD_BYTES);
    let (size, sizes) = watch::channel(None);
    let (connected, disconnected) = oneshot::channel();
    let incoming = ClientMessages { stdin: Some(to_stdin), size, ping_sender: sender.downgrade(), connected };
    // It ends when all senders are dropped and the queue is sent.
    let connection = serve(socket, queue, incoming, activity.clone(), idle);
    let gone = async move {
        tokio::select! { _ = disconnected => {}, () = activity.idle_for(idle) => {} }
    };
    let outgoing = sink::unfold(sender, move |sender, outgoing| async move {
        if let Some(message) = message(outgoing, knows_status) {
            sender.send(message).await.map_err(|_| Gone)?;
        }
        Ok(sender)
    });
    let sizes = stream::unfold(sizes, |mut sizes| async move {
        sizes.changed().await.ok()?;
        let size: Option<Size> = *sizes.borrow_and_update();
        Some((size, sizes))
    });
    let process = Process {
        stdin: Box::new(stdin),
        sizes: sizes.filter_map(ready).boxed(),
        output_sink: Box::pin(outgoing),
        gone: Box::pin(gone),
    };
    (process, connection)
}

async fn serve(
    socket: WebSocket,
    outgoing: mpsc::Receiver<Message>,
    incoming: ClientMessages,
    activity: Activity,
    idle: Duration,
) {
    let (mut sink, mut messages) = socket.split();
    let receiving = async {
        incoming.take(payloads(&mut messages, activity.clone())).await;
        pending().await
    };
    let sent = tokio::select! {
        sent = send_all(&mut sink, outgoing, activity.clone(), idle) => sent,
        never = receiving => never,
    };
    if sent.is_ok() {
        drain(messages).await;
    }
}

/// Receivers of the client's messages for a process.
struct ClientMessages {
    /// Standard input of the process. `None` after its end, or if the process no longer reads.
    stdin: Option<DuplexStream>,
    size: watch::Sender<Option<Size>>,
    ping_sender: mpsc::WeakSender<Message>,
    /// A sender that is dropped when the client disconnects.
    connected: oneshot::Sender<Infallible>,
}

impl ClientMessages {
    /// Handles messages until the client disconnects.
    async fn take(mut self, messages: impl Stream<Item = Bytes>) {
        let mut messages = pin!(messages);
        while let Some(message) = messages.next().await {
            let Some((number, rest)) = message.split_first() else { continue };
            match *number {
                channel::STDIN => {
                    if let Some(open) = &mut self.stdin {
                        match with_liveness_pings(open.write_all(rest), &self.ping_sender).await {
                            Ok(Ok(())) => {}
                            // The process no longer reads its input.
                            Ok(Err(_)) => self.stdin = None,
                            Err(Gone) => break,
                        }
                    }
                }
                channel::CLOSE if rest == [channel::STDIN] => self.stdin = None,
                channel::RESIZE => {
                    if let Some(size) = resize(rest) {
                        self.size.send_replace(Some(size));
                    }
                }
                _ => {}
            }
        }
        drop(self.connected);
    }
}

/// Waits for `taken` and sends pings meanwhile. The connection is not being read, so only a failing ping shows its
/// end.
///
/// # Errors
/// If the client has disconnected.
pub async fn with_liveness_pings<T>(
    taken: impl Future<Output = T>,
    ping_sender: &mpsc::WeakSender<Message>,
) -> Result<T, Gone> {
    let pings = async {
        loop {
            tokio::time::sleep(PING_INTERVAL).await;
            let Some(sender) = ping_sender.upgrade() else { return };
            if sender.send(Message::Ping(Bytes::new())).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        taken = taken => Ok(taken),
        () = pings => Err(Gone),
    }
}

/// Sends all queued messages, then a close frame.
///
/// # Errors
/// If the client has disconnected, or accepts no data for `idle`.
pub async fn send_all(
    sink: &mut (impl Sink<Message> + Unpin),
    mut outgoing: mpsc::Receiver<Message>,
    activity: Activity,
    idle: Duration,
) -> Result<(), Gone> {
    while let Some(message) = outgoing.recv().await {
        // A ping does not count as activity.
        let is_data = !matches!(message, Message::Ping(_));
        send(sink, message, idle).await?;
        if is_data {
            activity.touch();
        }
    }
    let goodbye = CloseFrame { code: 1000, reason: "".into() };
    send(sink, Message::Close(Some(goodbye)), idle).await
}

async fn send(sink: &mut (impl Sink<Message> + Unpin), message: Message, idle: Duration) -> Result<(), Gone> {
    let sent = tokio::time::timeout(idle, sink.send(message)).await;
    sent.map_err(|_| Gone)?.map_err(|_| Gone)
}

/// Reads remaining messages until the client's close frame. Otherwise the kernel would discard data that the client
/// has not read yet.
pub async fn drain(messages: impl Stream<Item = Result<Message, axum::Error>>) {
    let mut messages = pin!(messages);
    let read = async { while let Some(Ok(_)) = messages.next().await {} };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, read).await;
}

/// The payloads of a client's messages until it closes the connection. Pings and pongs do not count as activity.
pub fn payloads(
    messages: impl Stream<Item = Result<Message, axum::Error>>,
    activity: Activity,
) -> impl Stream<Item = Bytes> {
    messages
        .take_while(|message| ready(!matches!(message, Err(_) | Ok(Message::Close(_)))))
        .filter_map(|message| {
            ready(match message {
                Ok(Message::Binary(bytes)) => Some(bytes),
                Ok(Message::Text(text)) => Some(text.into()),
                _ => None,
            })
        })
        .inspect(move |_| activity.touch())
}

/// Parses a terminal size such as `{"Width":80,"Height":24}`.
pub fn resize(size: &[u8]) -> Option<Size> {
    let size: Value = serde_json::from_slice(size).ok()?;
    let side = |name: &str| u16::try_from(size.get(name)?.as_u64()?).ok();
    Some(Size { width: side("Width")?, height: side("Height")? })
}

fn message(outgoing: ProcessOutput, knows_status: bool) -> Option<Message> {
    match outgoing {
        ProcessOutput::Stdout(bytes) => Some(frame(channel::STDOUT, &bytes)),
        ProcessOutput::Stderr(bytes) => Some(frame(channel::STDERR, &bytes)),
        ProcessOutput::Ended(status) => {
            let text = match &status {
                status if knows_status => status.to_string(),
                status => status["message"].as_str().unwrap_or_default().to_owned(),
            };
            (!text.is_empty()).then(|| frame(channel::ERROR, text.as_bytes()))
        }
    }
}

/// Creates a message on a channel.
pub fn frame(number: u8, bytes: &[u8]) -> Message {
    let mut frame = BytesMut::with_capacity(bytes.len() + 1);
    frame.put_u8(number);
    frame.extend_from_slice(bytes);
    Message::Binary(frame.freeze())
}
