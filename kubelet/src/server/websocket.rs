//! Channels over a WebSocket: the first byte of each message says which one it is of.

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

use super::channels::{Gone, Process, Size, Told};

/// The first byte of a message.
mod channel {
    pub const STDIN: u8 = 0;
    pub const STDOUT: u8 = 1;
    pub const STDERR: u8 = 2;
    pub const ERROR: u8 = 3;
    pub const RESIZE: u8 = 4;
    pub const CLOSE: u8 = 255;
}

/// The protocols of processes, the best first. Only the fifth can say that standard input has ended; the first, which
/// conformance tests speak, knows no `Status`.
pub const OF_PROCESSES: [&str; 3] = ["v5.channel.k8s.io", "v4.channel.k8s.io", OLDEST];
const OLDEST: &str = "channel.k8s.io";
/// Messages that wait for whoever reads them, a port or the client: enough to keep both busy.
pub const WAITING: usize = 16;
/// Bytes of standard input that wait to be taken; when they do not fit, nothing more is read of the connection.
const UNREAD_BYTES: usize = 64 * 1024;
/// A client whose bytes nobody takes is asked this often whether it is there.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// How long a client that has been told everything may take to say goodbye, too.
const LINGER: Duration = Duration::from_secs(10);

/// Agrees on one of those protocols.
///
/// # Errors
/// 400 when the client does not speak WebSocket, 403 when it speaks none of them.
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
                    "Upgrade request required: this speaks WebSocket ({}), as kubectl 1.30 and later do, and SPDY/3.1",
                    protocols[0]
                )
            }
            other => format!("Upgrade request required: {other}"),
        };
        Status::bad_request(message)
    })?;
    let upgrade = upgrade.protocols(protocols.iter().copied());
    if upgrade.selected_protocol().is_none() {
        let message = format!("no protocol in common: this speaks {}", protocols.join(" and "));
        return Err(Status::new(StatusCode::FORBIDDEN, "Forbidden", message));
    }
    Ok(upgrade)
}

/// The client's side of a process; it is gone when nothing has come and nothing gone for as long as `idle`, too.
pub fn process(socket: WebSocket, idle: Duration) -> Process {
    let knows_status = socket.protocol().is_none_or(|agreed| agreed.as_bytes() != OLDEST.as_bytes());
    let activity = Activity::begin();
    let (gets, queue) = mpsc::channel(WAITING);
    let (to_stdin, stdin) = tokio::io::duplex(UNREAD_BYTES);
    let (size, sizes) = watch::channel(None);
    let (here, away) = oneshot::channel();
    let heard = Heard { stdin: Some(to_stdin), size, asks: gets.downgrade(), here };
    // Ends when all of it is sent and nobody has more to send.
    tokio::spawn(serve(socket, queue, heard, activity.clone(), idle));
    let gone = async move {
        tokio::select! { _ = away => {}, () = activity.ceased(idle) => {} }
    };
    let told = sink::unfold(gets, move |gets, told| async move {
        if let Some(message) = message(told, knows_status) {
            gets.send(message).await.map_err(|_| Gone)?;
        }
        Ok(gets)
    });
    let sizes = stream::unfold(sizes, |mut sizes| async move {
        sizes.changed().await.ok()?;
        let size: Option<Size> = *sizes.borrow_and_update();
        Some((size, sizes))
    });
    Process {
        stdin: Box::new(stdin),
        sizes: sizes.filter_map(ready).boxed(),
        told: Box::pin(told),
        gone: Box::pin(gone),
    }
}

async fn serve(
    socket: WebSocket,
    told: mpsc::Receiver<Message>,
    heard: Heard,
    activity: Activity,
    idle: Duration,
) {
    let (mut sink, mut messages) = socket.split();
    let hearing = async {
        heard.take(payloads(&mut messages, activity.clone())).await;
        pending().await
    };
    let told = tokio::select! {
        told = tell(&mut sink, told, activity.clone(), idle) => told,
        never = hearing => never,
    };
    if told.is_ok() {
        read_off(messages).await;
    }
}

/// Where it goes what the client of a process says.
struct Heard {
    /// `None` when it has said all of it, or the process takes no more.
    stdin: Option<DuplexStream>,
    size: watch::Sender<Option<Size>>,
    asks: mpsc::WeakSender<Message>,
    /// Goes with the client.
    here: oneshot::Sender<Infallible>,
}

impl Heard {
    /// Takes it until the client goes away.
    async fn take(mut self, messages: impl Stream<Item = Bytes>) {
        let mut messages = pin!(messages);
        while let Some(message) = messages.next().await {
            let Some((number, rest)) = message.split_first() else { continue };
            match *number {
                channel::STDIN => {
                    if let Some(open) = &mut self.stdin {
                        match patiently(open.write_all(rest), &self.asks).await {
                            Ok(Ok(())) => {}
                            // The process takes no more.
                            Ok(Err(_)) => self.stdin = None,
                            Err(Gone) => break,
                        }
                    }
                }
                channel::CLOSE if rest == [channel::STDIN] => self.stdin = None,
                channel::RESIZE => {
                    if let Some(told) = resize(rest) {
                        self.size.send_replace(Some(told));
                    }
                }
                _ => {}
            }
        }
        drop(self.here);
    }
}

/// Waits until something that the client has said is taken, and asks it meanwhile whether it is there: nothing more is read of
/// its connection, so that its end is not seen, and only what is sent to one that is gone comes back as an error.
///
/// # Errors
/// When it is not.
pub async fn patiently<T>(
    taken: impl Future<Output = T>,
    asks: &mpsc::WeakSender<Message>,
) -> Result<T, Gone> {
    let ask = async {
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            let Some(gets) = asks.upgrade() else { return };
            if gets.send(Message::Ping(Bytes::new())).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        taken = taken => Ok(taken),
        () = ask => Err(Gone),
    }
}

/// Sends what there is to send, and goodbye when nothing more comes.
///
/// # Errors
/// When the client is gone, as is one that takes nothing for as long as `idle`.
pub async fn tell(
    sink: &mut (impl Sink<Message> + Unpin),
    mut told: mpsc::Receiver<Message>,
    activity: Activity,
    idle: Duration,
) -> Result<(), Gone> {
    while let Some(message) = told.recv().await {
        // To ask whether it is there is to say nothing.
        let is_said = !matches!(message, Message::Ping(_));
        send(sink, message, idle).await?;
        if is_said {
            activity.moved();
        }
    }
    let goodbye = CloseFrame { code: 1000, reason: "".into() };
    send(sink, Message::Close(Some(goodbye)), idle).await
}

async fn send(sink: &mut (impl Sink<Message> + Unpin), message: Message, idle: Duration) -> Result<(), Gone> {
    let sent = tokio::time::timeout(idle, sink.send(message)).await;
    sent.map_err(|_| Gone)?.map_err(|_| Gone)
}

/// Reads what a client still sends that has been told everything, until it says goodbye, or the kernel would throw away
/// what it has not read yet.
pub async fn read_off(messages: impl Stream<Item = Result<Message, axum::Error>>) {
    let mut messages = pin!(messages);
    let read = async { while let Some(Ok(_)) = messages.next().await {} };
    let _ = tokio::time::timeout(LINGER, read).await;
}

/// What a client says over a WebSocket until it is closed. That it is there, it says unasked or asked, moves nothing.
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
        .inspect(move |_| activity.moved())
}

/// `{"Width":80,"Height":24}`.
pub fn resize(size: &[u8]) -> Option<Size> {
    let size: Value = serde_json::from_slice(size).ok()?;
    let side = |name: &str| u16::try_from(size.get(name)?.as_u64()?).ok();
    Some(Size { width: side("Width")?, height: side("Height")? })
}

fn message(told: Told, knows_status: bool) -> Option<Message> {
    match told {
        Told::Stdout(bytes) => Some(frame(channel::STDOUT, &bytes)),
        Told::Stderr(bytes) => Some(frame(channel::STDERR, &bytes)),
        Told::Ended(status) => {
            let text = match &status {
                status if knows_status => status.to_string(),
                status => status["message"].as_str().unwrap_or_default().to_owned(),
            };
            (!text.is_empty()).then(|| frame(channel::ERROR, text.as_bytes()))
        }
    }
}

/// A message of a channel.
pub fn frame(number: u8, bytes: &[u8]) -> Message {
    let mut frame = BytesMut::with_capacity(bytes.len() + 1);
    frame.put_u8(number);
    frame.extend_from_slice(bytes);
    Message::Binary(frame.freeze())
}
