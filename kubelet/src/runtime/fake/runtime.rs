//! Implements [`Runtime`] for the fake engine.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::broadcast::error::RecvError;

use super::containers::{Kind, Record, until_ended};
use super::program::{Program, Step};
use super::{Fake, HANG};
use crate::observed::{Container, PodUid, Sandbox, State};
use crate::runtime::{
    ContainerSpec, ContainerStorage, Credentials, Duplex, Error, Event, ExecOutput, ExecRequest, ExecSession,
    Image, Info, Inspected, Listed, LogOptions, PullStep, Runtime, SandboxSpec, Started, Stream,
};

#[async_trait]
impl Runtime for Fake {
    async fn info(&self) -> Result<Info, Error> {
        self.engine.enter("info", "")?;
        let known = Info { version: "fake".to_owned(), cpus: 2, memory_bytes: 4 << 30, ..Info::default() };
        Ok(Info { cgroup_driver: "cgroupfs".to_owned(), cgroup_version: 2, ..known })
    }

    async fn list(&self) -> Result<Vec<Listed>, Error> {
        self.engine.enter("list", "")?;
        let containers = self.engine.containers();
        let mine = containers.values().filter(|record| record.node == self.node);
        Ok(mine
            .map(|record| Listed {
                id: record.id.clone(),
                identity: record.identity.clone(),
                running: record.state.is_running(),
                state: match &record.state {
                    State::Running { .. } => "running",
                    State::Exited(exit) if exit.started_at.is_some() => "exited",
                    // As Docker lists a container whose start failed.
                    State::Created | State::Exited(_) => "created",
                }
                .to_owned(),
            })
            .collect())
    }

    async fn inspect(&self, id: &str) -> Result<Inspected, Error> {
        self.engine.enter("inspect", id)?;
        if self.engine.faults.lock().unwrap().hung.contains(id) {
            tokio::time::sleep(HANG).await;
            return Err(Error::Unreachable {
                operation: "inspect the container",
                message: "no answer".to_owned(),
            });
        }
        self.with(id, |record| record.seen())
    }

    async fn events(&self) -> Result<BoxStream<'static, Result<Event, Error>>, Error> {
        self.engine.enter("events", "")?;
        let source = (self.engine.events.subscribe(), self.engine.up.subscribe(), self.node.clone());
        let events = stream::unfold(source, |(mut events, mut up, node)| async move {
            loop {
                tokio::select! {
                    biased;
                    _ = async { up.wait_for(|up| !up).await.is_ok() } => return None,
                    event = events.recv() => match event {
                        Ok((whose, event)) if whose == node => return Some((Ok(event), (events, up, node))),
                        Ok(_) | Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return None,
                    },
                }
            }
        });
        Ok(events.boxed())
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Error> {
        self.engine.enter("create_sandbox", &spec.identity.pod)?;
        match self.make(&spec.identity, Kind::Sandbox) {
            Inspected::Sandbox(_, sandbox) => Ok(sandbox),
            Inspected::Container(..) => Err(refused("create the sandbox", "a container bears its name")),
        }
    }

    async fn create_container(&self, spec: &ContainerSpec) -> Result<Container, Error> {
        self.engine.enter("create_container", &spec.identity.container)?;
        match self.make(&spec.identity, Kind::Container(Box::new(spec.clone()))) {
            Inspected::Container(_, container) => Ok(container),
            Inspected::Sandbox(..) => Err(refused("create the container", "a sandbox bears its name")),
        }
    }

    async fn start(&self, id: &str) -> Result<Started, Error> {
        self.engine.enter("start", id)?;
        self.start_container(id)?;
        Ok(Started { seen: self.with(id, |record| record.seen())?, omitted: Vec::new() })
    }

    async fn signal(&self, id: &str, signal: &str) -> Result<(), Error> {
        self.engine.enter("signal", &format!("{id} {signal}"))?;
        self.deliver_signal(id, signal)
    }

    async fn wait(&self, id: &str, at_most: Duration) -> Result<bool, Error> {
        self.engine.enter("wait", id)?;
        match self.with(id, |record| record.ended.subscribe()) {
            Ok(ended) => Ok(until_ended(ended, at_most).await),
            Err(_) => Ok(true),
        }
    }

    async fn remove(&self, id: &str) -> Result<(), Error> {
        self.engine.enter("remove", id)?;
        if self.with(id, |_| ()).is_ok() {
            self.engine.take(id, false);
        }
        Ok(())
    }

    async fn exec(
        &self,
        id: &str,
        command: &[String],
        at_most: Duration,
        limit: usize,
    ) -> Result<ExecOutput, Error> {
        self.engine.enter("exec", id)?;
        if !self.with(id, |record| record.state.is_running())? {
            return Err(refused("run the command", "the container is not running"));
        }
        let program = Program::of(command).map_err(|message| refused("run the command", &message))?;
        let mut output = Vec::new();
        let run = async {
            for step in program.steps {
                match step {
                    Step::Say(line) => output.extend_from_slice(format!("{line}\n").as_bytes()),
                    Step::Sleep(time) => tokio::time::sleep(time).await,
                    Step::Idle => return 0,
                    Step::Exit(code) => return code,
                }
            }
            0
        };
        let exit_code = tokio::time::timeout(at_most, run).await.ok();
        output.truncate(limit);
        Ok(ExecOutput { exit_code, output })
    }

    /// Runs one of three kinds of commands. `exit 3` ends at once with this code. `count` reports in
    /// [`Fake::calls`] how many bytes of input it got. Any other command acts as `cat`.
    async fn exec_start(&self, id: &str, request: &ExecRequest) -> Result<ExecSession, Error> {
        self.engine.enter("exec_start", id)?;
        self.with(id, |_| ())?;
        if let [word, code] = &request.command[..]
            && word == "exit"
        {
            let output = stream::empty().boxed();
            return Ok(ExecSession {
                id: format!("exit {code}"),
                output,
                input: Box::pin(tokio::io::sink()),
            });
        }
        let (near, mut far) = tokio::io::duplex(1024);
        if request.command == ["count"] {
            let engine = self.engine.clone();
            tokio::spawn(async move {
                let given = tokio::io::copy(&mut far, &mut tokio::io::sink()).await.unwrap_or_default();
                engine.note(|| format!("counted {given}"));
            });
            let output = stream::pending().boxed();
            return Ok(ExecSession { id: "count".to_owned(), output, input: Box::pin(near) });
        }
        let output = stream::unfold(far, |mut far| async move {
            let mut piece = vec![0; 1024];
            let read = far.read(&mut piece).await.unwrap_or(0);
            piece.truncate(read);
            (read > 0).then(|| (Ok((Stream::Stdout, Bytes::from(piece))), far))
        });
        Ok(ExecSession { id: "cat".to_owned(), output: output.boxed(), input: Box::pin(near) })
    }

    async fn exec_resize(&self, session: &str, _width: u16, _height: u16) -> Result<(), Error> {
        self.engine.enter("exec_resize", session)
    }

    async fn exec_exit_code(&self, session: &str) -> Result<Option<i32>, Error> {
        self.engine.enter("exec_exit_code", session)?;
        Ok(Some(session.strip_prefix("exit ").and_then(|code| code.parse().ok()).unwrap_or(0)))
    }

    async fn attach(&self, id: &str, _stdin: bool) -> Result<ExecSession, Error> {
        if !self.with(id, |record| record.state.is_running())? {
            // As in Docker, the stream is silent and never ends.
            let output = stream::pending().boxed();
            return Ok(ExecSession { id: String::new(), output, input: Box::pin(tokio::io::sink()) });
        }
        let output =
            self.logs(id, &LogOptions { follow: true, tail: Some(0), ..LogOptions::default() }).await?;
        Ok(ExecSession { id: String::new(), output, input: Box::pin(tokio::io::sink()) })
    }

    async fn attach_resize(&self, id: &str, _width: u16, _height: u16) -> Result<(), Error> {
        self.engine.enter("attach_resize", id)?;
        self.with(id, |_| ())
    }

    /// Connects to one of the two open ports. Port 7 echoes its input. Port 8 sends nothing and never closes.
    async fn dial(&self, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error> {
        self.engine.enter("dial", pod.as_str())?;
        let has_network = |record: &Record| {
            let is_sandbox = matches!(record.kind, Kind::Sandbox) && record.state.is_running();
            is_sandbox && record.identity.uid == *pod
        };
        if !self.engine.containers().values().any(has_network) {
            return Err(refused("connect to the port", "the pod has no running sandbox"));
        }
        if !matches!(port, 7 | 8) {
            return Err(refused("connect to the port", "connection refused"));
        }
        let (near, far) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(far);
            if port == 8 {
                let _ = tokio::io::copy(&mut read, &mut tokio::io::sink()).await;
                // Its direction stays open until the client disconnects.
                return std::future::pending().await;
            }
            let _ = tokio::io::copy(&mut read, &mut write).await;
            let _ = write.shutdown().await;
        });
        Ok(Box::new(near))
    }

    async fn logs(
        &self,
        id: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error> {
        self.engine.enter("logs", id)?;
        let (log, ended) = self.with(id, |record| (record.log.subscribe(), record.ended.subscribe()))?;
        let LogOptions { follow, tail, since, until, timestamps } = options.clone();
        let first = tail
            .map_or(0, |tail| log.borrow().len().saturating_sub(usize::try_from(tail).unwrap_or(usize::MAX)));
        let lines = stream::unfold((log, ended, first), move |(mut log, mut ended, mut next)| async move {
            loop {
                let is_over = *ended.borrow_and_update();
                let line = log.borrow_and_update().get(next).cloned();
                if let Some((at, stream, line)) = line {
                    next += 1;
                    if since.is_some_and(|since| at < since) || until.is_some_and(|until| at > until) {
                        continue;
                    }
                    let line = if timestamps { format!("{at} {line}") } else { line };
                    return Some((Ok((stream, Bytes::from(line))), (log, ended, next)));
                }
                if !follow || is_over {
                    return None;
                }
                tokio::select! {
                    changed = log.changed() => changed.ok()?,
                    changed = ended.changed() => changed.ok()?,
                }
            }
        });
        Ok(lines.boxed())
    }

    async fn storage(&self, id: &str) -> Result<ContainerStorage, Error> {
        self.engine.enter("storage", id)?;
        self.with(id, |_| ContainerStorage::default())
    }

    async fn images(&self) -> Result<Vec<Image>, Error> {
        self.engine.enter("images", "")?;
        Ok(self.engine.images.lock().unwrap().all())
    }

    async fn images_in_use(&self) -> Result<BTreeSet<String>, Error> {
        self.engine.enter("images_in_use", "")?;
        let seen: Vec<Inspected> = self.engine.containers().values().map(Record::seen).collect();
        let ids = seen.into_iter().filter_map(|seen| match seen {
            Inspected::Container(_, container) => Some(container.image_id),
            Inspected::Sandbox(..) => None,
        });
        Ok(ids.collect())
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        self.engine.enter("remove_image", name)?;
        self.engine.images.lock().unwrap().remove(name);
        Ok(())
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, Error> {
        self.engine.enter("image", name)?;
        Ok(self.engine.images.lock().unwrap().find(name))
    }

    async fn pull(
        &self,
        name: &str,
        credentials: Option<&Credentials>,
    ) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error> {
        self.engine.enter("pull", name)?;
        let steps = self.engine.images.lock().unwrap().pull(name, credentials);
        // Each step takes some time, so that other requests can arrive meanwhile.
        let slowly = stream::iter(steps).then(|step| async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            step
        });
        Ok(slowly.boxed())
    }
}

fn refused(operation: &'static str, message: &str) -> Error {
    Error::refused(operation, message)
}
