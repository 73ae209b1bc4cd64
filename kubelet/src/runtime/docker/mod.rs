//! Runtime implementation for the Docker engine.
//!
//! Requests are sent through bollard. The kubelet implements connections ([`transport`]) and streams (events, logs,
//! exec) itself, because it must know when a stream starts and needs its raw bytes.

mod capabilities;
mod create;
mod dial;
mod dial_limits;
mod errors;
mod events;
mod exec;
mod image;
mod inspect;
mod lifecycle;
mod logs;
mod omitted;
mod pause;
mod restrictions;
mod stream;
#[cfg(test)]
mod stub;
mod transport;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::sync::{OnceCell, Semaphore};

use super::{
    ContainerSpec, ContainerStorage, Credentials, Duplex, Error, Event, ExecOutput, ExecRequest, ExecSession,
    Image, Info, Inspected, Listed, LogOptions, PullStep, Runtime, SandboxSpec, Started, Stream, labels,
};
use crate::observed::{self, PodUid};
use errors::with_timeout;
pub use pause::pause_image;
pub use transport::InvalidEndpoint;
use transport::{Endpoint, Transport};

/// Maximum number of starts in parallel. Starting is CPU-bound (runc, network hook): on two cores, 2, 4, 8 and 16
/// in parallel gave 4.6, 5.1, 5.1 and 5.5 pods per second.
const STARTS_AT_ONCE: usize = 4;

/// Maximum number of creations in parallel. More would only wait in the engine, each with a connection of about 20
/// KiB.
const CREATES_AT_ONCE: usize = 4;

/// Timeout of bollard in seconds. It does not cover bodies. The timeouts of the kubelet are shorter and apply
/// first.
const BOLLARD_LIMIT_SECONDS: u64 = 600;

/// Log settings of containers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size in bytes at which a log file is rotated.
    pub log_max_bytes: u64,
    /// Maximum number of log files per container.
    pub log_max_files: u32,
}

impl Default for Settings {
    /// The defaults of `containerLogMaxSize` and `containerLogMaxFiles` in KubeletConfiguration: 10 MiB and 5
    /// files.
    fn default() -> Self {
        Self { log_max_bytes: 10 * 1024 * 1024, log_max_files: 5 }
    }
}

/// A Docker engine that one node uses.
pub struct Docker {
    client: bollard::Docker,
    transport: Arc<Transport>,
    node: String,
    settings: Settings,
    negotiated: OnceCell<()>,
    creates: Semaphore,
    starts: Semaphore,
    dial_limits: dial_limits::DialLimits,
    restrictions: restrictions::Restrictions,
    pause: pause::Pause,
}

impl Docker {
    /// Creates a client of the engine at `unix://PATH` or `tcp://HOST:PORT`. It sends no request yet, so an
    /// unavailable engine is an error of the first request.
    ///
    /// # Errors
    /// If the endpoint is invalid.
    pub fn connect(endpoint: &str, node: &str, settings: Settings) -> Result<Self, InvalidEndpoint> {
        let transport = Arc::new(Transport::new(Endpoint::parse(endpoint)?));
        let sender = transport.clone();
        let client = bollard::Docker::connect_with_custom_transport(
            move |request| {
                let sender = sender.clone();
                async move { sender.send(request).await }
            },
            Some("http://localhost"),
            BOLLARD_LIMIT_SECONDS,
            bollard::API_DEFAULT_VERSION,
        )
        .map_err(|_| InvalidEndpoint::of(endpoint))?
        .with_request_modifier(image::url_safe_credentials);
        Ok(Self {
            client,
            transport,
            node: node.to_owned(),
            settings,
            negotiated: OnceCell::new(),
            creates: Semaphore::new(CREATES_AT_ONCE),
            starts: Semaphore::new(STARTS_AT_ONCE),
            dial_limits: dial_limits::DialLimits::default(),
            restrictions: restrictions::Restrictions::default(),
            pause: pause::Pause::default(),
        })
    }

    /// The client, after API version negotiation.
    async fn client(&self) -> Result<&bollard::Docker, Error> {
        let negotiate = || async {
            let agreed = self.client.clone().negotiate_version();
            with_timeout(errors::QUERY_TIMEOUT, "agree on an API version", "the engine", agreed)
                .await
                .map(drop)
        };
        self.negotiated.get_or_try_init(negotiate).await?;
        Ok(&self.client)
    }

    /// The label filter for containers of this node. It is part of every query.
    fn node_filter(&self) -> HashMap<String, Vec<String>> {
        HashMap::from([("label".to_owned(), vec![format!("{}={}", labels::NODE, self.node)])])
    }
}

#[async_trait]
impl Runtime for Docker {
    async fn info(&self) -> Result<Info, Error> {
        inspect::info(self).await
    }

    async fn list(&self) -> Result<Vec<Listed>, Error> {
        inspect::list(self).await
    }

    async fn inspect(&self, id: &str) -> Result<Inspected, Error> {
        inspect::inspect(self, id).await
    }

    async fn events(&self) -> Result<BoxStream<'static, Result<Event, Error>>, Error> {
        events::events(self).await
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<observed::Sandbox, Error> {
        create::sandbox(self, spec).await
    }

    async fn create_container(&self, spec: &ContainerSpec) -> Result<observed::Container, Error> {
        create::container(self, spec).await
    }

    async fn start(&self, id: &str) -> Result<Started, Error> {
        lifecycle::start(self, id).await
    }

    async fn signal(&self, id: &str, signal: &str) -> Result<(), Error> {
        lifecycle::signal(self, id, signal).await
    }

    async fn wait(&self, id: &str, at_most: Duration) -> Result<bool, Error> {
        lifecycle::wait(self, id, at_most).await
    }

    async fn remove(&self, id: &str) -> Result<(), Error> {
        lifecycle::remove(self, id).await
    }

    async fn exec(
        &self,
        id: &str,
        command: &[String],
        at_most: Duration,
        limit: usize,
    ) -> Result<ExecOutput, Error> {
        exec::run(self, id, command, at_most, limit).await
    }

    async fn exec_start(&self, id: &str, request: &ExecRequest) -> Result<ExecSession, Error> {
        exec::start(self, id, request).await
    }

    async fn exec_resize(&self, session: &str, width: u16, height: u16) -> Result<(), Error> {
        exec::resize(self, session, width, height).await
    }

    async fn exec_exit_code(&self, session: &str) -> Result<Option<i32>, Error> {
        exec::exit_code(self, session).await
    }

    async fn attach(&self, id: &str, stdin: bool) -> Result<ExecSession, Error> {
        exec::attach(self, id, stdin).await
    }

    async fn dial(&self, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error> {
        dial::dial(self, pod, port).await
    }

    async fn attach_resize(&self, id: &str, width: u16, height: u16) -> Result<(), Error> {
        exec::attach_resize(self, id, width, height).await
    }

    async fn logs(
        &self,
        id: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error> {
        logs::logs(self, id, options).await
    }

    async fn storage(&self, id: &str) -> Result<ContainerStorage, Error> {
        inspect::storage(self, id).await
    }

    async fn images(&self) -> Result<Vec<Image>, Error> {
        image::images(self).await
    }

    async fn images_in_use(&self) -> Result<BTreeSet<String>, Error> {
        inspect::images_in_use(self).await
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        image::remove(self, name).await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, Error> {
        image::image(self, name).await
    }

    async fn pull(
        &self,
        name: &str,
        credentials: Option<&Credentials>,
    ) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error> {
        image::pull(self, name, credentials).await
    }
}
