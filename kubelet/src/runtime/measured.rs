//! The same engine, with every request counted and timed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;

use super::{
    ContainerSpec, Credentials, Duplex, Error, Event, ExecOutput, ExecRequest, ExecSession, Image, Info,
    Listed, LogOptions, PullStep, Runtime, SandboxSpec, Seen, Started, Stream,
};
use crate::metrics::Metrics;
use crate::observed::{self, PodUid};

/// Counts what goes through the door. Something that is not there is an answer, not an error.
pub struct Measured {
    engine: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
}

impl Measured {
    /// Counts what is asked of this engine.
    pub fn new(engine: Arc<dyn Runtime>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { engine, metrics })
    }

    async fn measure<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        let done = work.await;
        let succeeded = matches!(done, Ok(_) | Err(Error::NotFound { .. }));
        self.metrics.engine_operation(operation, began.elapsed().as_secs_f64(), succeeded);
        done
    }
}

#[async_trait]
impl Runtime for Measured {
    async fn info(&self) -> Result<Info, Error> {
        self.measure("status", self.engine.info()).await
    }

    async fn list(&self) -> Result<Vec<Listed>, Error> {
        self.measure("list_containers", self.engine.list()).await
    }

    async fn look(&self, id: &str) -> Result<Seen, Error> {
        self.measure("container_status", self.engine.look(id)).await
    }

    async fn events(&self) -> Result<BoxStream<'static, Result<Event, Error>>, Error> {
        self.measure("container_events", self.engine.events()).await
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<observed::Sandbox, Error> {
        self.measure("create_podsandbox", self.engine.create_sandbox(spec)).await
    }

    async fn create_container(&self, spec: &ContainerSpec) -> Result<observed::Container, Error> {
        self.measure("create_container", self.engine.create_container(spec)).await
    }

    async fn start(&self, id: &str) -> Result<Started, Error> {
        self.measure("start_container", self.engine.start(id)).await
    }

    async fn signal(&self, id: &str, signal: &str) -> Result<(), Error> {
        self.measure("stop_container", self.engine.signal(id, signal)).await
    }

    async fn wait(&self, id: &str, at_most: Duration) -> Result<bool, Error> {
        // How long a container takes to end says nothing of the engine.
        self.engine.wait(id, at_most).await
    }

    async fn remove(&self, id: &str) -> Result<(), Error> {
        self.measure("remove_container", self.engine.remove(id)).await
    }

    async fn exec(
        &self,
        id: &str,
        command: &[String],
        at_most: Duration,
        limit: usize,
    ) -> Result<ExecOutput, Error> {
        self.measure("exec_sync", self.engine.exec(id, command, at_most, limit)).await
    }

    async fn exec_start(&self, id: &str, request: &ExecRequest) -> Result<ExecSession, Error> {
        self.measure("exec", self.engine.exec_start(id, request)).await
    }

    async fn exec_resize(&self, session: &str, width: u16, height: u16) -> Result<(), Error> {
        self.measure("exec_resize", self.engine.exec_resize(session, width, height)).await
    }

    async fn exec_exit_code(&self, session: &str) -> Result<Option<i32>, Error> {
        self.measure("exec_status", self.engine.exec_exit_code(session)).await
    }

    async fn attach_resize(&self, id: &str, width: u16, height: u16) -> Result<(), Error> {
        self.measure("attach_resize", self.engine.attach_resize(id, width, height)).await
    }

    async fn attach(&self, id: &str, stdin: bool) -> Result<ExecSession, Error> {
        self.measure("attach", self.engine.attach(id, stdin)).await
    }

    async fn dial(&self, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error> {
        self.measure("port_forward", self.engine.dial(pod, port)).await
    }

    async fn logs(
        &self,
        id: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error> {
        self.measure("container_logs", self.engine.logs(id, options)).await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, Error> {
        self.measure("image_status", self.engine.image(name)).await
    }

    async fn pull(
        &self,
        name: &str,
        credentials: Option<&Credentials>,
    ) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error> {
        self.measure("pull_image", self.engine.pull(name, credentials)).await
    }
}

#[cfg(test)]
mod tests;
