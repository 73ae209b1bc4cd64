//! A session between a client and a process in a container, from its first byte to its exit code.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::channels::{Gone, Outgoing, Process, Said, Told};
use crate::runtime::{Error, ExecSession, Runtime, Stream};

/// How long an ended command may take to have an exit code.
const EXIT_CODE_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks for it: the engine learns it a moment after the streams have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Whose process it is, which is where a change of the terminal's size goes.
pub enum Of {
    /// A command's, by the engine's id of its session.
    Command(String),
    /// A container's own, by the engine's id.
    Container(String),
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
    /// Carries what both say to the other until one of them has no more to say.
    pub async fn run(self, client: Process, process: ExecSession) {
        let ExecSession { output, input, .. } = process;
        let Process { said, mut told } = client;
        // Input and output go on side by side: a process that waits for its reader must not keep its writer waiting.
        let ended = tokio::select! {
            ended = self.send_output(output, &mut told) => ended,
            () = self.take_input(said, input) => return,
        };
        let Ok(error) = ended else { return };
        let status = match (error, &self.of) {
            (Some(error), _) => failed("", &error),
            (None, Of::Command(session)) => self.exit_status(session).await,
            (None, Of::Container(_)) => success(),
        };
        let _ = told.send(Told::Ended(status)).await;
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

    /// Takes what the client says until it goes away.
    async fn take_input(
        &self,
        mut said: BoxStream<'static, Said>,
        input: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
    ) {
        // Dropped, it tells the process that there is no more input.
        let mut input = Some(input).filter(|_| self.wanted.stdin);
        while let Some(said) = said.next().await {
            match said {
                Said::Input(bytes) => {
                    if let Some(open) = &mut input
                        && (open.write_all(&bytes).await.is_err() || open.flush().await.is_err())
                    {
                        // The process reads no more; what it still writes goes on.
                        input = None;
                    }
                }
                Said::InputEnded => {
                    if let Some(mut open) = input.take() {
                        let _ = open.shutdown().await;
                    }
                }
                Said::Resize { width, height } => self.resize(width, height).await,
            }
        }
    }

    async fn resize(&self, width: u16, height: u16) {
        let done = match &self.of {
            Of::Command(session) => self.runtime.exec_resize(session, width, height).await,
            Of::Container(id) => self.runtime.attach_resize(id, width, height).await,
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
