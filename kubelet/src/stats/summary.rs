//! Formats usage for `/stats/summary`, with the fields of the stock kubelet. Pure.

use serde_json::{Map, Value, json};

use super::{DiskUsage, NodeUsage, PodUsage, ResourceUsage, Usage};
use crate::observed::Timestamp;

pub fn summary(node: &str, usage: &Usage, only_cpu_and_memory: bool) -> Value {
    let at = usage.at;
    let NodeUsage { used, memory_bytes, started_at, disk } = &usage.node;
    let mut shown = parts(at, used);
    shown.insert("nodeName".to_owned(), node.into());
    shown.insert("startTime".to_owned(), time(*started_at));
    shown["memory"]["availableBytes"] = memory_bytes.saturating_sub(used.counted.working_set_bytes).into();
    if let Some(disk) = disk.filter(|_| !only_cpu_and_memory) {
        shown.insert("fs".to_owned(), fs(at, &disk));
    }
    let pods: Vec<Value> = usage.pods.iter().map(|pod| of_pod(at, pod)).collect();
    json!({"node": shown, "pods": pods})
}

fn of_pod(at: Timestamp, pod: &PodUsage) -> Value {
    let containers: Vec<Value> = pod
        .containers
        .iter()
        .map(|container| {
            let mut shown = parts(at, &container.used);
            shown.insert("name".to_owned(), container.name.as_str().into());
            shown.insert("startTime".to_owned(), time(container.started_at));
            Value::Object(shown)
        })
        .collect();
    let mut shown = parts(at, &pod.used);
    shown.insert("podRef".to_owned(), json!({"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}));
    shown.insert("startTime".to_owned(), time(pod.started_at));
    shown.insert("containers".to_owned(), containers.into());
    Value::Object(shown)
}

/// CPU and memory.
fn parts(at: Timestamp, used: &ResourceUsage) -> Map<String, Value> {
    let counted = &used.counted;
    let mut cpu = json!({"time": time(at), "usageCoreNanoSeconds": counted.cpu_nanoseconds});
    if let Some(nanocores) = used.nanocores {
        cpu["usageNanoCores"] = nanocores.into();
    }
    let memory = json!({
        "time": time(at),
        "usageBytes": counted.usage_bytes,
        "workingSetBytes": counted.working_set_bytes,
        "rssBytes": counted.rss_bytes,
        "pageFaults": counted.page_faults,
        "majorPageFaults": counted.major_page_faults,
    });
    Map::from_iter([("cpu".to_owned(), cpu), ("memory".to_owned(), memory)])
}

fn fs(at: Timestamp, disk: &DiskUsage) -> Value {
    json!({
        "time": time(at),
        "availableBytes": disk.available_bytes,
        "capacityBytes": disk.capacity_bytes,
        "usedBytes": disk.used_bytes,
        "inodesFree": disk.inodes_free,
        "inodes": disk.inodes,
        "inodesUsed": disk.inodes.saturating_sub(disk.inodes_free),
    })
}

/// Formats a time in whole seconds, as in API objects.
fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}
