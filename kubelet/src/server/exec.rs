//! Commands in containers, and containers' own streams: what is asked for, and who takes it over from there.

use std::time::Duration;

use apiserver::Status;
use apiserver::spdy::remote;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::Value;

use super::Context;
use super::container::ShownPod;
use super::logs::{Pairs, boolean, refused};
use super::session::{Of, Session, Wanted};
use super::upgrade::{Refused, Upgrade};
use crate::runtime::ExecRequest;

/// How long a command may run whose whole output is the answer; the stock kubelet's.
const RUN_WITHIN: Duration = Duration::from_secs(240);
/// The most of its output that is kept.
const RUN_BYTES: usize = 16 * 1024 * 1024;

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq)]
struct Asked {
    container: Option<String>,
    command: Vec<String>,
    wanted: Wanted,
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
) -> Result<Response, Refused> {
    let (asked, shown, container) = target.find(&context, &query)?;
    asked.check_command()?;
    asked.check()?;
    let id = shown.running(&container)?;
    let (upgrade, streams) = (Upgrade::of_process(&mut parts).await?, asked.streams());
    let Asked { command, wanted, tty, .. } = asked;
    let request = ExecRequest { command, stdin: wanted.stdin, tty };
    Ok(upgrade.serve(streams, context.streaming_idle, move |client| async move {
        let session = Session { runtime: context.runtime.clone(), of: Of::Command, wanted };
        session.run(client, context.runtime.exec_start(&id, &request)).await;
    }))
}

/// Attaches to a container's own streams.
pub async fn attach(
    State(context): State<Context>,
    Path(target): Path<Target>,
    Query(query): Query<Pairs>,
    mut parts: Parts,
) -> Result<Response, Refused> {
    let (asked, shown, container) = target.find(&context, &query)?;
    asked.check()?;
    let id = shown.running(&container)?;
    let is = |field: &str| shown.spec(&container, field) == Some(&Value::Bool(true));
    if asked.wanted.stdin && !is("stdin") {
        let message =
            format!("container \"{container}\" takes no input: its manifest does not say `stdin: true`");
        return Err(Status::bad_request(message).into());
    }
    let (upgrade, streams) = (Upgrade::of_process(&mut parts).await?, asked.streams());
    let wanted = asked.wanted;
    Ok(upgrade.serve(streams, context.streaming_idle, move |client| async move {
        let session = Session { runtime: context.runtime.clone(), of: Of::Container(id.clone()), wanted };
        session.run(client, context.runtime.attach(&id, wanted.stdin)).await;
    }))
}

/// `POST /run/{namespace}/{pod}/{container}`: runs a command and answers with all it wrote.
pub async fn run(
    State(context): State<Context>,
    Path(target): Path<Target>,
    Query(query): Query<Pairs>,
) -> Result<Response, Status> {
    let (asked, shown, container) = target.find(&context, &query)?;
    // One text here, whose words are separated by spaces.
    let command: Vec<String> = query
        .iter()
        .filter(|(name, _)| name == "cmd")
        .map(|(_, text)| text)
        .flat_map(|text| text.split(' ').map(str::to_owned))
        .collect();
    let asked = Asked { command: [asked.command, command].concat(), ..asked };
    asked.check_command()?;
    let id = shown.running(&container)?;
    let ran = context.runtime.exec(&id, &asked.command, RUN_WITHIN, RUN_BYTES).await.map_err(refused)?;
    let code = match ran.exit_code {
        Some(0) => StatusCode::OK,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Ok((code, [(header::CONTENT_TYPE, "text/plain")], ran.output).into_response())
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

impl Asked {
    fn read(query: &Pairs) -> Self {
        let mut asked = Self::default();
        for (name, value) in query {
            let on = boolean(name, value).unwrap_or(false);
            match name.as_str() {
                "container" => asked.container = Some(value.clone()),
                "command" => asked.command.push(value.clone()),
                "stdin" | "input" => asked.wanted.stdin = on,
                "stdout" | "output" => asked.wanted.stdout = on,
                "stderr" | "error" => asked.wanted.stderr = on,
                "tty" => asked.tty = on,
                _ => {}
            }
        }
        asked
    }

    /// The streams that a client of SPDY begins.
    fn streams(&self) -> remote::Wanted {
        let Wanted { stdin, stdout, stderr } = self.wanted;
        remote::Wanted { stdin, stdout, stderr, tty: self.tty }
    }

    fn check(&self) -> Result<(), Status> {
        if self.wanted != Wanted::default() {
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
