//! Channels over a WebSocket: the first byte of each message says which one it is of.

use std::future::ready;

use apiserver::Status;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, rejection};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _, stream};
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;

use super::channels::{Gone, Process, Said, Told};

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

/// The client's side of a process.
pub fn process(socket: WebSocket) -> Process {
    let knows_status = socket.protocol().is_none_or(|agreed| agreed.as_bytes() != OLDEST.as_bytes());
    let (sink, stream) = socket.split();
    let told = sink
        .sink_map_err(|_| Gone)
        .with_flat_map(move |told| stream::iter(messages(told, knows_status).into_iter().map(Ok)));
    let said = payloads(stream).filter_map(|message| ready(said(&message)));
    Process { said: said.boxed(), told: Box::pin(told) }
}

/// What comes of a WebSocket until it is closed.
pub fn payloads(
    messages: impl futures_util::Stream<Item = Result<Message, axum::Error>>,
) -> impl futures_util::Stream<Item = Bytes> {
    messages.take_while(|message| ready(!matches!(message, Err(_) | Ok(Message::Close(_))))).filter_map(
        |message| {
            ready(match message {
                Ok(Message::Binary(bytes)) => Some(bytes),
                Ok(Message::Text(text)) => Some(text.into()),
                _ => None,
            })
        },
    )
}

/// What a message says; nothing where it makes no sense.
fn said(message: &Bytes) -> Option<Said> {
    let (number, rest) = message.split_first()?;
    match *number {
        channel::STDIN => Some(Said::Input(message.slice(1..))),
        channel::CLOSE if rest == [channel::STDIN] => Some(Said::InputEnded),
        channel::RESIZE => resize(rest),
        _ => None,
    }
}

/// `{"Width":80,"Height":24}`.
pub fn resize(size: &[u8]) -> Option<Said> {
    let size: Value = serde_json::from_slice(size).ok()?;
    let side = |name: &str| u16::try_from(size.get(name)?.as_u64()?).ok();
    Some(Said::Resize { width: side("Width")?, height: side("Height")? })
}

fn messages(told: Told, knows_status: bool) -> Vec<Message> {
    match told {
        Told::Stdout(bytes) => vec![frame(channel::STDOUT, &bytes)],
        Told::Stderr(bytes) => vec![frame(channel::STDERR, &bytes)],
        Told::Ended(status) => {
            let text = match &status {
                status if knows_status => status.to_string(),
                status => status["message"].as_str().unwrap_or_default().to_owned(),
            };
            let status = (!text.is_empty()).then(|| frame(channel::ERROR, text.as_bytes()));
            status.into_iter().chain([closing()]).collect()
        }
    }
}

/// The last message of a session that went as it should.
pub fn closing() -> Message {
    Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }))
}

/// A message of a channel.
pub fn frame(number: u8, bytes: &[u8]) -> Message {
    let mut frame = BytesMut::with_capacity(bytes.len() + 1);
    frame.put_u8(number);
    frame.extend_from_slice(bytes);
    Message::Binary(frame.freeze())
}
