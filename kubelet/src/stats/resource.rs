//! Formats usage for `/metrics/resource`, with the metric names of the stock kubelet. Pure.

use std::fmt::Write as _;

use super::{ResourceUsage, Usage};
use crate::observed::Timestamp;

pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A series: labels, value, and timestamp in milliseconds.
type Series = (String, String, Option<i64>);

/// The metrics. If nothing could be read, only `resource_scrape_error`.
pub fn text(usage: Option<&Usage>) -> String {
    let mut text = String::new();
    if let Some(usage) = usage {
        let at = Some(usage.at.as_millisecond());
        let cpu = |labels: String, used: &ResourceUsage| (labels, seconds(used.counted.cpu_nanoseconds), at);
        let memory =
            |labels: String, used: &ResourceUsage| (labels, used.counted.working_set_bytes.to_string(), at);
        let containers = || {
            usage.pods.iter().flat_map(|pod| {
                pod.containers.iter().map(move |container| {
                    let labels = format!(
                        "{{container=\"{}\",namespace=\"{}\",pod=\"{}\"}}",
                        container.name, pod.namespace, pod.name
                    );
                    (labels, container)
                })
            })
        };
        let pods = || {
            usage
                .pods
                .iter()
                .map(|pod| (format!("{{namespace=\"{}\",pod=\"{}\"}}", pod.namespace, pod.name), pod))
        };
        let node = &usage.node.used;
        metric(
            &mut text,
            "container_cpu_usage_seconds_total",
            "counter",
            "Cumulative cpu time consumed by the container in core-seconds",
            containers().map(|(labels, container)| cpu(labels, &container.used)),
        );
        metric(
            &mut text,
            "container_memory_working_set_bytes",
            "gauge",
            "Current working set of the container in bytes",
            containers().map(|(labels, container)| memory(labels, &container.used)),
        );
        metric(
            &mut text,
            "container_start_time_seconds",
            "gauge",
            "Start time of the container since unix epoch in seconds",
            containers().map(|(labels, container)| (labels, since_1970(container.started_at), None)),
        );
        metric(
            &mut text,
            "node_cpu_usage_seconds_total",
            "counter",
            "Cumulative cpu time consumed by the node in core-seconds",
            [cpu(String::new(), node)],
        );
        metric(
            &mut text,
            "node_memory_working_set_bytes",
            "gauge",
            "Current working set of the node in bytes",
            [memory(String::new(), node)],
        );
        metric(
            &mut text,
            "pod_cpu_usage_seconds_total",
            "counter",
            "Cumulative cpu time consumed by the pod in core-seconds",
            pods().map(|(labels, pod)| cpu(labels, &pod.used)),
        );
        metric(
            &mut text,
            "pod_memory_working_set_bytes",
            "gauge",
            "Current working set of the pod in bytes",
            pods().map(|(labels, pod)| memory(labels, &pod.used)),
        );
    }
    let error = usage.is_none_or(|usage| usage.is_incomplete);
    metric(
        &mut text,
        "resource_scrape_error",
        "gauge",
        "1 if there was an error while getting container metrics, 0 otherwise",
        [(String::new(), u8::from(error).to_string(), None)],
    );
    text
}

fn metric(text: &mut String, name: &str, kind: &str, help: &str, series: impl IntoIterator<Item = Series>) {
    let mut series = series.into_iter().peekable();
    if series.peek().is_none() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} [STABLE] {help}\n# TYPE {name} {kind}");
    for (labels, value, at) in series {
        let at = at.map(|at| format!(" {at}")).unwrap_or_default();
        let _ = writeln!(text, "{name}{labels} {value}{at}");
    }
}

fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

fn since_1970(at: Timestamp) -> String {
    let milliseconds = at.as_millisecond().max(0);
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}
