//! Handlers for exec, attach and run.

use std::time::Duration;

use apiserver::Status;
use apiserver::request::query_switch;
use apiserver::spdy::exec;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::Value;

use super::container::ServedPod;
use super::logs::{Pairs, refused};
use super::session::{ProcessKind, RequestedStreams, Session};
use super::upgrade::{Refused, Upgrade};
use super::{Context, attach};
use crate::runtime::ExecRequest;

/// Timeout of `/run`, as in the stock kubelet.
const RUN_WITHIN: Duration = Duration::from_secs(240);
/// Maximum bytes of output that `/run` returns.
const RUN_BYTES: usize = 16 * 1024 * 1024;

/// Options in the query of a request.
#[derive(Clone, Debug, Default, PartialEq)]
struct ExecOptions {
    container: Option<String>,
    command: Vec<String>,
    wanted: RequestedStreams,
    tty: bool,
}

/// The container in a path such as `.../pods/{name}/exec` or `/exec/{namespace}/{pod}/{container}`.
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
) -> Result<Response, Refused> {
    let (options, shown, container) = target.find(&context, &query)?;
    options.check_command()?;
    options.check()?;
    let id = shown.running(&container)?;
    let (upgrade, streams) = (Upgrade::of_process(&mut parts).await?, options.streams());
    let ExecOptions { command, wanted, tty, .. } = options;
    let request = ExecRequest { command, stdin: wanted.stdin, tty };
    Ok(upgrade.serve(streams, context.streaming_idle, move |client| async move {
        let session = Session { runtime: context.runtime.clone(), kind: ProcessKind::Command, wanted };
        session.run(client, context.runtime.exec_start(&id, &request)).await;
    }))
}

/// Attaches to the main process of a container.
pub async fn attach(
    State(context): State<Context>,
    Path(target): Path<Target>,
    Query(query): Query<Pairs>,
    mut parts: Parts,
) -> Result<Response, Refused> {
    let (options, shown, container) = target.find(&context, &query)?;
    options.check()?;
    let id = shown.running(&container)?;
    let is = |field: &str| shown.spec(&container, field) == Some(&Value::Bool(true));
    if options.wanted.stdin && !is("stdin") {
        let message =
            format!("container \"{container}\" takes no input: its manifest does not say `stdin: true`");
        return Err(Status::bad_request(message).into());
    }
    let (upgrade, streams) = (Upgrade::of_process(&mut parts).await?, options.streams());
    let wanted = options.wanted;
    Ok(upgrade.serve(streams, context.streaming_idle, move |client| async move {
        let session =
            Session { runtime: context.runtime.clone(), kind: ProcessKind::Container(id.clone()), wanted };
        session.run(client, attach::attach(&context.runtime, &id, wanted.stdin)).await;
    }))
}

/// Serves `POST /run/{namespace}/{pod}/{container}`: runs a command and returns its output.
pub async fn run(
    State(context): State<Context>,
    Path(target): Path<Target>,
    Query(query): Query<Pairs>,
) -> Result<Response, Status> {
    let (options, shown, container) = target.find(&context, &query)?;
    // `cmd` is one text with words separated by spaces.
    let command: Vec<String> = query
        .iter()
        .filter(|(name, _)| name == "cmd")
        .map(|(_, text)| text)
        .flat_map(|text| text.split(' ').map(str::to_owned))
        .collect();
    let options = ExecOptions { command: [options.command, command].concat(), ..options };
    options.check_command()?;
    let id = shown.running(&container)?;
    let ran = context.runtime.exec(&id, &options.command, RUN_WITHIN, RUN_BYTES).await.map_err(refused)?;
    let code = match ran.exit_code {
        Some(0) => StatusCode::OK,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Ok((code, [(header::CONTENT_TYPE, "text/plain")], ran.output).into_response())
}

impl Target {
    /// Returns the options, the pod and the container. The path or the query names the container; without a name, the
    /// pod's only container is used.
    fn find(self, context: &Context, query: &Pairs) -> Result<(ExecOptions, ServedPod, String), Status> {
        let options = ExecOptions::read(query);
        let shown = ServedPod::find(context.status_manager.store(), &self.namespace, &self.pod)?;
        let container = shown.choose(self.container.as_deref().or(options.container.as_deref()))?;
        Ok((options, shown, container))
    }
}

impl ExecOptions {
    fn read(query: &Pairs) -> Self {
        let mut options = Self::default();
        for (name, value) in query {
            let on = query_switch(value);
            match name.as_str() {
                "container" => options.container = Some(value.clone()),
                "command" => options.command.push(value.clone()),
                "stdin" | "input" => options.wanted.stdin = on,
                "stdout" | "output" => options.wanted.stdout = on,
                "stderr" | "error" => options.wanted.stderr = on,
                "tty" => options.tty = on,
                _ => {}
            }
        }
        options
    }

    /// The SPDY streams that the client will open.
    fn streams(&self) -> exec::StreamOptions {
        let RequestedStreams { stdin, stdout, stderr } = self.wanted;
        exec::StreamOptions { stdin, stdout, stderr, tty: self.tty }
    }

    fn check(&self) -> Result<(), Status> {
        if self.wanted != RequestedStreams::default() {
            return Ok(());
        }
        Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"))
    }

    fn check_command(&self) -> Result<(), Status> {
        if !self.command.is_empty() {
            return Ok(());
        }
        Err(Status::bad_request("you must specify at least one command for the container"))
    }
}
