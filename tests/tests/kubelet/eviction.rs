//! Evictions because of node pressure: which pods are evicted, what stays, and what returns.

use serde_json::Value;
use tests::manifest::{FOREVER, container, pod, sleeper};
use tests::{Disk, Pod, World};

/// A threshold that no machine satisfies.
const NEVER_ENOUGH: &str = "memory.available<1Ei";

fn is_evicted(pod: &Pod) -> bool {
    pod.phase() == "Failed" && pod.text("/status/reason") == "Evicted"
}

/// A pod that runs forever, with a priority and other fields of its container.
fn ranked(name: &str, spec: &str, more: &str) -> String {
    pod(name, &format!("{spec}\ncontainers:\n- {}", container("main", FOREVER, more)))
}

/// A pod that runs a script.
fn running(name: &str, script: &str) -> String {
    pod(name, &format!("containers:\n- {}", container("main", script, "")))
}

/// A pod that writes megabytes into its `emptyDir`, and then runs forever.
fn writer(name: &str, megabytes: u32, spec: &str) -> String {
    let script = format!("dd if=/dev/zero of=/data/file bs=1M count={megabytes}; {FOREVER}");
    let main = container("main", &script, "volumeMounts: [{name: data, mountPath: /data}]");
    pod(name, &format!("{spec}volumes: [{{name: data, emptyDir: {{}}}}]\ncontainers:\n- {main}"))
}

async fn node(world: &World) -> Result<Pod, String> {
    world.get("nodes").await?.into_iter().next().map(Pod).ok_or_else(|| "no node".to_owned())
}

/// Waits until a condition of the node has this status.
async fn wait_for_condition(world: &World, kind: &str, status: &str) {
    let look = async || {
        let node = node(world).await?;
        if node.condition(kind) == status { Ok(()) } else { Err(node.0["status"]["conditions"].to_string()) }
    };
    world.wait_for(&format!("{kind} to be {status}"), look).await;
}

#[tokio::test]
async fn memory_pressure_evicts_pods_by_request_and_priority_and_they_return() {
    let mut world = World::new("evictmem").await.with_flags(["--eviction-pressure-transition-period", "1s"]);
    world.start().await;
    world.write("critical.yaml", &ranked("critical", "priorityClassName: system-node-critical", ""));
    world.write("low.yaml", &ranked("low", "priority: -10", ""));
    world.write("high.yaml", &ranked("high", "priority: 1000", ""));
    // Within its request, so it is the last one although its priority is the lowest.
    let request = "resources: {requests: {memory: 64Mi}}";
    world.write("within.yaml", &ranked("within", "priority: -1000", request));
    for name in ["critical", "low", "high", "within"] {
        world.wait_ready(name).await;
    }
    let critical = world.pod("critical").await.unwrap();
    world.stop().await;

    world.set_flags(["--eviction-hard", NEVER_ENOUGH, "--eviction-pressure-transition-period", "1s"]);
    world.start().await;
    wait_for_condition(&world, "MemoryPressure", "True").await;
    for name in ["low", "high", "within"] {
        world.wait_for_pod(name, "to be evicted", is_evicted).await;
    }
    let low = world.pod("low").await.unwrap();
    let message = low.text("/status/message");
    for part in [
        "The node was low on resource: memory. Threshold quantity: 1Ei, available: ",
        "Container main was using ",
        ", request is 0, has larger consumption of memory.",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(low.condition("DisruptionTarget"), "True");
    world.wait_for_event("low", "Evicted: The node was low on resource: memory.").await;
    // One at a time: the order of the evictions is that of the events.
    let evicted_at = async |name: &str| -> String {
        let events = world.get("events").await.unwrap();
        let full = world.pod_name(name);
        let is_its =
            |event: &&Value| event["reason"] == "Evicted" && event["involvedObject"]["name"] == full.as_str();
        events.iter().find(is_its).unwrap()["firstTimestamp"].as_str().unwrap().to_owned()
    };
    let (low_at, high_at, within_at) =
        (evicted_at("low").await, evicted_at("high").await, evicted_at("within").await);
    assert!(low_at <= high_at && high_at <= within_at, "{low_at} {high_at} {within_at}");
    let after = world.pod("critical").await.unwrap();
    assert_eq!(after.container_id("main"), critical.container_id("main"), "a critical pod is not evicted");

    // Meanwhile, further BestEffort pods are rejected, and others are admitted, to be evicted.
    world.write("new.yaml", &sleeper("new"));
    let new = world.wait_for_pod("new", "to be rejected", is_evicted).await;
    assert_eq!(new.text("/status/message"), "Pod was rejected: The node had condition: [MemoryPressure].");

    // Without the threshold, all pods of files return by themselves.
    world.stop().await;
    world.set_flags(["--eviction-pressure-transition-period", "1s"]);
    world.start().await;
    wait_for_condition(&world, "MemoryPressure", "False").await;
    for name in ["high", "low", "within", "new"] {
        world.wait_ready(name).await;
    }
    world.wait_for_event("low", "ReturnedAfterEviction: The node no longer has the condition").await;
    let after = world.pod("critical").await.unwrap();
    assert_eq!(after.container_id("main"), critical.container_id("main"));
}

#[tokio::test]
async fn disk_pressure_evicts_the_largest_pod_and_it_returns() {
    // Only the disk of the root directory counts: that of the engine is shared with the machine.
    let flags = ["--eviction-hard", "nodefs.available<20%", "--eviction-pressure-transition-period", "1s"];
    let mut world = World::new("evictdisk").await.with_flags(flags);
    let disk = Disk::at(&world.root_dir(), 32);
    world.start().await;
    world.write("small.yaml", &writer("small", 1, ""));
    world.write("important.yaml", &writer("important", 12, "priority: 1000\n"));
    world.write("large.yaml", &writer("large", 10, ""));
    for name in ["small", "important", "large"] {
        world.wait_ready(name).await;
    }
    // 9 MB are left, and 20 % are 6.4 MB.
    disk.fill_to(28);
    let large = world.wait_for_pod("large", "to be evicted", is_evicted).await;
    let message = large.text("/status/message");
    assert!(
        message.starts_with("The node was low on resource: ephemeral-storage. Threshold quantity: "),
        "{message}"
    );
    // Its eviction freed enough, so the others stay.
    disk.empty();
    wait_for_condition(&world, "DiskPressure", "False").await;
    for name in ["small", "important"] {
        let pod = world.pod(name).await.unwrap();
        assert!(pod.is_ready() && pod.restarts("main") == 0, "{}", pod.0["status"]);
    }
    world.wait_ready("large").await;
    world.wait_for_event("large", "ReturnedAfterEviction").await;
}

#[tokio::test]
async fn soft_threshold_evicts_after_its_grace_period_and_an_evicted_pod_survives_a_restart() {
    let soft = ["--eviction-soft", NEVER_ENOUGH, "--eviction-soft-grace-period"];
    let mut world = World::new("evictsoft").await.with_flags(soft).with_flags(["memory.available=1h"]);
    world.start().await;
    wait_for_condition(&world, "MemoryPressure", "True").await;
    world.write("web.yaml", &ranked("web", "", "resources: {requests: {memory: 1Mi}}"));
    let before = world.wait_ready("web").await;
    assert_eq!(world.pod("web").await.unwrap().container_id("main"), before.container_id("main"));

    world.stop().await;
    world.set_flags(soft.into_iter().chain(["memory.available=1s", "--eviction-max-pod-grace-period", "5"]));
    world.start().await;
    world.wait_for_pod("web", "to be evicted", is_evicted).await;
    let gone = async || match world.containers().await {
        left if left.is_empty() => Ok(()),
        left => Err(format!("the engine has {left:?}")),
    };
    world.wait_for("its containers to go", gone).await;
    world.kill();
    world.start().await;
    world.wait_for_pod("web", "to be evicted still", is_evicted).await;
}

#[tokio::test]
async fn ephemeral_storage_limit_evicts_a_pod() {
    let world = World::running("evictlimit").await;
    let limited = |name: &str, script: &str| {
        let limits = "resources: {limits: {ephemeral-storage: 4Mi}}";
        pod(name, &format!("containers:\n- {}", container("main", script, limits)))
    };
    let write = format!("dd if=/dev/zero of=/file bs=1M count=6; {FOREVER}");
    world.write("layer.yaml", &limited("layer", &write));
    let log = format!("yes 0123456789012345678901234567890123456789 | head -n 150000; {FOREVER}");
    world.write("log.yaml", &limited("log", &log));
    world.write("within.yaml", &limited("within", FOREVER));
    for name in ["layer", "log"] {
        let evicted = world.wait_for_pod(name, "to be evicted", is_evicted).await;
        assert_eq!(
            evicted.text("/status/message"),
            "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi."
        );
    }
    let within = world.pod("within").await.unwrap();
    assert!(within.is_ready(), "{}", within.0["status"]);
}

#[tokio::test]
async fn thresholds_show_in_allocatable_and_mistakes_stop_the_kubelet() {
    let mut world = World::new("evictconf").await.with_flags(["--eviction-hard", "memory.available<1Gi"]);
    world.start().await;
    let node = world.wait_for("the node", async || node(&world).await).await;
    let ki = |field: &str| -> u64 {
        let text = node.text(&format!("/status/{field}/memory")).to_owned();
        text.strip_suffix("Ki").unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    };
    assert_eq!(ki("capacity") - ki("allocatable"), 1 << 20);
    world.stop().await;
    let output = world.kubelet(&["run", "--eviction-hard", "memory.free<1Gi,nodefs.available<lots"]).await;
    assert_ne!(output.code, 0);
    for part in
        ["names no eviction signal: \"memory.free\"", "nodefs.available: \"lots\" is neither a quantity"]
    {
        assert!(output.stderr.contains(part), "{}", output.stderr);
    }
}

#[tokio::test]
async fn an_event_names_the_container_and_the_limit_of_an_oom_kill() {
    let world = World::running("oomevent").await;
    let limits = "resources: {limits: {memory: 32Mi}}";
    let main = container("main", "tail /dev/zero", limits);
    world.write("hog.yaml", &pod("hog", &format!("restartPolicy: Never\ncontainers:\n- {main}")));
    let hog = world.wait_for_pod("hog", "to be killed", |pod| !pod.terminated("main").is_null()).await;
    assert_eq!(hog.terminated("main")["reason"], "OOMKilled", "{}", hog.0["status"]);
    let expected = "OOMKilled: The kernel killed container main: it reached its memory limit of 32Mi";
    world.wait_for_event("hog", expected).await;
}

#[tokio::test]
async fn container_logs_are_rotated_and_read_across_files() {
    let config = "containerLogMaxSize: 64Ki\ncontainerLogMaxFiles: 3\n";
    let mut world = World::new("logrotate").await.with_config(config);
    world.start().await;
    // 20,000 lines have about 2 MB with the metadata of the engine.
    let script = format!("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; {FOREVER}");
    world.write("web.yaml", &running("web", &script));
    world.wait_for_log("web", "main", "line 19999\n").await;
    let id = world.container("web", "main").await.unwrap().id;
    let path = world.engine.inspect(&id).await.unwrap().log_path.unwrap();
    let directory = std::path::Path::new(&path).parent().unwrap();
    let sizes: Vec<u64> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_string_lossy().contains("-json.log"))
        .map(|entry| entry.metadata().unwrap().len())
        .collect();
    assert_eq!(sizes.len(), 3, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 66 << 10), "{sizes:?}");
    let name = world.pod_name("web");
    let output = world.kubelet(&["logs", &name]).await;
    let lines: Vec<&str> = output.stdout.lines().collect();
    let first: usize = lines[0].strip_prefix("line ").unwrap().parse().unwrap();
    let expected: Vec<String> = (first..20000).map(|number| format!("line {number}")).collect();
    assert_eq!(lines, expected, "all lines of the files, in order");
    // More than one file has.
    assert!(lines.len() > 1200, "{}", lines.len());
    let tail = world.kubelet(&["logs", &name, "--tail", "1100"]).await;
    assert_eq!(tail.stdout.lines().count(), 1100);
}
