//! Counting changes nothing: the measured engine passes the contract, and its requests are in the metrics.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use super::Measured;
use crate::metrics::{Metrics, Running};
use crate::runtime::contract::Bench;
use crate::runtime::fake::Fake;
use crate::runtime::{Error, Runtime as _};

async fn bench(_test: &str) -> Bench {
    let fake = Fake::new("n1");
    let metrics = Arc::new(Metrics::new("n1", "v1.36.0"));
    Bench {
        runtime: Measured::new(Arc::new(fake.clone()), metrics.clone()),
        neighbour: Measured::new(Arc::new(fake.neighbour("n2")), metrics),
        sandbox_image: "coracle/pause:fake".to_owned(),
        image: "coracle/busybox:1".to_owned(),
    }
}

crate::runtime_contract!(bench);

#[tokio::test]
async fn requests_are_counted_and_failures_apart() {
    let fake = Fake::new("n1");
    let metrics = Arc::new(Metrics::new("n1", "v1.36.0"));
    let engine = Measured::new(Arc::new(fake.clone()), metrics.clone());
    engine.list().await.unwrap();
    fake.fail_next("list", Error::Unreachable { operation: "list", message: String::new() });
    engine.list().await.unwrap_err();
    // That nothing is there is an answer.
    engine.look("nothing").await.unwrap_err();
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
