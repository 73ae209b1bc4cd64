//! Test bed for probes: a pod, an engine with one command, servers, and waiting for results.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::metrics::Metrics;
use crate::observed::probes::{Kind, ProbeResult};
use crate::observed::{self, PodUid, Timestamp};
use crate::probes::{Prober, Target};
use crate::report::Outbox;
use crate::runtime::*;

/// Behaviour of the engine's command.
#[derive(Clone, Debug)]
pub enum Does {
    /// Exits with that code and output.
    Ends(i32, &'static str),
    /// Never ends.
    Hangs,
    /// The engine cannot run it.
    Fails,
}

/// An engine in which each command takes the next behaviour of a script; the last one repeats.
pub struct Engine {
    script: Mutex<VecDeque<Does>>,
    ran: Mutex<Vec<(Instant, Vec<String>)>>,
}

impl Engine {
    pub fn new(script: &[Does]) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(script.iter().cloned().collect()), ran: Mutex::default() })
    }

    /// Start times of commands, in milliseconds after `start`.
    pub fn ran_at(&self, start: Instant) -> Vec<u128> {
        self.ran.lock().unwrap().iter().map(|(at, _)| (*at - start).as_millis()).collect()
    }

    /// The last command.
    pub fn last(&self) -> Vec<String> {
        self.ran.lock().unwrap().last().unwrap().1.clone()
    }
}

#[async_trait]
#[expect(unused_variables, reason = "only exec is ever asked")]
impl Runtime for Engine {
    async fn info(&self) -> Result<Info, Error> {
        unreachable!("probes only run commands")
    }

    async fn list(&self) -> Result<Vec<Listed>, Error> {
        unreachable!("probes only run commands")
    }

    async fn inspect(&self, id: &str) -> Result<Inspected, Error> {
        unreachable!("probes only run commands")
    }

    async fn events(&self) -> Result<BoxStream<'static, Result<Event, Error>>, Error> {
        unreachable!("probes only run commands")
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<observed::Sandbox, Error> {
        unreachable!("probes only run commands")
    }

    async fn create_container(&self, spec: &ContainerSpec) -> Result<observed::Container, Error> {
        unreachable!("probes only run commands")
    }

    async fn start(&self, id: &str) -> Result<Started, Error> {
        unreachable!("probes only run commands")
    }

    async fn signal(&self, id: &str, signal: &str) -> Result<(), Error> {
        unreachable!("probes only run commands")
    }

    async fn wait(&self, id: &str, at_most: Duration) -> Result<bool, Error> {
        unreachable!("probes only run commands")
    }

    async fn remove(&self, id: &str) -> Result<(), Error> {
        unreachable!("probes only run commands")
    }

    async fn exec(
        &self,
        id: &str,
        command: &[String],
        at_most: Duration,
        limit: usize,
    ) -> Result<ExecOutput, Error> {
        self.ran.lock().unwrap().push((Instant::now(), command.to_vec()));
        let does = {
            let mut script = self.script.lock().unwrap();
            if script.len() > 1 { script.pop_front().unwrap() } else { script.front().unwrap().clone() }
        };
        match does {
            Does::Ends(exit_code, output) => {
                Ok(ExecOutput { exit_code: Some(exit_code), output: output.as_bytes().to_vec() })
            }
            Does::Hangs => {
                let _ = tokio::time::timeout(at_most, std::future::pending::<()>()).await;
                Ok(ExecOutput { exit_code: None, output: Vec::new() })
            }
            Does::Fails => Err(Error::refused("run a command", "no such container")),
        }
    }

    async fn exec_start(&self, id: &str, request: &ExecRequest) -> Result<ExecSession, Error> {
        unreachable!("probes only run commands")
    }

    async fn exec_resize(&self, session: &str, width: u16, height: u16) -> Result<(), Error> {
        unreachable!("probes only run commands")
    }

    async fn exec_exit_code(&self, session: &str) -> Result<Option<i32>, Error> {
        unreachable!("probes only run commands")
    }

    async fn attach(&self, id: &str, stdin: bool) -> Result<ExecSession, Error> {
        unreachable!("probes only run commands")
    }

    async fn attach_resize(&self, id: &str, width: u16, height: u16) -> Result<(), Error> {
        unreachable!("probes only run commands")
    }

    async fn dial(&self, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error> {
        unreachable!("probes only run commands")
    }

    async fn logs(
        &self,
        id: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error> {
        unreachable!("probes only run commands")
    }

    async fn storage(&self, id: &str) -> Result<ContainerStorage, Error> {
        unreachable!("probes only run commands")
    }

    async fn images(&self) -> Result<Vec<Image>, Error> {
        unreachable!("probes only run commands")
    }

    async fn images_in_use(&self) -> Result<BTreeSet<String>, Error> {
        unreachable!("probes only run commands")
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        unreachable!("probes only run commands")
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, Error> {
        unreachable!("probes only run commands")
    }

    async fn pull(
        &self,
        name: &str,
        credentials: Option<&Credentials>,
    ) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error> {
        unreachable!("probes only run commands")
    }
}

/// A pod and its prober.
pub struct Bed {
    pub prober: Prober,
    pub outbox: Arc<Outbox>,
    changed: Arc<Notify>,
    pub target: Target,
}

impl Bed {
    /// A pod whose container `web` has these fields and starts now.
    pub fn new(engine: Arc<Engine>, container: Value) -> Self {
        let outbox = Outbox::new();
        let changed = Arc::new(Notify::new());
        let prober =
            Prober::new(engine, outbox.clone(), Arc::new(Metrics::new("n", "v1.36.0")), changed.clone());
        Self { prober, outbox, changed, target: target("c1", container) }
    }

    /// Like [`Self::new`], with its prober started.
    pub fn started(engine: Arc<Engine>, container: Value) -> Self {
        let mut bed = Self::new(engine, container);
        bed.sync();
        bed
    }

    pub fn sync(&mut self) {
        self.prober.sync(std::slice::from_ref(&self.target));
    }

    /// Waits for that result of a probe, and returns it.
    pub async fn probe_result(&self, kind: Kind, success: bool) -> ProbeResult {
        let stands = async {
            loop {
                match self.prober.probe_results().get(&self.target.container_id, kind) {
                    Some(probe_result) if probe_result.success == success => return probe_result.clone(),
                    _ => self.changed.notified().await,
                }
            }
        };
        let waited = timeout(Duration::from_secs(60), stands).await;
        waited.unwrap_or_else(|_| panic!("{kind:?} never {success}; {:?}", self.prober.probe_results()))
    }

    /// The current result.
    pub fn stands(&self, kind: Kind) -> Option<bool> {
        self.prober
            .probe_results()
            .get(&self.target.container_id, kind)
            .map(|probe_result| probe_result.success)
    }

    /// Recorded events, as reason and message.
    pub async fn events(&self) -> Vec<String> {
        let mail = timeout(Duration::from_millis(1), self.outbox.take()).await.unwrap_or_default();
        mail.notes.into_iter().map(|note| format!("{}: {}", note.reason, note.message)).collect()
    }
}

/// A container `web` with these fields, running from now on at 127.0.0.1.
pub fn target(id: &str, mut container: Value) -> Target {
    container["name"] = json!("web");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "shop", "namespace": "default", "uid": "u1"},
        "spec": {"containers": [container]},
    }))
    .unwrap();
    Target {
        container_id: id.to_owned(),
        name: "web".to_owned(),
        started_at: Timestamp::now(),
        pod: Arc::new(pod),
        ip: Some("127.0.0.1".parse().unwrap()),
    }
}

/// A server that answers each connection with the next of these responses and closes it; the last response repeats. It keeps
/// the requests.
pub struct Server {
    pub address: SocketAddr,
    pub requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub async fn start(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let requests = server.requests.clone();
        let mut answers: VecDeque<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer =
                    if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                requests.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        server
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn last_request(&self) -> String {
        self.requests.lock().unwrap().last().unwrap().clone()
    }
}
