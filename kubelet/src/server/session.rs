//! A session between a client and a process in a container, from its first byte to its exit code.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;

use super::channels::{Gone, Outgoing, Process, Size, Told};
use crate::runtime::{Error, ExecSession, Runtime, Stream};

/// How long an ended command may take to have an exit code.
const EXIT_CODE_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks for it: the engine learns it a moment after the streams have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Once a client is gone, how long a process may take nothing of what it had said.
const TAKES_WITHIN: Duration = Duration::from_secs(10);
/// Input that is handed on at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Whose process it is, which is where a change of the terminal's size goes.
pub enum Of {
    /// A command's.
    Command,
    /// A container's own, by the engine's id.
    Container(String),
}

impl Of {
    /// What there is to say when it does not begin.
    fn cannot_begin(&self) -> &'static str {
        match self {
            Self::Command => "error executing command in container",
            Self::Container(_) => "error attaching to container",
        }
    }
}

/// Which streams the client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

/// A session under way.
pub struct Session {
    /// The engine.
    pub runtime: Arc<dyn Runtime>,
    /// Whose process.
    pub of: Of,
    /// What the client wants of it.
    pub wanted: Wanted,
}

impl Session {
    /// Carries what both say to the other until one of them has no more to say. The process begins when the client's side is
    /// there, so that nothing it says is lost; why it does not is told as its end.
    pub async fn run(self, client: Process, start: impl Future<Output = Result<ExecSession, Error>>) {
        let Process { stdin, sizes, mut told, mut gone } = client;
        let started = tokio::select! {
            started = start => started,
            () = &mut gone => return,
        };
        let ExecSession { id, output, input } = match started {
            Ok(process) => process,
            Err(error) => {
                let why = failed("", &format!("{}: {error}", self.of.cannot_begin()));
                tokio::select! { _ = told.send(Told::Ended(why)) => return, () = gone => return }
            }
        };
        let (taken, takes) = watch::channel(());
        tokio::select! {
            // Input and output go on side by side: a process that waits for its reader must not keep its writer waiting.
            _ = self.tell(&id, output, told) => {}
            () = async { tokio::join!(self.resize(&id, sizes), self.give(stdin, input, taken)); pending().await } => {}
            () = async { gone.await; last_taken(takes).await } => {}
        }
    }

    /// Tells the client all that there is to tell: what the process writes, and how it ended.
    async fn tell(
        &self,
        id: &str,
        output: BoxStream<'static, Result<(Stream, Bytes), Error>>,
        mut told: Outgoing<Told>,
    ) -> Result<(), Gone> {
        let status = match (self.send_output(output, &mut told).await?, &self.of) {
            (Some(error), _) => failed("", &error),
            (None, Of::Command) => self.exit_status(id).await,
            (None, Of::Container(_)) => success(),
        };
        told.send(Told::Ended(status)).await
    }

    /// Sends what the process writes until it ends; an error of the engine is what is left to tell.
    async fn send_output(
        &self,
        mut output: BoxStream<'static, Result<(Stream, Bytes), Error>>,
        told: &mut Outgoing<Told>,
    ) -> Result<Option<String>, Gone> {
        while let Some(piece) = output.next().await {
            let (stream, bytes) = match piece {
                Ok(piece) => piece,
                Err(error) => return Ok(Some(error.to_string())),
            };
            let wanted = match stream {
                Stream::Stdout => self.wanted.stdout.then_some(Told::Stdout(bytes)),
                Stream::Stderr => self.wanted.stderr.then_some(Told::Stderr(bytes)),
            };
            if let Some(Told::Stdout(bytes) | Told::Stderr(bytes)) = &wanted
                && bytes.is_empty()
            {
                continue;
            }
            if let Some(wanted) = wanted {
                told.send(wanted).await?;
            }
        }
        Ok(None)
    }

    /// Gives the process what the client says, and tells each time that it has taken some.
    async fn give(
        &self,
        mut stdin: Box<dyn AsyncRead + Send + Unpin>,
        mut input: Pin<Box<dyn AsyncWrite + Send>>,
        taken: watch::Sender<()>,
    ) {
        // Dropped, the one tells the process that there is no more input, and the other the client that none is taken.
        if !self.wanted.stdin {
            return;
        }
        let mut piece = BytesMut::new();
        loop {
            piece.reserve(PIECE_BYTES);
            let Ok(1..) = stdin.read_buf(&mut piece).await else {
                let _ = input.shutdown().await;
                return;
            };
            if input.write_all_buf(&mut piece).await.is_err() || input.flush().await.is_err() {
                // The process reads no more; what it still writes goes on.
                return;
            }
            taken.send_replace(());
        }
    }

    /// Gives the process's terminal the size of the client's.
    async fn resize(&self, command: &str, mut sizes: BoxStream<'static, Size>) {
        while let Some(Size { width, height }) = sizes.next().await {
            let done = match &self.of {
                Of::Command => self.runtime.exec_resize(command, width, height).await,
                Of::Container(id) => self.runtime.attach_resize(id, width, height).await,
            };
            if let Err(error) = done {
                tracing::debug!(%error, "a terminal kept its size");
            }
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

/// Waits until a process has taken what a client had said before it went away, or takes no more of it.
async fn last_taken(mut takes: watch::Receiver<()>) {
    while let Ok(Ok(())) = tokio::time::timeout(TAKES_WITHIN, takes.changed()).await {}
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
