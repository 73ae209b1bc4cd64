//! Runs commands in containers and attaches to container streams.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bollard::exec::CreateExecOptions;
use bollard::query_parameters::{ResizeContainerTTYOptions, ResizeExecOptions};
use futures_util::TryStreamExt;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncWrite, WriteHalf};

use super::errors::{QUERY_TIMEOUT, timed_out, with_timeout};
use super::{Docker, inspect, stream};
use crate::runtime::{Error, ExecOutput, ExecRequest, ExecSession};

/// Name of the operation in errors.
const START: &str = "start the command";

pub(super) async fn run(
    docker: &Docker,
    id: &str,
    command: &[String],
    at_most: Duration,
    limit: usize,
) -> Result<ExecOutput, Error> {
    let request = ExecRequest { command: command.to_vec(), stdin: false, tty: false };
    let mut session = start(docker, id, &request).await?;
    let mut output = Vec::new();
    let run = async {
        while let Some((_, piece)) = session.output.try_next().await? {
            let room = limit.saturating_sub(output.len());
            output.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        // The streams end with the process; the engine records the exit code a moment later.
        ended(docker, &session.id).await
    };
    let exit_code = tokio::time::timeout(at_most, run).await.ok().transpose()?;
    if exit_code.is_none() {
        kill(docker, id, &session.id).await;
    }
    Ok(ExecOutput { exit_code, output })
}

/// Kills a command that exceeded its timeout, because a hung probe would otherwise leave a process. Docker has no
/// API to kill a command. Works for local engines only.
async fn kill(docker: &Docker, container: &str, session: &str) {
    let Ok(client) = docker.client().await else { return };
    let inspect_raw =
        with_timeout(QUERY_TIMEOUT, "inspect the command", session, client.inspect_exec(session)).await;
    let Some(pid) = inspect_raw.ok().and_then(|found| i32::try_from(found.pid?).ok()).and_then(Pid::from_raw)
    else {
        return;
    };
    // The pid is valid only if its cgroup names the container. Otherwise the engine is remote or in another pid namespace.
    let cgroup = tokio::fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).await;
    if cgroup.is_ok_and(|cgroup| cgroup.contains(container)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

async fn ended(docker: &Docker, session: &str) -> Result<i32, Error> {
    loop {
        if let Some(code) = exit_code(docker, session).await? {
            return Ok(code);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Starts a command, with the timeout of a query.
pub(super) async fn start(docker: &Docker, id: &str, request: &ExecRequest) -> Result<ExecSession, Error> {
    let started = tokio::time::timeout(QUERY_TIMEOUT, start_session(docker, id, request)).await;
    started.unwrap_or_else(|_| Err(timed_out(START, QUERY_TIMEOUT)))
}

async fn start_session(docker: &Docker, id: &str, request: &ExecRequest) -> Result<ExecSession, Error> {
    let options = CreateExecOptions {
        cmd: Some(request.command.clone()),
        attach_stdin: Some(request.stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(request.tty),
        ..CreateExecOptions::default()
    };
    let create = docker.client().await?.create_exec(id, options);
    let session = with_timeout(QUERY_TIMEOUT, START, id, create).await?.id;
    let path = format!("/exec/{session}/start");
    let body = serde_json::json!({ "Detach": false, "Tty": request.tty }).to_string();
    let pipe = stream::hijack(docker, START, id, &path, body).await?;
    Ok(joined(session, pipe, request.tty, START))
}

pub(super) async fn attach(docker: &Docker, id: &str, stdin: bool) -> Result<ExecSession, Error> {
    const OPERATION: &str = "attach to the container";
    let found = inspect::inspect_raw(docker, id).await?;
    let terminal = found.config.and_then(|config| config.tty).unwrap_or_default();
    let path = stream::query(
        &format!("/containers/{id}/attach"),
        &[("stream", "1"), ("stdin", if stdin { "1" } else { "0" }), ("stdout", "1"), ("stderr", "1")],
    );
    let pipe = stream::hijack(docker, OPERATION, id, &path, String::new()).await?;
    Ok(joined(String::new(), pipe, terminal, OPERATION))
}

fn joined(id: String, pipe: stream::Pipe, terminal: bool, operation: &'static str) -> ExecSession {
    let (read, write) = tokio::io::split(pipe);
    ExecSession {
        id,
        output: stream::output(stream::chunks(read, operation), terminal),
        input: Box::pin(Input(write)),
    }
}

/// Standard input of a process. Dropping it closes the input, and the output continues.
struct Input(WriteHalf<stream::Pipe>);

impl AsyncWrite for Input {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // Shutting down one direction of a socket does not block.
        let _ = Pin::new(&mut self.0).poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }
}

pub(super) async fn resize(docker: &Docker, session: &str, width: u16, height: u16) -> Result<(), Error> {
    let size = ResizeExecOptions { w: i32::from(width), h: i32::from(height) };
    with_timeout(
        QUERY_TIMEOUT,
        "resize the terminal",
        session,
        docker.client().await?.resize_exec(session, size),
    )
    .await
}

pub(super) async fn attach_resize(docker: &Docker, id: &str, width: u16, height: u16) -> Result<(), Error> {
    let size = ResizeContainerTTYOptions { w: i32::from(width), h: i32::from(height) };
    with_timeout(
        QUERY_TIMEOUT,
        "resize the terminal",
        id,
        docker.client().await?.resize_container_tty(id, size),
    )
    .await
}

pub(super) async fn exit_code(docker: &Docker, session: &str) -> Result<Option<i32>, Error> {
    let found = with_timeout(
        QUERY_TIMEOUT,
        "inspect the command",
        session,
        docker.client().await?.inspect_exec(session),
    )
    .await?;
    if found.running.unwrap_or_default() {
        return Ok(None);
    }
    Ok(found.exit_code.map(|code| i32::try_from(code).unwrap_or(i32::MAX)))
}
