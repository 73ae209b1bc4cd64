//! `kubelet exec` and `kubelet attach`: this terminal on one end, a process in a container on the other.

use std::convert::Infallible;
use std::process::ExitCode;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, header};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::args::{Attach, Exec, Session};
use super::client::{Client, Error, escape, refused};
use super::pod::Place;
use super::print::{err, out, say};
use super::terminal::{self, Raw};

/// The protocol: the one that can say that standard input has ended.
const PROTOCOL: &str = "v5.channel.k8s.io";
/// A connection that speaks it.
type Socket = WebSocketStream<UnixStream>;
/// Standard input is sent in pieces of at most this.
const PIECE_BYTES: usize = 32 * 1024;

/// Runs a command.
pub async fn exec(client: &Client, exec: &Exec) -> anyhow::Result<ExitCode> {
    let place = place(client, &exec.session).await?;
    let mut query = String::new();
    for part in &exec.command {
        query.push_str(&format!("&command={}", escape(part)));
    }
    let wish = Wish { stdin: exec.session.stdin, tty: exec.tty };
    run(client, &place, "exec", &query, wish.with_terminal()).await
}

/// Attaches to the container's first process.
pub async fn attach(client: &Client, attach: &Attach) -> anyhow::Result<ExitCode> {
    let place = place(client, &attach.session).await?;
    let has_terminal = place.spec.get("tty") == Some(&Value::Bool(true));
    if attach.tty && !has_terminal {
        say(format_args!("Unable to use a TTY - container {} did not allocate one", place.container));
    }
    let wish = Wish { stdin: attach.session.stdin, tty: attach.tty && has_terminal };
    if wish.stdin {
        say("If you don't see a command prompt, try pressing enter.");
    }
    run(client, &place, "attach", "", wish.with_terminal()).await
}

async fn place(client: &Client, with: &Session) -> Result<Place, Error> {
    Place::find(client, &with.place.namespace, &with.pod, with.container.as_deref()).await
}

/// What of this end is to be passed on.
#[derive(Clone, Copy)]
struct Wish {
    stdin: bool,
    tty: bool,
}

impl Wish {
    /// Without a terminal here there is none to give.
    fn with_terminal(self) -> Self {
        if self.tty && self.stdin && !terminal::is_there() {
            say("Unable to use a TTY - input is not a terminal or the right kind of file");
            return Self { tty: false, ..self };
        }
        self
    }
}

async fn run(
    client: &Client,
    place: &Place,
    part: &str,
    query: &str,
    wish: Wish,
) -> anyhow::Result<ExitCode> {
    let path = format!(
        "{}?container={}&stdin={}&stdout=true&stderr={}&tty={}{query}",
        place.path(part),
        escape(&place.container),
        wish.stdin,
        // A terminal has one stream for both.
        !wish.tty,
        wish.tty,
    );
    let socket = connect(client, &path).await?;
    let raw = if wish.tty { Raw::take() } else { None };
    let ended = talk(socket, wish).await;
    drop(raw);
    outcome(&ended?)
}

async fn connect(client: &Client, path: &str) -> anyhow::Result<Socket> {
    let mut request = format!("ws://kubelet{path}").into_client_request()?;
    request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    match tokio_tungstenite::client_async(request, client.connect().await?).await {
        Ok((socket, _)) => Ok(socket),
        Err(WsError::Http(answer)) => {
            let body = answer.body().as_deref().unwrap_or_default();
            Err(refused(answer.status().as_u16(), body).into())
        }
        Err(error) => Err(Error::Broken(error.to_string()).into()),
    }
}

/// Passes everything both ways until the other side says how it ended.
async fn talk(socket: Socket, wish: Wish) -> anyhow::Result<Value> {
    let (sink, stream) = socket.split();
    // Side by side: what is written here must not wait for what is read there.
    tokio::select! {
        ended = receive(stream) => ended,
        failed = pass_on(sink, wish) => match failed {
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
    anyhow::bail!("the kubelet closed the connection: does it still run?")
}

/// Sends standard input and the size of the terminal, for as long as there is another side.
async fn pass_on(mut sink: SplitSink<Socket, Message>, wish: Wish) -> anyhow::Result<Infallible> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut input = tokio::io::stdin();
    let mut piece = vec![0; PIECE_BYTES];
    let mut reads = wish.stdin;
    if wish.tty {
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
            _ = resized.recv() => if wish.tty {
                sink.send(resize()).await?;
            },
        }
    }
}

fn resize() -> Message {
    let (width, height) = terminal::size();
    frame(4, format!(r#"{{"Width":{width},"Height":{height}}}"#).as_bytes())
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut frame = Vec::with_capacity(bytes.len() + 1);
    frame.push(channel);
    frame.extend_from_slice(bytes);
    Message::Binary(Bytes::from(frame))
}

/// The exit code that the other side's status means.
fn outcome(status: &Value) -> anyhow::Result<ExitCode> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    if text(status.get("status")) == "Success" {
        return Ok(ExitCode::SUCCESS);
    }
    let causes = status.pointer("/details/causes").and_then(Value::as_array);
    let code = causes.into_iter().flatten().find(|cause| text(cause.get("reason")) == "ExitCode");
    match code.and_then(|cause| text(cause.get("message")).parse::<i64>().ok()) {
        Some(code) => {
            say(format_args!("command terminated with exit code {code}"));
            Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1)))
        }
        None => anyhow::bail!("{}", text(status.get("message"))),
    }
}
