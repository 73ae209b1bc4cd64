//! Wraps the container engine, so that sandboxes use the kubelet's pod network.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;

use super::Native;
use super::native::NetworkState;
use crate::observed::{self, Exit, PodUid, State};
use crate::runtime::spec::Network;
use crate::runtime::{
    ContainerSpec, ContainerStorage, Credentials, Duplex, Error, Event, ExecOutput, ExecRequest, ExecSession,
    Identity, Image, Info, Inspected, Listed, LogOptions, PullStep, Runtime, SandboxSpec, Started, Stream,
};

/// A container engine whose sandboxes get their network from the kubelet. A running sandbox without its veth is
/// shown as not started, because starting it again creates the veth. A sandbox whose network is lost is shown as
/// exited. Sandboxes with a network of the engine or of the host are passed through unchanged.
pub struct Networked {
    engine: Arc<dyn Runtime>,
    native: Arc<Native>,
    /// Whether new sandboxes get the kubelet's network.
    serves_new_pods: bool,
}

impl Networked {
    /// Wraps the engine. New sandboxes get the kubelet's network.
    pub fn new(engine: Arc<dyn Runtime>, native: Arc<Native>) -> Arc<Self> {
        Arc::new(Self { engine, native, serves_new_pods: true })
    }

    /// Wraps the engine for existing sandboxes only. New ones get the engine's network.
    pub fn for_existing_sandboxes(engine: Arc<dyn Runtime>, native: Arc<Native>) -> Arc<Self> {
        Arc::new(Self { engine, native, serves_new_pods: false })
    }

    /// Returns the sandbox with its network state.
    fn with_network(&self, identity: &Identity, mut sandbox: observed::Sandbox) -> observed::Sandbox {
        let process = match sandbox.state {
            State::Running { pid, .. } => Some(pid),
            State::Created => None,
            State::Exited(_) => return sandbox,
        };
        match self.native.network_state(identity, &sandbox, process) {
            NetworkState::NotOurs => {}
            NetworkState::Up(addresses) => sandbox.ips = addresses,
            NetworkState::Down(addresses) => {
                sandbox.ips = addresses;
                sandbox.state = State::Created;
            }
            NetworkState::Lost => {
                sandbox.state = State::Exited(Exit {
                    code: 0,
                    oom_killed: false,
                    error: Some("its network connection is lost".to_owned()),
                    started_at: None,
                    finished_at: sandbox.created_at,
                });
            }
        }
        sandbox
    }
}

#[async_trait]
impl Runtime for Networked {
    async fn list(&self) -> Result<Vec<Listed>, Error> {
        let before = self.native.known_sandboxes();
        let mut listed = self.engine.list().await?;
        // A running sandbox that has lost its addresses is listed as exited, so that it is inspected again.
        for found in
            listed.iter_mut().filter(|found| found.running && self.native.has_lost_addresses(&found.id))
        {
            (found.running, found.state) = (false, "exited".to_owned());
        }
        let kept = listed.iter().map(|found| &found.identity);
        self.native.release_missing(before, kept).await;
        Ok(listed)
    }

    async fn inspect(&self, id: &str) -> Result<Inspected, Error> {
        Ok(match self.engine.inspect(id).await? {
            Inspected::Sandbox(identity, sandbox) => {
                let sandbox = self.with_network(&identity, sandbox);
                Inspected::Sandbox(identity, sandbox)
            }
            container @ Inspected::Container(..) => container,
        })
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<observed::Sandbox, Error> {
        if spec.network == Network::Host || !self.serves_new_pods {
            let dns = self.native.dns_of_host_pod(&spec.dns).await;
            return self.engine.create_sandbox(&SandboxSpec { dns, ..spec.clone() }).await;
        }
        let _creation = self.native.reserve(spec).await?;
        let bare = SandboxSpec {
            network: Network::Bare,
            host_ports: Vec::new(),
            host_aliases: Vec::new(),
            dns: Default::default(),
            ..spec.clone()
        };
        let made = self.engine.create_sandbox(&bare).await?;
        Ok(self.with_network(&spec.identity, made))
    }

    async fn create_container(&self, spec: &ContainerSpec) -> Result<observed::Container, Error> {
        let mounts = self.native.mounts(spec);
        if mounts.is_empty() {
            return self.engine.create_container(spec).await;
        }
        let mut spec = spec.clone();
        spec.mounts.extend(mounts);
        self.engine.create_container(&spec).await
    }

    async fn start(&self, id: &str) -> Result<Started, Error> {
        let Started { seen, omitted } = self.engine.start(id).await?;
        let seen = match seen {
            Inspected::Sandbox(identity, sandbox) => {
                if let State::Running { pid, .. } = sandbox.state {
                    self.native.attach(&identity, pid).await?;
                }
                let sandbox = self.with_network(&identity, sandbox);
                Inspected::Sandbox(identity, sandbox)
            }
            container @ Inspected::Container(..) => container,
        };
        Ok(Started { seen, omitted })
    }

    async fn remove(&self, id: &str) -> Result<(), Error> {
        self.engine.remove(id).await?;
        self.native.release(id).await;
        Ok(())
    }

    async fn info(&self) -> Result<Info, Error> {
        self.engine.info().await
    }

    async fn events(&self) -> Result<BoxStream<'static, Result<Event, Error>>, Error> {
        self.engine.events().await
    }

    async fn signal(&self, id: &str, signal: &str) -> Result<(), Error> {
        self.engine.signal(id, signal).await
    }

    async fn wait(&self, id: &str, at_most: Duration) -> Result<bool, Error> {
        self.engine.wait(id, at_most).await
    }

    async fn exec(
        &self,
        id: &str,
        command: &[String],
        at_most: Duration,
        limit: usize,
    ) -> Result<ExecOutput, Error> {
        self.engine.exec(id, command, at_most, limit).await
    }

    async fn exec_start(&self, id: &str, request: &ExecRequest) -> Result<ExecSession, Error> {
        self.engine.exec_start(id, request).await
    }

    async fn exec_resize(&self, session: &str, width: u16, height: u16) -> Result<(), Error> {
        self.engine.exec_resize(session, width, height).await
    }

    async fn exec_exit_code(&self, session: &str) -> Result<Option<i32>, Error> {
        self.engine.exec_exit_code(session).await
    }

    async fn attach(&self, id: &str, stdin: bool) -> Result<ExecSession, Error> {
        self.engine.attach(id, stdin).await
    }

    async fn attach_resize(&self, id: &str, width: u16, height: u16) -> Result<(), Error> {
        self.engine.attach_resize(id, width, height).await
    }

    async fn dial(&self, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error> {
        self.engine.dial(pod, port).await
    }

    async fn logs(
        &self,
        id: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error> {
        self.engine.logs(id, options).await
    }

    async fn storage(&self, id: &str) -> Result<ContainerStorage, Error> {
        self.engine.storage(id).await
    }

    async fn images(&self) -> Result<Vec<Image>, Error> {
        self.engine.images().await
    }

    async fn images_in_use(&self) -> Result<BTreeSet<String>, Error> {
        self.engine.images_in_use().await
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        self.engine.remove_image(name).await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, Error> {
        self.engine.image(name).await
    }

    async fn pull(
        &self,
        name: &str,
        credentials: Option<&Credentials>,
    ) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error> {
        self.engine.pull(name, credentials).await
    }
}
