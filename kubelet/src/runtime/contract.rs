//! Contract tests of the [`Runtime`] trait. The Docker engine and the fake pass them.
//!
//! `runtime_contract!(make)` generates the tests. `make` returns a [`Bench`] with a node of its own.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt};

use super::spec::{ContainerSpec, Dns, Identity, Network, Resources, SandboxSpec, Security, Termination};
use super::{Error, Inspected, LogOptions, Runtime};
use crate::observed::{Container, Exit, PodUid, Sandbox, State};

/// Timeout of a condition that a test waits for.
const DEADLINE: Duration = Duration::from_secs(60);

/// An engine under test, and helpers to run containers on it.
#[derive(Clone)]
pub struct Bench {
    /// The engine, for a node that no other test uses.
    pub runtime: Arc<dyn Runtime>,
    /// The same engine, for another node.
    pub neighbour: Arc<dyn Runtime>,
    /// Name of the sandbox image.
    pub sandbox_image: String,
    /// Name of an image with a shell.
    pub image: String,
}

impl Bench {
    /// Runs a test and removes its containers afterwards, even if it fails.
    pub async fn run<F: Future<Output = ()>>(self, test: impl FnOnce(Bench) -> F) {
        let outcome = AssertUnwindSafe(test(self.clone())).catch_unwind().await;
        for runtime in [&self.runtime, &self.neighbour] {
            for left in runtime.list().await.unwrap() {
                runtime.remove(&left.id).await.unwrap();
            }
        }
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    }

    /// Returns a sandbox spec for a pod of this name.
    pub fn sandbox(&self, pod: &str) -> SandboxSpec {
        SandboxSpec {
            identity: identity(pod, "POD"),
            image: self.sandbox_image.clone(),
            network: Network::Pod,
            host_ports: Vec::new(),
            hostname: Some(pod.to_owned()),
            domain: None,
            host_aliases: Vec::new(),
            dns: Dns::default(),
            host_pid: false,
            host_ipc: false,
            share_process_namespace: false,
            sysctls: BTreeMap::new(),
            cgroup_parent: None,
            security_options: Vec::new(),
            user: None,
        }
    }

    /// Returns a container spec that runs a shell script.
    pub async fn container(&self, pod: &str, sandbox: &Sandbox, script: &str) -> ContainerSpec {
        ContainerSpec {
            identity: identity(pod, "app"),
            sandbox_id: sandbox.id.clone(),
            network: Network::Pod,
            image: self.image.clone(),
            image_id: self.runtime.image(&self.image).await.unwrap().expect("the image is there").id,
            command: Some(["sh", "-c", script].map(str::to_owned).to_vec()),
            args: None,
            working_dir: None,
            env: vec!["GREETING=hello".to_owned()],
            mounts: Vec::new(),
            resources: Resources::default(),
            oom_score_adj: 1000,
            cgroup_parent: None,
            security: Security::default(),
            stdin: false,
            stdin_once: false,
            tty: false,
            host_pid: false,
            host_ipc: false,
            processes_of: None,
            back_off: Duration::from_secs(10),
            termination: Termination::default(),
            stop_signal: None,
            labels: BTreeMap::new(),
        }
    }

    /// Creates and starts a sandbox.
    pub async fn pod(&self, pod: &str) -> Sandbox {
        let sandbox = self.runtime.create_sandbox(&self.sandbox(pod)).await.unwrap();
        match self.runtime.start(&sandbox.id).await.unwrap().seen {
            Inspected::Sandbox(_, sandbox) => sandbox,
            other => panic!("not a sandbox: {other:?}"),
        }
    }

    /// Creates and starts a container in a new pod.
    pub async fn running(&self, pod: &str, script: &str) -> Container {
        let spec = self.container(pod, &self.pod(pod).await, script).await;
        let made = self.runtime.create_container(&spec).await.unwrap();
        container(self.runtime.start(&made.id).await.unwrap().seen)
    }

    /// Waits until the container has exited.
    pub async fn ended(&self, id: &str) -> (Container, Exit) {
        assert!(self.runtime.wait(id, DEADLINE).await.unwrap(), "still runs");
        let container = container(self.runtime.inspect(id).await.unwrap());
        let State::Exited(exit) = container.state.clone() else { panic!("not ended: {container:?}") };
        (container, exit)
    }
}

/// The identity of a container. The UID is derived from the pod name.
pub fn identity(pod: &str, container: &str) -> Identity {
    Identity {
        uid: PodUid::new(&format!("uid-{pod}-{}", std::process::id())),
        pod: pod.to_owned(),
        namespace: "contract".to_owned(),
        container: container.to_owned(),
        attempt: 0,
        hash: "one".to_owned(),
    }
}

fn container(seen: Inspected) -> Container {
    match seen {
        Inspected::Container(_, container) => container,
        other => panic!("not a container: {other:?}"),
    }
}

/// Generates the contract tests for the engine that `$make` creates.
#[macro_export]
macro_rules! runtime_contract {
    ($make:expr) => {
        $crate::runtime_contract!($make =>
            a_pod_runs, creating_is_idempotent, a_container_made_from_else_is_replaced, an_exit_is_seen,
            a_failed_start_is_reported, signals_reach_a_container, missing_containers_are_not_found,
            events_are_limited_to_this_node, logs_are_read, a_log_is_followed, the_log_tail_replaces_a_missing_message,
            commands_run_inside, commands_are_bounded, an_interactive_command_has_input_and_output,
            images_are_found
        );
    };
    ($make:expr => $($test:ident),*) => {
        $(#[tokio::test]
        async fn $test() {
            $make(stringify!($test)).await.run($crate::runtime::contract::$test).await;
        })*
    };
}

pub async fn a_pod_runs(bench: Bench) {
    let runtime = &bench.runtime;
    let spec = bench.sandbox("runs");
    let made = runtime.create_sandbox(&spec).await.unwrap();
    assert_eq!((&made.state, made.hash.as_str(), made.ips.len()), (&State::Created, "one", 0));

    let app = bench.container("runs", &made, "sleep 1000").await;
    let app = runtime.create_container(&app).await.unwrap();
    assert_eq!(app.state, State::Created);
    assert_eq!((app.image.as_str(), app.sandbox_id.as_str()), (bench.image.as_str(), made.id.as_str()));
    assert_eq!(app.back_off, Duration::from_secs(10));

    let Inspected::Sandbox(_, sandbox) = runtime.start(&made.id).await.unwrap().seen else {
        panic!("not a sandbox")
    };
    assert!(sandbox.state.is_running() && !sandbox.ips.is_empty(), "{sandbox:?}");
    assert_eq!(sandbox.id, made.id, "a sandbox is never made again: containers that join it may exist");
    let started = container(runtime.start(&app.id).await.unwrap().seen);
    assert!(started.state.is_running());
    assert_eq!(
        runtime.inspect(&app.id).await.unwrap(),
        Inspected::Container(identity("runs", "app"), started.clone())
    );
    assert_eq!(
        container(runtime.start(&app.id).await.unwrap().seen),
        started,
        "a second start changes nothing"
    );

    let mut listed = runtime.list().await.unwrap();
    listed.sort_by(|a, b| a.identity.container.cmp(&b.identity.container));
    assert_eq!(
        listed.iter().map(|l| (&l.id, l.running)).collect::<Vec<_>>(),
        [(&made.id, true), (&app.id, true)]
    );
    assert_eq!(listed[0].identity, spec.identity);

    runtime.remove(&app.id).await.unwrap();
    runtime.remove(&made.id).await.unwrap();
    assert_eq!(runtime.list().await.unwrap(), []);
}

pub async fn creating_is_idempotent(bench: Bench) {
    let runtime = &bench.runtime;
    let sandbox = bench.pod("idempotent").await;
    let again = runtime.create_sandbox(&bench.sandbox("idempotent")).await.unwrap();
    assert_eq!(again, sandbox, "the one that runs already");
    let spec = bench.container("idempotent", &sandbox, "sleep 1000").await;
    let made = runtime.create_container(&spec).await.unwrap();
    assert_eq!(runtime.create_container(&spec).await.unwrap(), made);
    assert_eq!(runtime.list().await.unwrap().len(), 2);
}

pub async fn a_container_made_from_else_is_replaced(bench: Bench) {
    let runtime = &bench.runtime;
    let sandbox = bench.pod("replaced").await;
    let mut spec = bench.container("replaced", &sandbox, "sleep 1000").await;
    let old = runtime.create_container(&spec).await.unwrap();
    runtime.start(&old.id).await.unwrap();
    spec.identity.hash = "two".to_owned();
    let new = runtime.create_container(&spec).await.unwrap();
    assert_ne!(new.id, old.id);
    assert_eq!((new.state, new.hash.as_str()), (State::Created, "two"));
    assert!(matches!(runtime.inspect(&old.id).await, Err(Error::NotFound { .. })));
}

pub async fn an_exit_is_seen(bench: Bench) {
    let app = bench.running("exits", "exit 3").await;
    let (ended, exit) = bench.ended(&app.id).await;
    assert_eq!((exit.code, exit.oom_killed, exit.error), (3, false, None));
    assert!(exit.started_at.unwrap() <= exit.finished_at);
    assert!(ended.created_at <= exit.started_at.unwrap());
    assert_eq!(ended.message, None, "no one asked for the log");
    bench.runtime.signal(&app.id, "SIGTERM").await.unwrap();
    assert!(!bench.runtime.list().await.unwrap().iter().any(|l| l.id == app.id && l.running));
}

pub async fn a_failed_start_is_reported(bench: Bench) {
    let sandbox = bench.pod("fails").await;
    let mut spec = bench.container("fails", &sandbox, "").await;
    spec.command = Some(vec!["/no/such/command".to_owned()]);
    let made = bench.runtime.create_container(&spec).await.unwrap();
    let Err(Error::Refused { message, .. }) = bench.runtime.start(&made.id).await else { panic!("started") };
    assert!(message.contains("/no/such/command"), "{message}");
    let (_, exit) = bench.ended(&made.id).await;
    assert_ne!(exit.code, 0);
    assert_eq!(exit.started_at, None);
    assert!(exit.error.unwrap().contains("/no/such/command"));
}

pub async fn signals_reach_a_container(bench: Bench) {
    let app = bench.running("signals", "trap 'exit 5' TERM; while true; do sleep 0.05; done").await;
    assert!(!bench.runtime.wait(&app.id, Duration::from_millis(100)).await.unwrap(), "it runs");
    bench.runtime.signal(&app.id, "SIGTERM").await.unwrap();
    assert_eq!(bench.ended(&app.id).await.1.code, 5);

    let deaf = bench.running("deaf", "trap '' TERM; while true; do sleep 0.05; done").await;
    bench.runtime.signal(&deaf.id, "SIGTERM").await.unwrap();
    assert!(!bench.runtime.wait(&deaf.id, Duration::from_millis(200)).await.unwrap(), "it does not listen");
    bench.runtime.signal(&deaf.id, "SIGKILL").await.unwrap();
    assert_eq!(bench.ended(&deaf.id).await.1.code, 137);
}

pub async fn missing_containers_are_not_found(bench: Bench) {
    let runtime = &bench.runtime;
    let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let gone = |error: Error| assert!(matches!(error, Error::NotFound { .. }), "{error}");
    gone(runtime.inspect(id).await.unwrap_err());
    gone(runtime.start(id).await.unwrap_err());
    gone(runtime.signal(id, "SIGTERM").await.unwrap_err());
    gone(runtime.exec(id, &["true".to_owned()], DEADLINE, 1).await.unwrap_err());
    gone(runtime.logs(id, &LogOptions::default()).await.map(drop).unwrap_err());
    assert!(runtime.wait(id, DEADLINE).await.unwrap(), "what is gone does not run");
    runtime.remove(id).await.unwrap();
}

pub async fn events_are_limited_to_this_node(bench: Bench) {
    let events = bench.runtime.events().await.unwrap();
    let other = bench.neighbour.create_sandbox(&bench.sandbox("neighbour")).await.unwrap();
    assert_eq!(bench.runtime.list().await.unwrap(), [], "each node sees its own");
    let app = bench.running("events", "exit 0").await;
    bench.ended(&app.id).await;
    bench.runtime.remove(&app.id).await.unwrap();

    let until_removed = async {
        let mut events = std::pin::pin!(events);
        let mut seen = Vec::new();
        while let Some(event) = events.try_next().await.unwrap() {
            assert_ne!(event.id, other.id, "a neighbour's");
            assert_eq!(event.uid, identity("events", "app").uid);
            if event.id == app.id {
                let removed = event.removed;
                seen.push(removed);
                if removed {
                    break;
                }
            }
        }
        seen
    };
    let seen = tokio::time::timeout(DEADLINE, until_removed).await.expect("the removal is reported");
    assert!(seen.len() >= 3, "started, ended, removed: {seen:?}");
}

async fn log(bench: &Bench, id: &str, options: &LogOptions) -> String {
    let mut pieces = bench.runtime.logs(id, options).await.unwrap();
    let mut text = Vec::new();
    while let Some((_, piece)) = pieces.try_next().await.unwrap() {
        text.extend_from_slice(&piece);
    }
    String::from_utf8(text).unwrap()
}

pub async fn logs_are_read(bench: Bench) {
    let app = bench.running("logs", "echo one; echo two; echo three; exit 0").await;
    bench.ended(&app.id).await;
    assert_eq!(log(&bench, &app.id, &LogOptions::default()).await, "one\ntwo\nthree\n");
    let tail = LogOptions { tail: Some(1), ..LogOptions::default() };
    assert_eq!(log(&bench, &app.id, &tail).await, "three\n");
    let later = app.created_at + Duration::from_secs(3600);
    let none = LogOptions { since: Some(later), ..LogOptions::default() };
    assert_eq!(log(&bench, &app.id, &none).await, "");
    let stamped = log(&bench, &app.id, &LogOptions { timestamps: true, ..tail }).await;
    let (time, line) = stamped.split_once(' ').unwrap();
    assert!(time.parse::<crate::observed::Timestamp>().unwrap() >= app.created_at);
    assert_eq!(line, "three\n");
}

pub async fn a_log_is_followed(bench: Bench) {
    let app = bench.running("follow", "echo first; sleep 1000").await;
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let mut pieces = bench.runtime.logs(&app.id, &options).await.unwrap();
    let first = tokio::time::timeout(DEADLINE, pieces.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&first.1[..], b"first\n");
    bench.runtime.signal(&app.id, "SIGKILL").await.unwrap();
    let end = tokio::time::timeout(DEADLINE, pieces.next()).await.expect("it ends with the container");
    assert!(end.is_none());
}

pub async fn the_log_tail_replaces_a_missing_message(bench: Bench) {
    let sandbox = bench.pod("words").await;
    let mut spec = bench.container("words", &sandbox, "echo it broke; exit 1").await;
    spec.termination.policy = "FallbackToLogsOnError".to_owned();
    let made = bench.runtime.create_container(&spec).await.unwrap();
    bench.runtime.start(&made.id).await.unwrap();
    assert_eq!(bench.ended(&made.id).await.0.message.as_deref(), Some("it broke\n"));
}

pub async fn commands_run_inside(bench: Bench) {
    let app = bench.running("exec", "sleep 1000").await;
    let command = ["sh", "-c", "echo out; exit 4"].map(str::to_owned);
    let done = bench.runtime.exec(&app.id, &command, DEADLINE, 1024).await.unwrap();
    assert_eq!((done.exit_code, done.output), (Some(4), b"out\n".to_vec()));
    let cut = bench.runtime.exec(&app.id, &command, DEADLINE, 2).await.unwrap();
    assert_eq!(cut.output, b"ou");
    bench.runtime.signal(&app.id, "SIGKILL").await.unwrap();
    bench.ended(&app.id).await;
    let refused = bench.runtime.exec(&app.id, &command, DEADLINE, 1024).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
}

pub async fn commands_are_bounded(bench: Bench) {
    let app = bench.running("bounded", "sleep 1000").await;
    let command = ["sh", "-c", "echo begun; sleep 1000"].map(str::to_owned);
    let late = bench.runtime.exec(&app.id, &command, Duration::from_millis(500), 1024).await.unwrap();
    assert_eq!((late.exit_code, late.output), (None, b"begun\n".to_vec()), "what it wrote until then");
}

pub async fn an_interactive_command_has_input_and_output(bench: Bench) {
    use tokio::io::AsyncWriteExt;
    let app = bench.running("interactive", "sleep 1000").await;
    let request = super::ExecRequest { command: vec!["cat".to_owned()], stdin: true, tty: false };
    let super::ExecSession { id, mut output, mut input } =
        bench.runtime.exec_start(&app.id, &request).await.unwrap();
    input.write_all(b"spoken").await.unwrap();
    drop(input);
    let mut received = Vec::new();
    let read_output = async {
        while let Some((_, piece)) = output.try_next().await.unwrap() {
            received.extend_from_slice(&piece);
        }
    };
    tokio::time::timeout(DEADLINE, read_output).await.expect("the end of the input ends cat");
    assert_eq!(received, b"spoken");
    let code = async {
        loop {
            if let Some(code) = bench.runtime.exec_exit_code(&id).await.unwrap() {
                return code;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(tokio::time::timeout(DEADLINE, code).await.unwrap(), 0);
}

pub async fn images_are_found(bench: Bench) {
    let found = bench.runtime.image(&bench.image).await.unwrap().expect("the image is there");
    assert!(found.tags.contains(&bench.image), "{found:?}");
    assert_eq!(bench.runtime.image(&found.id).await.unwrap().expect("by its id too").id, found.id);
    assert_eq!(bench.runtime.image("coracle/no-such-image:1").await.unwrap(), None);
}
