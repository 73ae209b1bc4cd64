//! `kubelet exec` and `kubelet attach`: connect this terminal to a process in a container over a WebSocket.

use std::convert::Infallible;
use std::io::{IsTerminal as _, stdin};
use std::process::ExitCode;

use ::client::percent_encoded;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, header};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::args::{Attach, Exec, Session};
use super::client::{Client, Error, refused};
use super::pod::ContainerRef;
use super::print::{err, note, out};

/// Subprotocol of the WebSocket. Only version 5 can signal the end of standard input.
pub const PROTOCOL: &str = "v5.channel.k8s.io";
/// A WebSocket over the kubelet's Unix socket.
pub type Socket = WebSocketStream<UnixStream>;
/// Maximum bytes of standard input per message.
const PIECE_BYTES: usize = 32 * 1024;

/// Runs `kubelet exec`.
pub async fn exec(client: &Client, exec: &Exec) -> anyhow::Result<ExitCode> {
    let place = place(client, &exec.session).await?;
    let mut query = String::new();
    for part in &exec.command {
        query.push_str(&format!("&command={}", percent_encoded(part)));
    }
    let streams = StreamOptions { stdin: exec.session.stdin, tty: exec.tty };
    run(client, &place, "exec", &query, streams.with_terminal()).await
}

/// Runs `kubelet attach`.
pub async fn attach(client: &Client, attach: &Attach) -> anyhow::Result<ExitCode> {
    let place = place(client, &attach.session).await?;
    let has_terminal = place.spec.get("tty") == Some(&Value::Bool(true));
    if attach.tty && !has_terminal {
        note(format_args!("Unable to use a TTY - container {} did not allocate one", place.container));
    }
    let streams = StreamOptions { stdin: attach.session.stdin, tty: attach.tty && has_terminal };
    if streams.stdin {
        note("If you don't see a command prompt, try pressing enter.");
    }
    run(client, &place, "attach", "", streams.with_terminal()).await
}

async fn place(client: &Client, with: &Session) -> Result<ContainerRef, Error> {
    ContainerRef::find(client, &with.place.namespace, &with.pod, with.container.as_deref()).await
}

/// The streams that the client requests.
#[derive(Clone, Copy)]
struct StreamOptions {
    stdin: bool,
    tty: bool,
}

impl StreamOptions {
    /// Requests a terminal only if standard input is one.
    fn with_terminal(self) -> Self {
        if self.tty && self.stdin && !is_terminal() {
            note("Unable to use a TTY - input is not a terminal or the right kind of file");
            return Self { tty: false, ..self };
        }
        self
    }
}

async fn run(
    client: &Client,
    place: &ContainerRef,
    part: &str,
    query: &str,
    streams: StreamOptions,
) -> anyhow::Result<ExitCode> {
    let path = format!(
        "{}?container={}&stdin={}&stdout=true&stderr={}&tty={}{query}",
        place.path(part),
        percent_encoded(&place.container),
        streams.stdin,
        // A terminal merges standard output and standard error.
        !streams.tty,
        streams.tty,
    );
    let socket = connect(client, &path, PROTOCOL).await?;
    let raw = if streams.tty { Raw::take() } else { None };
    let ended = run_streams(socket, streams).await;
    drop(raw);
    outcome(&ended?)
}

/// Opens a WebSocket with this subprotocol.
///
/// # Errors
/// An [`Error`] if the connection fails, or the kubelet rejects the request.
pub async fn connect(client: &Client, path: &str, protocol: &'static str) -> anyhow::Result<Socket> {
    let mut request = format!("ws://kubelet{path}").into_client_request()?;
    request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    match tokio_tungstenite::client_async(request, client.connect().await?).await {
        Ok((socket, _)) => Ok(socket),
        Err(WsError::Http(answer)) => {
            let body = answer.body().as_deref().unwrap_or_default();
            Err(refused(answer.status().as_u16(), body).into())
        }
        Err(error) => Err(Error::Broken(error.to_string()).into()),
    }
}

/// Forwards data in both directions until the server reports the exit status.
async fn run_streams(socket: Socket, streams: StreamOptions) -> anyhow::Result<Value> {
    let (sink, stream) = socket.split();
    // Both directions run concurrently: sending must not wait for receiving.
    tokio::select! {
        ended = receive(stream) => ended,
        failed = send_input(sink, streams) => match failed {
            Ok(never) => match never {},
            Err(error) => Err(error),
        },
    }
}

async fn receive(mut stream: SplitStream<Socket>) -> anyhow::Result<Value> {
    while let Some(message) = stream.next().await {
        let bytes = match message {
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Close(_)) => break,
            Ok(_) => continue,
            Err(error) => return Err(Error::Broken(error.to_string()).into()),
        };
        match bytes.split_first() {
            Some((1, rest)) => out(rest)?,
            Some((2, rest)) => err(rest),
            Some((3, rest)) => return Ok(serde_json::from_slice(rest)?),
            _ => {}
        }
    }
    anyhow::bail!("the kubelet closed the connection; check that it is still running")
}

/// Sends standard input and terminal sizes until the connection fails.
async fn send_input(
    mut sink: SplitSink<Socket, Message>,
    streams: StreamOptions,
) -> anyhow::Result<Infallible> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut input = tokio::io::stdin();
    let mut piece = vec![0; PIECE_BYTES];
    let mut reads = streams.stdin;
    if streams.tty {
        sink.send(resize()).await?;
    }
    loop {
        tokio::select! {
            read = input.read(&mut piece), if reads => {
                let length = read?;
                reads = length > 0;
                let frame = if reads { frame(0, &piece[..length]) } else { frame(255, &[0]) };
                sink.send(frame).await?;
            }
            _ = resized.recv() => if streams.tty {
                sink.send(resize()).await?;
            },
        }
    }
}

fn resize() -> Message {
    let (width, height) = terminal_size();
    frame(4, format!(r#"{{"Width":{width},"Height":{height}}}"#).as_bytes())
}

/// A message of a channel.
pub fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut frame = Vec::with_capacity(bytes.len() + 1);
    frame.push(channel);
    frame.extend_from_slice(bytes);
    Message::Binary(Bytes::from(frame))
}

/// The exit code for the server's final `Status`.
pub fn outcome(status: &Value) -> anyhow::Result<ExitCode> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    if text(status.get("status")) == "Success" {
        return Ok(ExitCode::SUCCESS);
    }
    let causes = status.pointer("/details/causes").and_then(Value::as_array);
    let code = causes.into_iter().flatten().find(|cause| text(cause.get("reason")) == "ExitCode");
    match code.and_then(|cause| text(cause.get("message")).parse::<i64>().ok()) {
        Some(code) => {
            note(format_args!("command terminated with exit code {code}"));
            Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1)))
        }
        None => anyhow::bail!("{}", text(status.get("message"))),
    }
}

/// Puts the terminal into raw mode. Dropping this value restores the previous mode.
struct Raw {
    before: Termios,
}

impl Raw {
    /// Enables raw mode on standard input. `None` if standard input is not a terminal.
    fn take() -> Option<Self> {
        if !is_terminal() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// Whether standard input is a terminal.
fn is_terminal() -> bool {
    stdin().is_terminal()
}

/// Width and height of the terminal; 80 by 24 if they are unknown.
fn terminal_size() -> (u16, u16) {
    match tcgetwinsize(stdin()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => (80, 24),
    }
}
