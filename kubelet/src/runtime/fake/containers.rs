//! Containers of the fake engine: their records and their simulated execution.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::program::{OnTerm, Program, Step};
use super::{Engine, Fake};
use crate::observed::{Container, Exit, Sandbox, State, Timestamp};
use crate::runtime::spec::{ContainerSpec, Identity};
use crate::runtime::{Error, Inspected, Stream, labels};

/// A container of the fake engine.
pub(super) struct Record {
    pub id: String,
    pub node: String,
    pub identity: Identity,
    pub kind: Kind,
    pub state: State,
    pub created_at: Timestamp,
    pub log: watch::Sender<Vec<(Timestamp, Stream, String)>>,
    /// Handle of the task that runs its program.
    pub running: Option<tokio::task::AbortHandle>,
    /// True if it does not run.
    pub ended: watch::Sender<bool>,
}

pub(super) enum Kind {
    Sandbox,
    Container(Box<ContainerSpec>),
}

impl Record {
    fn program(&self) -> Result<Program, String> {
        match &self.kind {
            Kind::Sandbox => Program::of(&[]),
            Kind::Container(spec) => Program::of(spec.command.as_deref().unwrap_or_default()),
        }
    }

    pub fn seen(&self) -> Inspected {
        let Identity { attempt, hash, .. } = self.identity.clone();
        let (id, state, created_at) = (self.id.clone(), self.state.clone(), self.created_at);
        match &self.kind {
            Kind::Sandbox => {
                let address = || {
                    std::net::Ipv4Addr::from_bits(0x0a58_0000 + u32::from_str_radix(&id[56..], 16).unwrap())
                };
                let ips = if state.is_running() { vec![address().into()] } else { Vec::new() };
                Inspected::Sandbox(
                    self.identity.clone(),
                    Sandbox { id, attempt, hash, state, ips, is_bare: false, created_at },
                )
            }
            Kind::Container(spec) => {
                let message = match &self.state {
                    State::Exited(exit) => self.termination_message(spec, exit),
                    _ => None,
                };
                let mut notes: std::collections::BTreeMap<_, _> = spec
                    .labels
                    .clone()
                    .into_iter()
                    .filter(|(key, _)| key.starts_with("io.coracle."))
                    .collect();
                notes.insert(labels::TERMINATION_POLICY.to_owned(), spec.termination.policy.clone());
                notes.insert(labels::TERMINATION_FILE.to_owned(), spec.termination.file.clone());
                let container = Container {
                    id,
                    name: self.identity.container.clone(),
                    attempt,
                    hash,
                    back_off: spec.back_off,
                    image: spec.image.clone(),
                    image_id: spec.image_id.clone(),
                    sandbox_id: spec.sandbox_id.clone(),
                    state,
                    created_at,
                    notes,
                    message,
                    stop_signal: spec.stop_signal.clone(),
                };
                Inspected::Container(self.identity.clone(), container)
            }
        }
    }

    fn termination_message(&self, spec: &ContainerSpec, exit: &Exit) -> Option<String> {
        let written = std::fs::read_to_string(&spec.termination.file).unwrap_or_default();
        if !written.is_empty() {
            return Some(written);
        }
        let wants_log =
            spec.termination.policy == "FallbackToLogsOnError" && exit.code != 0 && exit.started_at.is_some();
        let log: String = self.log.borrow().iter().map(|(_, _, line)| line.as_str()).collect();
        (wants_log && !log.is_empty()).then_some(log)
    }
}

impl Fake {
    /// Calls `use_it` with the container of this id on this node.
    pub(super) fn with<T>(&self, id: &str, use_it: impl FnOnce(&mut Record) -> T) -> Result<T, Error> {
        let mut containers = self.engine.containers();
        match containers.get_mut(id).filter(|record| record.node == self.node) {
            Some(record) => Ok(use_it(record)),
            None => Err(Error::NotFound { what: format!("container {id}") }),
        }
    }

    /// Creates a container. If one of the same name and identity exists, returns that.
    pub(super) fn make(&self, identity: &Identity, kind: Kind) -> Inspected {
        let name = identity.engine_name();
        let here = self
            .engine
            .containers()
            .values()
            .find(|record| record.identity.engine_name() == name)
            .map(|record| (record.id.clone(), record.identity == *identity, record.seen()));
        match here {
            Some((_, true, seen)) => return seen,
            Some((id, false, _)) => drop(self.engine.take(&id, false)),
            None => {}
        }
        let record = Record {
            id: self.engine.new_id(),
            node: self.node.clone(),
            identity: identity.clone(),
            kind,
            state: State::Created,
            created_at: self.engine.now(),
            log: watch::Sender::new(Vec::new()),
            running: None,
            ended: watch::Sender::new(true),
        };
        let seen = record.seen();
        self.engine.containers().insert(record.id.clone(), record);
        seen
    }

    pub(super) fn start_container(&self, id: &str) -> Result<(), Error> {
        let refused = |message: String| Error::refused("start the container", message);
        let sandbox = self.with(id, |record| match &record.kind {
            Kind::Container(spec) => Some(spec.sandbox_id.clone()),
            Kind::Sandbox => None,
        })?;
        if let Some(sandbox) = sandbox
            && !self.with(&sandbox, |record| record.state.is_running()).unwrap_or_default()
        {
            return Err(refused(format!("cannot join network of a non running container: {sandbox}")));
        }
        let now = self.engine.now();
        let engine = self.engine.clone();
        self.with(id, |record| {
            if record.state.is_running() {
                return Ok(());
            }
            let program = match record.program() {
                Ok(program) => program,
                Err(error) => {
                    let exit = Exit {
                        code: 127,
                        oom_killed: false,
                        error: Some(error.clone()),
                        started_at: None,
                        finished_at: record.created_at,
                    };
                    record.state = State::Exited(exit);
                    return Err(refused(error));
                }
            };
            record.state = State::Running { started_at: now, pid: 1000 };
            record.ended.send_replace(false);
            let id = record.id.clone();
            engine.send_event(record, false);
            let log = record.log.clone();
            let engine = engine.clone();
            record.running = Some(tokio::spawn(run(engine, id, program, log)).abort_handle());
            Ok(())
        })?
    }

    /// Delivers a signal according to the program.
    pub(super) fn deliver_signal(&self, id: &str, signal: &str) -> Result<(), Error> {
        let on_term =
            self.with(id, |record| record.program().map_or(OnTerm::Ignored, |program| program.on_term))?;
        match (signal.trim_start_matches("SIG"), on_term) {
            ("KILL" | "9", _) => self.engine.end(id, 137, true),
            ("TERM" | "15" | "INT" | "QUIT", OnTerm::Exit(code)) => self.engine.end(id, code, true),
            _ => {}
        }
        Ok(())
    }
}

async fn run(
    engine: Arc<Engine>,
    id: String,
    program: Program,
    log: watch::Sender<Vec<(Timestamp, Stream, String)>>,
) {
    for step in program.steps {
        match step {
            Step::Say(line) => {
                let now = engine.now();
                log.send_modify(|lines| lines.push((now, Stream::Stdout, format!("{line}\n"))));
            }
            Step::Sleep(time) => tokio::time::sleep(time).await,
            Step::Idle => std::future::pending().await,
            Step::Exit(code) => return engine.end(&id, code, false),
        }
    }
    engine.end(&id, 0, false);
}

impl Engine {
    /// Ends a running container.
    pub(super) fn end(&self, id: &str, code: i32, by_signal: bool) {
        let now = self.now();
        let mut containers = self.containers();
        let Some(record) = containers.get_mut(id) else { return };
        let State::Running { started_at, .. } = record.state else { return };
        let exit =
            Exit { code, oom_killed: false, error: None, started_at: Some(started_at), finished_at: now };
        record.state = State::Exited(exit);
        if by_signal && let Some(task) = record.running.take() {
            task.abort();
        }
        record.ended.send_replace(true);
        self.send_event(record, false);
    }

    /// Removes a container.
    pub(super) fn take(&self, id: &str, silently: bool) -> Option<Record> {
        let record = self.containers().remove(id)?;
        if let Some(task) = &record.running {
            task.abort();
        }
        record.ended.send_replace(true);
        if !silently {
            self.send_event(&record, true);
        }
        Some(record)
    }
}

/// Waits until the container has ended or the timeout expires.
pub(super) async fn until_ended(mut ended: watch::Receiver<bool>, at_most: Duration) -> bool {
    tokio::time::timeout(at_most, ended.wait_for(|ended| *ended)).await.is_ok()
}
