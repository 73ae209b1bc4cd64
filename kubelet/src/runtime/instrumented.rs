//! Wraps a runtime and records metrics of every request.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;

use super::{
    ContainerSpec, ContainerStorage, Credentials, Duplex, Error, Event, ExecOutput, ExecRequest, ExecSession,
    Image, Info, Inspected, Listed, LogOptions, PullStep, Runtime, SandboxSpec, Started, Stream,
};
use crate::metrics::Metrics;
use crate::observed::{self, PodUid};

/// A runtime that records count, duration and errors of requests. `NotFound` does not count as an error.
pub struct InstrumentedRuntime {
    engine: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
}

impl InstrumentedRuntime {
    /// Wraps an engine.
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
impl Runtime for InstrumentedRuntime {
    async fn info(&self) -> Result<Info, Error> {
        self.measure("status", self.engine.info()).await
    }

    async fn list(&self) -> Result<Vec<Listed>, Error> {
        self.measure("list_containers", self.engine.list()).await
    }

    async fn inspect(&self, id: &str) -> Result<Inspected, Error> {
        self.measure("container_status", self.engine.inspect(id)).await
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
        // The time that a container takes to exit is no measure of the engine.
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

    async fn storage(&self, id: &str) -> Result<ContainerStorage, Error> {
        self.measure("container_stats", self.engine.storage(id)).await
    }

    async fn images(&self) -> Result<Vec<Image>, Error> {
        self.measure("list_images", self.engine.images()).await
    }

    async fn images_in_use(&self) -> Result<BTreeSet<String>, Error> {
        self.measure("list_containers", self.engine.images_in_use()).await
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        self.measure("remove_image", self.engine.remove_image(name)).await
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
mod tests {
    //! Tests that the instrumented runtime passes the contract tests and records its requests.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use super::InstrumentedRuntime;
    use crate::metrics::{Metrics, Running};
    use crate::runtime::contract::Bench;
    use crate::runtime::fake::Fake;
    use crate::runtime::{Error, Runtime as _};

    async fn bench(_test: &str) -> Bench {
        let fake = Fake::new("n1");
        let metrics = Arc::new(Metrics::new("n1", "v1.36.0"));
        Bench {
            runtime: InstrumentedRuntime::new(Arc::new(fake.clone()), metrics.clone()),
            neighbour: InstrumentedRuntime::new(Arc::new(fake.neighbour("n2")), metrics),
            sandbox_image: "coracle/pause:fake".to_owned(),
            image: "coracle/busybox:1".to_owned(),
        }
    }

    crate::runtime_contract!(bench);

    #[tokio::test]
    async fn metrics_count_engine_requests_and_failures() {
        let fake = Fake::new("n1");
        let metrics = Arc::new(Metrics::new("n1", "v1.36.0"));
        let engine = InstrumentedRuntime::new(Arc::new(fake.clone()), metrics.clone());
        engine.list().await.unwrap();
        fake.fail_next("list", Error::Unreachable { operation: "list", message: String::new() });
        engine.list().await.unwrap_err();
        // "Not found" is not an error.
        engine.inspect("nothing").await.unwrap_err();
        let text = metrics.text(Running::default());
        for line in [
            "kubelet_runtime_operations_total{operation_type=\"list_containers\"} 2",
            "kubelet_runtime_operations_errors_total{operation_type=\"list_containers\"} 1",
            "kubelet_runtime_operations_duration_seconds_count{operation_type=\"container_status\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("errors_total{operation_type=\"container_status\"}"), "{text}");
    }
}
