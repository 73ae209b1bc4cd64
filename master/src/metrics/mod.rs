//! Prometheus metrics, with the names of the stock API server.

mod labels;
mod layer;
mod store;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use apiserver::registry::Registry as Objects;
use apiserver::watch_cache::Scope;
use apiserver::{Catalog, exposition};
use axum::Router;
use axum::routing::get;
use command::Process;
use http::HeaderMap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::labels::{Resource, What};

pub use layer::observe;
pub use store::Measured;

/// Histogram buckets of the stock API server, in seconds.
const SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics. Recording is cheap enough for every request.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// The served resources. Only these may occur in labels.
    catalog: Catalog,
    requests: Family<Answered, Counter>,
    durations: Histograms<What>,
    in_flight: Family<InFlight, Gauge>,
    long_running: Family<What, Gauge>,
    watch_events: Family<Resource, Counter>,
    objects: Family<Stored, Gauge>,
    storage: Histograms<Operation>,
    process: Process,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    code: u16,
    dry_run: &'static str,
    #[prometheus(flatten)]
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InFlight {
    request_kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stored {
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
    group: String,
    resource: String,
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Metrics {
    /// Creates and registers all metrics.
    pub fn new(git_version: &'static str, catalog: Catalog) -> Arc<Self> {
        let mut metrics = Self {
            registry: Registry::default(),
            catalog,
            requests: Family::default(),
            durations: Family::new_with_constructor(seconds),
            in_flight: Family::default(),
            long_running: Family::default(),
            watch_events: Family::default(),
            objects: Family::default(),
            storage: Family::new_with_constructor(seconds),
            process: Process::default(),
        };
        metrics.register(git_version);
        Arc::new(metrics)
    }

    fn register(&mut self, git_version: &'static str) {
        let build = Family::<Vec<(&str, &str)>, Gauge>::default();
        build.get_or_create(&vec![("git_version", git_version)]).set(1);
        let r = &mut self.registry;
        r.register("kubernetes_build_info", "Version of the master, in labels; the value is always 1", build);
        r.register(
            "apiserver_request",
            "Number of requests by verb, resource and response code",
            self.requests.clone(),
        );
        r.register(
            "apiserver_request_duration_seconds",
            "Response latency in seconds, without long-running requests",
            self.durations.clone(),
        );
        r.register(
            "apiserver_current_inflight_requests",
            "Number of requests in progress, without long-running requests",
            self.in_flight.clone(),
        );
        r.register(
            "apiserver_longrunning_requests",
            "Number of long-running requests in progress, such as watches",
            self.long_running.clone(),
        );
        r.register("apiserver_watch_events", "Number of events sent to watches", self.watch_events.clone());
        r.register("apiserver_storage_objects", "Number of stored objects by resource", self.objects.clone());
        r.register(
            "etcd_request_duration_seconds",
            "Duration in seconds of storage requests, by operation and resource, for the embedded store too",
            self.storage.clone(),
        );
        self.process.register(r);
    }

    /// Records a storage request.
    fn stored(&self, operation: &'static str, key: &str, took: Duration) {
        let (group, resource) = labels::of_key(key, &self.catalog.rows());
        self.storage.get_or_create(&Operation { operation, group, resource }).observe(took.as_secs_f64());
    }

    /// All metrics as OpenMetrics text.
    fn text(&self, objects: &Objects) -> String {
        // Resources that are not served any more are dropped.
        self.objects.clear();
        for row in self.catalog.rows().all() {
            let count = objects.cache().count(row.stored(), &Scope::All);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.objects.get_or_create(&Stored { resource: row.stored().to_owned() }).set(count);
        }
        self.process.update();
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes any text");
        text
    }
}

/// The route of `/metrics`.
pub fn router(metrics: &Arc<Metrics>, objects: &Arc<Objects>) -> Router {
    let (metrics, objects) = (metrics.clone(), objects.clone());
    Router::new().route(
        "/metrics",
        get(move |headers: HeaderMap| async move { exposition::respond(&headers, metrics.text(&objects)) }),
    )
}

/// Increments a gauge, and decrements it on drop.
#[derive(Debug)]
struct Counted(Gauge);

impl Counted {
    fn begin(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
