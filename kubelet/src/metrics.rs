//! Prometheus metrics of the kubelet, with the stock names where they exist.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use command::Process;
use http::StatusCode;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Label names and values of a series.
type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Largest number of Ingresses with series of their own.
const MAX_INGRESSES: usize = 500;

/// All metrics of the kubelet. Each method is cheap enough to call on every event.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    running_pods: Gauge,
    running_containers: Gauges,
    pod_start: Histogram,
    pod_worker: Histograms,
    relist: Histogram,
    relist_interval: Histogram,
    operations: Counters,
    operation_errors: Counters,
    operation_duration: Histograms,
    started_containers: Counters,
    started_container_errors: Counters,
    image_pull: Histogram,
    probes: Counters,
    evictions: Counters,
    images_collected: Counters,
    ingress_requests: Counters,
    ingresses: Mutex<HashSet<(String, String)>>,
    ingress_connections: Gauge,
    count_ingress_connections: OnceLock<Count>,
    process: Process,
}

/// Numbers of pods and containers, counted for each scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Pods with a running container.
    pub pods: i64,
    /// Containers that were created and not started.
    pub created: i64,
    /// Running containers.
    pub running: i64,
    /// Exited containers.
    pub exited: i64,
}

fn operation_seconds() -> Histogram {
    // The stock buckets: 5 ms to 120 s, each 2.5 times the last.
    let base = std::iter::successors(Some(0.005), |bound| Some(bound * 2.5));
    Histogram::new(base.take(14))
}

fn short_seconds() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

fn long_seconds() -> Histogram {
    Histogram::new([
        0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0,
        360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
    ])
}

/// Counts something when the metrics are read.
struct Count(Box<dyn Fn() -> usize + Send + Sync>);

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Count")
    }
}

impl Metrics {
    /// Creates the metrics, all at zero.
    pub fn new(node: &str, git_version: &str) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            running_pods: Gauge::default(),
            running_containers: Gauges::default(),
            pod_start: long_seconds(),
            pod_worker: Family::new_with_constructor(short_seconds),
            relist: short_seconds(),
            relist_interval: short_seconds(),
            operations: Counters::default(),
            operation_errors: Counters::default(),
            operation_duration: Family::new_with_constructor(operation_seconds),
            started_containers: Counters::default(),
            started_container_errors: Counters::default(),
            image_pull: long_seconds(),
            probes: Counters::default(),
            evictions: Counters::default(),
            images_collected: Counters::default(),
            ingress_requests: Counters::default(),
            ingresses: Mutex::default(),
            ingress_connections: Gauge::default(),
            count_ingress_connections: OnceLock::new(),
            process: Process::default(),
        };
        metrics.register(node, git_version);
        metrics
    }

    fn register(&mut self, node: &str, git_version: &str) {
        let build = Gauges::default();
        let (major, minor) = git_version.trim_start_matches('v').split_once('.').unwrap_or_default();
        let minor = minor.split('.').next().unwrap_or_default();
        build
            .get_or_create(&vec![
                ("major", major.to_owned()),
                ("minor", minor.to_owned()),
                ("git_version", git_version.to_owned()),
                ("platform", format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH)),
            ])
            .set(1);
        let name = Gauges::default();
        name.get_or_create(&vec![("node", node.to_owned())]).set(1);
        let r = &mut self.registry;
        r.register(
            "kubelet_ingress_requests",
            "Number of requests to the Ingress controller by Ingress and class of the status code",
            self.ingress_requests.clone(),
        );
        r.register(
            "kubelet_ingress_connections",
            "Number of connections of clients to the Ingress controller",
            self.ingress_connections.clone(),
        );
        r.register(
            "kubernetes_build_info",
            "Version of the kubelet, in labels; the value is always 1",
            build,
        );
        r.register("kubelet_node_name", "Name of the node, in a label; the value is always 1", name);
        r.register(
            "kubelet_running_pods",
            "Number of pods that have a running sandbox",
            self.running_pods.clone(),
        );
        r.register(
            "kubelet_running_containers",
            "Number of containers by state",
            self.running_containers.clone(),
        );
        r.register(
            "kubelet_pod_start_duration_seconds",
            "Time in seconds from first seeing a pod until all its containers have started",
            self.pod_start.clone(),
        );
        r.register(
            "kubelet_pod_worker_duration_seconds",
            "Duration in seconds of one sync of a pod worker, by operation type",
            self.pod_worker.clone(),
        );
        r.register(
            "kubelet_pleg_relist_duration_seconds",
            "Duration in seconds of a relist of all containers",
            self.relist.clone(),
        );
        r.register(
            "kubelet_pleg_relist_interval_seconds",
            "Interval in seconds between two relists of all containers",
            self.relist_interval.clone(),
        );
        r.register(
            "kubelet_runtime_operations",
            "Number of requests to the container engine, by operation type",
            self.operations.clone(),
        );
        r.register(
            "kubelet_runtime_operations_errors",
            "Number of failed requests to the container engine, by operation type",
            self.operation_errors.clone(),
        );
        r.register(
            "kubelet_runtime_operations_duration_seconds",
            "Duration in seconds of requests to the container engine, by operation type",
            self.operation_duration.clone(),
        );
        r.register(
            "kubelet_started_containers",
            "Number of started containers, by container type",
            self.started_containers.clone(),
        );
        r.register(
            "kubelet_started_containers_errors",
            "Number of containers that failed to start, by container type",
            self.started_container_errors.clone(),
        );
        r.register(
            "kubelet_image_pull_duration_seconds",
            "Duration in seconds of image pulls",
            self.image_pull.clone(),
        );
        r.register("prober_probe", "Number of probes by result", self.probes.clone());
        r.register("kubelet_evictions", "Number of evicted pods, by eviction signal", self.evictions.clone());
        r.register(
            "kubelet_image_garbage_collected",
            "Number of images removed by garbage collection, by reason: age or space",
            self.images_collected.clone(),
        );
        self.process.register(r);
    }

    /// Records that all containers of a pod have started, `seconds` after the kubelet first saw the pod.
    pub fn pod_started(&self, seconds: f64) {
        self.pod_start.observe(seconds);
    }

    /// Records an iteration of a pod worker: `create`, `update`, `sync` or `terminate`.
    pub fn pod_worked(&self, operation: &str, seconds: f64) {
        self.pod_worker.get_or_create(&vec![("operation_type", operation.to_owned())]).observe(seconds);
    }

    /// Records a list of all containers, and the seconds since the last one.
    pub fn relisted(&self, seconds: f64, since_last: Option<f64>) {
        self.relist.observe(seconds);
        if let Some(since_last) = since_last {
            self.relist_interval.observe(since_last);
        }
    }

    /// Records a request to the engine, such as `create_container`, `start_container` or `list_containers`.
    pub fn engine_operation(&self, operation: &str, seconds: f64, succeeded: bool) {
        let labels = vec![("operation_type", operation.to_owned())];
        self.operations.get_or_create(&labels).inc();
        self.operation_duration.get_or_create(&labels).observe(seconds);
        if !succeeded {
            self.operation_errors.get_or_create(&labels).inc();
        }
    }

    /// Records the start of a container. `kind` is `container` or `init_container`.
    pub fn container_started(&self, kind: &str, succeeded: bool) {
        let family = if succeeded { &self.started_containers } else { &self.started_container_errors };
        family.get_or_create(&vec![("container_type", kind.to_owned())]).inc();
    }

    /// Records an image pull.
    pub fn image_pulled(&self, seconds: f64) {
        self.image_pull.observe(seconds);
    }

    /// Records an eviction with its eviction signal, such as `memory.available` or `emptydirfs.limit`.
    pub fn evicted(&self, signal: &str) {
        self.evictions.get_or_create(&vec![("eviction_signal", signal.to_owned())]).inc();
    }

    /// Records the removal of an unused image. The reason is `age` or `space`.
    pub fn image_garbage_collected(&self, reason: &str) {
        self.images_collected.get_or_create(&vec![("reason", reason.to_owned())]).inc();
    }

    /// The counters of one probe. The caller keeps them while the probe exists.
    pub fn probe(&self, probe: &Probe<'_>) -> ProbeCounters {
        let counter = |result| self.probes.get_or_create_owned(&probe.labels(result));
        ProbeCounters {
            successful: counter("successful"),
            failed: counter("failed"),
            unknown: counter("unknown"),
        }
    }

    /// Removes the series of a probe whose pod is gone.
    pub fn forget_probe(&self, probe: &Probe<'_>) {
        for result in ["successful", "failed", "unknown"] {
            self.probes.remove(&probe.labels(result));
        }
    }

    /// Counts a request to the Ingress controller. `ingress` is the namespace and name of its Ingress, if one has a rule
    /// for it. Beyond [`MAX_INGRESSES`] Ingresses, others are counted together.
    pub fn ingress_request(&self, ingress: Option<(&str, &str)>, status: StatusCode) {
        let (namespace, name) = match ingress {
            None => ("", ""),
            Some((namespace, name)) => {
                let mut seen = self.ingresses.lock().unwrap_or_else(PoisonError::into_inner);
                let key = (namespace.to_owned(), name.to_owned());
                if seen.contains(&key) || seen.len() < MAX_INGRESSES {
                    seen.insert(key);
                    (namespace, name)
                } else {
                    ("", "other")
                }
            }
        };
        let code = format!("{}xx", status.as_u16() / 100);
        let labels = vec![("namespace", namespace.to_owned()), ("ingress", name.to_owned()), ("code", code)];
        self.ingress_requests.get_or_create(&labels).inc();
    }

    /// Shows the connections to the Ingress controller from now on: `count` returns their number.
    pub fn count_ingress_connections(&self, count: impl Fn() -> usize + Send + Sync + 'static) {
        let _ = self.count_ingress_connections.set(Count(Box::new(count)));
    }

    /// All metrics as OpenMetrics text.
    pub fn text(&self, running: Running) -> String {
        self.running_pods.set(running.pods);
        let states = [("created", running.created), ("running", running.running), ("exited", running.exited)];
        for (state, count) in states {
            self.running_containers.get_or_create(&vec![("container_state", state.to_owned())]).set(count);
        }
        if let Some(Count(count)) = self.count_ingress_connections.get() {
            self.ingress_connections.set(i64::try_from(count()).unwrap_or(i64::MAX));
        }
        self.process.update();
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes any text");
        text
    }
}

/// Counters of one probe by result.
#[derive(Clone, Debug)]
pub struct ProbeCounters {
    /// Number of successful probes.
    pub successful: Counter,
    /// Number of failed probes.
    pub failed: Counter,
    /// Number of probes whose result is unknown.
    pub unknown: Counter,
}

/// The probe of a container.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// Kind of the probe: `Startup`, `Readiness` or `Liveness`.
    pub kind: &'a str,
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub pod: &'a str,
    /// UID of the pod.
    pub uid: &'a str,
    /// Name of the container.
    pub container: &'a str,
}

impl Probe<'_> {
    fn labels(&self, result: &str) -> Labels {
        let own = str::to_owned;
        vec![
            ("probe_type", own(self.kind)),
            ("result", own(result)),
            ("container", own(self.container)),
            ("pod", own(self.pod)),
            ("namespace", own(self.namespace)),
            ("pod_uid", own(self.uid)),
        ]
    }
}
