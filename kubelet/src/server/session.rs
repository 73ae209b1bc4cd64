//! A session between a client and a process in a container, from the first byte to the exit code.

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

use super::channels::{Gone, Outgoing, Process, ProcessOutput, Size};
use crate::runtime::{Error, ExecSession, Runtime, Stream};

/// How long the exit code of a command may be missing after its end.
const EXIT_CODE_WITHIN: Duration = Duration::from_secs(10);
/// How often the exit code is polled. The engine records it a moment after the streams end.
const EXIT_CODE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long the process may leave buffered input unread after the client has disconnected.
const TAKES_WITHIN: Duration = Duration::from_secs(10);
/// Maximum bytes of standard input that are forwarded at once.
const PIECE_BYTES: usize = 16 * 1024;

/// The kind of process in a session. It determines how the terminal is resized.
pub enum ProcessKind {
    Command,
    /// The main process of a container, given by its engine id.
    Container(String),
}

impl ProcessKind {
    /// Returns the start of the message that a process cannot be started.
    fn start_error(&self) -> &'static str {
        match self {
            Self::Command => "error executing command in container",
            Self::Container(_) => "error attaching to container",
        }
    }
}

/// The streams that the client requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestedStreams {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

/// A session in progress.
pub struct Session {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    pub kind: ProcessKind,
    pub wanted: RequestedStreams,
}

impl Session {
    /// Forwards streams in both directions until one side ends. The process starts after the client's streams are
    /// ready, so that no output is lost. A failed start is reported as its exit status.
    pub async fn run(self, client: Process, start: impl Future<Output = Result<ExecSession, Error>>) {
        let Process { stdin, sizes, mut output_sink, mut gone } = client;
        let started = tokio::select! {
            started = start => started,
            () = &mut gone => return,
        };
        let ExecSession { id, output, input } = match started {
            Ok(process) => process,
            Err(error) => {
                let why = failed("", &format!("{}: {error}", self.kind.start_error()));
                tokio::select! { _ = output_sink.send(ProcessOutput::Ended(why)) => return, () = gone => return }
            }
        };
        let (taken, takes) = watch::channel(());
        tokio::select! {
            // Input and output are forwarded concurrently: a process that waits for its reader must not block its writer.
            _ = self.send_outcome(&id, output, output_sink) => {}
            () = async { tokio::join!(self.resize(&id, sizes), self.forward_stdin(stdin, input, taken)); pending().await } => {}
            () = async { gone.await; last_taken(takes).await } => {}
        }
    }

    /// Sends output and exit status to the client.
    async fn send_outcome(
        &self,
        id: &str,
        output: BoxStream<'static, Result<(Stream, Bytes), Error>>,
        mut output_sink: Outgoing<ProcessOutput>,
    ) -> Result<(), Gone> {
        let status = match (self.send_output(output, &mut output_sink).await?, &self.kind) {
            (Some(error), _) => failed("", &error),
            (None, ProcessKind::Command) => self.exit_status(id).await,
            (None, ProcessKind::Container(_)) => success(),
        };
        output_sink.send(ProcessOutput::Ended(status)).await
    }

    /// Sends output until the process ends. Returns the message of an engine error, if there was one.
    async fn send_output(
        &self,
        mut output: BoxStream<'static, Result<(Stream, Bytes), Error>>,
        output_sink: &mut Outgoing<ProcessOutput>,
    ) -> Result<Option<String>, Gone> {
        while let Some(piece) = output.next().await {
            let (stream, bytes) = match piece {
                Ok(piece) => piece,
                Err(error) => return Ok(Some(error.to_string())),
            };
            let wanted = match stream {
                Stream::Stdout => self.wanted.stdout.then_some(ProcessOutput::Stdout(bytes)),
                Stream::Stderr => self.wanted.stderr.then_some(ProcessOutput::Stderr(bytes)),
            };
            if let Some(ProcessOutput::Stdout(bytes) | ProcessOutput::Stderr(bytes)) = &wanted
                && bytes.is_empty()
            {
                continue;
            }
            if let Some(wanted) = wanted {
                output_sink.send(wanted).await?;
            }
        }
        Ok(None)
    }

    /// Forwards standard input to the process. It sends a notification for each part that the process has read.
    async fn forward_stdin(
        &self,
        mut stdin: Box<dyn AsyncRead + Send + Unpin>,
        mut input: Pin<Box<dyn AsyncWrite + Send>>,
        taken: watch::Sender<()>,
    ) {
        // Dropping `input` closes the process's input; dropping `stdin` tells the client that input is not read.
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
                // The process has closed its input; its output continues.
                return;
            }
            taken.send_replace(());
        }
    }

    /// Forwards terminal size changes.
    async fn resize(&self, command: &str, mut sizes: BoxStream<'static, Size>) {
        while let Some(Size { width, height }) = sizes.next().await {
            let done = match &self.kind {
                ProcessKind::Command => self.runtime.exec_resize(command, width, height).await,
                ProcessKind::Container(id) => self.runtime.attach_resize(id, width, height).await,
            };
            if let Err(error) = done {
                tracing::debug!(%error, "cannot resize a terminal");
            }
        }
    }

    async fn exit_status(&self, session: &str) -> Value {
        let poll = async {
            loop {
                match self.runtime.exec_exit_code(session).await {
                    Ok(Some(code)) => return exited(code),
                    Ok(None) => tokio::time::sleep(EXIT_CODE_POLL_INTERVAL).await,
                    Err(error) => return failed("", &error.to_string()),
                }
            }
        };
        let late = |_| failed("", "the command has ended, but the container engine reports no exit code");
        tokio::time::timeout(EXIT_CODE_WITHIN, poll).await.unwrap_or_else(late)
    }
}

/// Waits until the process has read the remaining input of a disconnected client, or stops reading.
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
