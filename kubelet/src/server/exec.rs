//! Commands in containers, and containers' own streams, over WebSocket: channels as kubectl speaks them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Status;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, rejection};
use axum::extract::{FromRequestParts as _, Path, Query, State};
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::Context;
use super::container::ShownPod;
use super::logs::{Pairs, refused};
use crate::runtime::{ExecRequest, ExecSession, Runtime, Stream};

/// The protocols spoken, the best first. Only the fifth can say that standard input has ended.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// How long an ended command may take to have an exit code.
const EXIT_CODE_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks for it: the engine learns it a moment after the streams have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The first byte of a frame.
mod channel {
    pub const STDIN: u8 = 0;
    pub const STDOUT: u8 = 1;
    pub const STDERR: u8 = 2;
    pub const ERROR: u8 = 3;
    pub const RESIZE: u8 = 4;
    pub const CLOSE: u8 = 255;
}

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq)]
struct Asked {
    container: Option<String>,
    command: Vec<String>,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

/// Which container a path names: `.../pods/{name}/exec`, or `/exec/{namespace}/{pod}/{container}` and the like.
#[derive(Debug, Deserialize)]
pub struct Target {
    namespace: String,
    #[serde(alias = "name")]
    pod: String,
    container: Option<String>,
}

/// Runs a command in a container.
pub async fn exec(
    State(context): State<Context>,
    Path(target): Path<Target>,
    Query(query): Query<Pairs>,
    mut parts: Parts,
) -> Result<Response, Status> {
    let (asked, shown, container) = target.find(&context, &query)?;
    if asked.command.is_empty() {
        return Err(Status::bad_request("you must specify at least one command for the container"));
    }
    asked.check()?;
    let id = shown.running(&container)?;
    let upgrade = upgrade(&mut parts).await?;
    let request = ExecRequest { command: asked.command.clone(), stdin: asked.stdin, tty: asked.tty };
    let session = context.runtime.exec_start(&id, &request).await.map_err(refused)?;
    let call = Call { runtime: context.runtime, resizes: Resizes::Session(session.id.clone()), asked };
    Ok(upgrade.on_upgrade(move |socket| call.run(socket, session)))
}

/// Attaches to a container's own streams.
pub async fn attach(
    State(context): State<Context>,
    Path(target): Path<Target>,
    Query(query): Query<Pairs>,
    mut parts: Parts,
) -> Result<Response, Status> {
    let (asked, shown, container) = target.find(&context, &query)?;
    asked.check()?;
    let id = shown.running(&container)?;
    let is = |field: &str| shown.spec(&container, field) == Some(&Value::Bool(true));
    if asked.stdin && !is("stdin") {
        let message =
            format!("container \"{container}\" takes no input: its manifest does not say `stdin: true`");
        return Err(Status::bad_request(message));
    }
    let upgrade = upgrade(&mut parts).await?;
    let session = context.runtime.attach(&id, asked.stdin).await.map_err(refused)?;
    let call = Call { runtime: context.runtime, resizes: Resizes::Container(id), asked };
    Ok(upgrade.on_upgrade(move |socket| call.run(socket, session)))
}

impl Target {
    /// What is asked for, the pod, and its container: that of the path, else the one asked for or the only one.
    fn find(self, context: &Context, query: &Pairs) -> Result<(Asked, ShownPod, String), Status> {
        let asked = Asked::read(query);
        let shown = ShownPod::find(context.board.store(), &self.namespace, &self.pod)?;
        let container = shown.choose(self.container.as_deref().or(asked.container.as_deref()))?;
        Ok((asked, shown, container))
    }
}

/// Agrees on a protocol.
async fn upgrade(parts: &mut Parts) -> Result<WebSocketUpgrade, Status> {
    let upgrade = WebSocketUpgrade::from_request_parts(parts, &()).await.map_err(|error| {
        let message = match error {
            rejection::WebSocketUpgradeRejection::MethodNotGet(_)
            | rejection::WebSocketUpgradeRejection::InvalidUpgradeHeader(_)
            | rejection::WebSocketUpgradeRejection::InvalidConnectionHeader(_) => {
                "Upgrade request required: this speaks WebSocket (v5.channel.k8s.io), as kubectl 1.30 and later do"
                    .to_owned()
            }
            other => format!("Upgrade request required: {other}"),
        };
        Status::bad_request(message)
    })?;
    let upgrade = upgrade.protocols(PROTOCOLS);
    if upgrade.selected_protocol().is_none() {
        let message = format!("no protocol in common: this speaks {}", PROTOCOLS.join(" and "));
        return Err(Status::new(StatusCode::FORBIDDEN, "Forbidden", message));
    }
    Ok(upgrade)
}

impl Asked {
    fn read(query: &Pairs) -> Self {
        let mut asked = Self::default();
        for (name, value) in query {
            let on = matches!(value.as_str(), "true" | "1");
            match name.as_str() {
                "container" => asked.container = Some(value.clone()),
                "command" => asked.command.push(value.clone()),
                "stdin" | "input" => asked.stdin = on,
                "stdout" | "output" => asked.stdout = on,
                "stderr" | "error" => asked.stderr = on,
                "tty" => asked.tty = on,
                _ => {}
            }
        }
        asked
    }

    fn check(&self) -> Result<(), Status> {
        if self.stdin || self.stdout || self.stderr {
            return Ok(());
        }
        Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"))
    }
}

/// What a change of the terminal's size goes to.
enum Resizes {
    Session(String),
    Container(String),
}

/// A session under way between a client and a process.
struct Call {
    runtime: Arc<dyn Runtime>,
    resizes: Resizes,
    asked: Asked,
}

impl Call {
    async fn run(self, socket: WebSocket, session: ExecSession) {
        let is_exec = matches!(self.resizes, Resizes::Session(_));
        let ExecSession { id, output, input } = session;
        let (mut sink, stream) = socket.split();
        // Input and output go on side by side: a process that waits for its reader must not keep its writer waiting.
        let ended = tokio::select! {
            ended = self.send_output(output, &mut sink) => Some(ended),
            () = self.take_input(stream, input) => None,
        };
        let Some(ended) = ended else { return };
        let status = match ended {
            Err(Gone) => return,
            Ok(Some(error)) => failed("", &error),
            Ok(None) if is_exec => self.exit_status(&id).await,
            Ok(None) => success(),
        };
        let _ = sink.send(frame(channel::ERROR, status.to_string().as_bytes())).await;
        let _ = sink.send(Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }))).await;
    }

    /// Sends what the process writes until it ends; an error of the engine is what is left to tell.
    async fn send_output(
        &self,
        mut output: futures_util::stream::BoxStream<'static, Result<(Stream, Bytes), crate::runtime::Error>>,
        sink: &mut SplitSink<WebSocket, Message>,
    ) -> Result<Option<String>, Gone> {
        while let Some(piece) = output.next().await {
            let (stream, bytes) = match piece {
                Ok(piece) => piece,
                Err(error) => return Ok(Some(error.to_string())),
            };
            let (wanted, number) = match stream {
                Stream::Stdout => (self.asked.stdout, channel::STDOUT),
                Stream::Stderr => (self.asked.stderr, channel::STDERR),
            };
            if wanted && !bytes.is_empty() {
                sink.send(frame(number, &bytes)).await.map_err(|_| Gone)?;
            }
        }
        Ok(None)
    }

    /// Takes what the client sends until it goes away.
    async fn take_input(&self, mut stream: SplitStream<WebSocket>, input: Pin<Box<dyn AsyncWrite + Send>>) {
        // Dropped, it tells the process that there is no more input.
        let mut input = Some(input).filter(|_| self.asked.stdin);
        while let Some(Ok(message)) = stream.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => text.into(),
                Message::Close(_) => return,
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            let Some((number, rest)) = bytes.split_first() else { continue };
            match *number {
                channel::STDIN => {
                    if let Some(open) = &mut input
                        && (open.write_all(rest).await.is_err() || open.flush().await.is_err())
                    {
                        // The process reads no more; what it still writes goes on.
                        input = None;
                    }
                }
                channel::CLOSE if rest == [channel::STDIN] => {
                    if let Some(mut open) = input.take() {
                        let _ = open.shutdown().await;
                    }
                }
                channel::RESIZE => self.resize(rest).await,
                _ => {}
            }
        }
    }

    async fn resize(&self, size: &[u8]) {
        let size: Value = serde_json::from_slice(size).unwrap_or_default();
        let side = |name: &str| size.get(name).and_then(Value::as_u64).and_then(|n| u16::try_from(n).ok());
        let (Some(width), Some(height)) = (side("Width"), side("Height")) else { return };
        let done = match &self.resizes {
            Resizes::Session(session) => self.runtime.exec_resize(session, width, height).await,
            Resizes::Container(id) => self.runtime.attach_resize(id, width, height).await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "a terminal kept its size");
        }
    }

    async fn exit_status(&self, session: &str) -> Value {
        let look = async {
            loop {
                match self.runtime.exec_exit_code(session).await {
                    Ok(Some(code)) => return exited(code),
                    Ok(None) => tokio::time::sleep(LOOK_AGAIN).await,
                    Err(error) => return failed("", &error.to_string()),
                }
            }
        };
        let late = |_| failed("", "the command has ended, but the container engine does not say how");
        tokio::time::timeout(EXIT_CODE_WITHIN, look).await.unwrap_or_else(late)
    }
}

/// The client is not there any more.
struct Gone;

fn frame(number: u8, bytes: &[u8]) -> Message {
    let mut frame = BytesMut::with_capacity(bytes.len() + 1);
    frame.put_u8(number);
    frame.extend_from_slice(bytes);
    Message::Binary(frame.freeze())
}

fn success() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

fn exited(code: i32) -> Value {
    if code == 0 {
        return success();
    }
    let mut status =
        failed("NonZeroExitCode", &format!("command terminated with non-zero exit code: exit status {code}"));
    status["details"] = json!({"causes": [{"reason": "ExitCode", "message": code.to_string()}]});
    status
}

fn failed(reason: &str, message: &str) -> Value {
    let mut status = json!({"metadata": {}, "status": "Failure", "message": message});
    if reason.is_empty() {
        status["reason"] = "InternalError".into();
        status["code"] = 500.into();
    } else {
        status["reason"] = reason.into();
    }
    status
}
