//! The kubelet's own metrics and health endpoints: counters that follow events, and the health state.

use std::process::{Command, Stdio};

use tests::manifest::{FOREVER, container, pod};
use tests::{World, binary};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// The response to a GET request, head and body.
pub async fn send_request(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn metrics(world: &World) -> String {
    send_request(UnixStream::connect(world.root_dir().join("kubelet.sock")).await.unwrap(), "/metrics").await
}

/// The sum of all series of a metric whose labels contain the text.
fn count(metrics: &str, name: &str, label: &str) -> f64 {
    let series = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
    series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test]
async fn metrics_count_pod_and_container_operations() {
    let world = World::running("metrics").await;
    let probe = "readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}";
    let first = "initContainers:\n- {name: first, image: 'coracle/busybox:1', command: ['true']}\n";
    let spec = format!("{first}containers:\n- {}", container("main", FOREVER, probe));
    world.write("web.yaml", &pod("web", &spec));
    world.wait_ready("web").await;
    let counted = metrics(&world).await;
    for (name, label, at_least) in [
        ("kubelet_started_containers_total", "\"container\"", 1.0),
        ("kubelet_started_containers_total", "\"init_container\"", 1.0),
        ("kubelet_started_containers_total", "\"pod_sandbox\"", 1.0),
        ("kubelet_pod_start_duration_seconds_count", "", 1.0),
        ("kubelet_pod_worker_duration_seconds_count", "\"sync\"", 1.0),
        ("kubelet_pleg_relist_duration_seconds_count", "", 1.0),
        ("kubelet_runtime_operations_total", "\"create_container\"", 1.0),
        ("prober_probe_total", "probe_type=\"Readiness\",result=\"successful\"", 1.0),
    ] {
        assert!(count(&counted, name, label) >= at_least, "{name} {label} in\n{counted}");
    }
    world.remove("web.yaml");
    world.wait_gone("web").await;
    // The series are removed after the pod is reported as gone.
    let look = async || {
        let counted = metrics(&world).await;
        if counted.contains("\nprober_probe_total{") { Err(counted) } else { Ok(()) }
    };
    world.wait_for("the series of the probe to go", look).await;
}

#[tokio::test]
async fn healthz_is_served_on_its_own_port() {
    let world = World::running("healthz").await;
    // The port may be bound after the kubelet answers at its socket.
    let connect = async || {
        let address = ("127.0.0.1", world.healthz_port.number);
        TcpStream::connect(address).await.map_err(|error| error.to_string())
    };
    let stream = world.wait_for("a connection to the port", connect).await;
    let answer = send_request(stream, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

#[tokio::test]
async fn closed_pipe_ends_a_command_without_an_error() {
    let world = World::running("piped").await;
    world.write(
        "web.yaml",
        &pod("web", &format!("containers:\n- {}", container("main", "echo said; sleep 1000", ""))),
    );
    world.wait_for_log("web", "main", "said").await;
    let root_dir = world.root_dir().display().to_string();
    let gone = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for verb in [
        &["get", "pods"][..],
        &["get", "pods", "-w"],
        &["get", "events", "-o", "yaml"],
        &["get", "pods", "-o", "name"],
        &["describe", "pod", "web"],
        &["logs", "web", "-f"],
        &["exec", "web", "--", "echo", "said"],
        &["completion", "bash"],
    ] {
        let arguments = [&verb[..1], &["--root-dir", &root_dir], &verb[1..]].concat();
        let mut command = Command::new(binary("kubelet"));
        let ended = command.args(&arguments).stdin(Stdio::null()).stdout(gone()).output().unwrap();
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), &*printed), (Some(141), ""), "{verb:?}");
    }
    for verb in [&["get", "pods", "nobody"][..], &["get", "nothing"], &["frobnicate"]] {
        let arguments = [&["--root-dir", &root_dir], verb].concat();
        let ended = Command::new(binary("kubelet")).args(&arguments).stderr(gone()).status().unwrap();
        assert!(matches!(ended.code(), Some(1 | 2)), "{verb:?}: {ended}");
    }
}

#[test]
fn kubelet_sets_its_allocator_options() {
    let mut command = Command::new(binary("kubelet"));
    let printed = command.arg("--version").env("_RJEM_MALLOC_CONF", "confirm_conf:true").output().unwrap();
    let printed = String::from_utf8(printed.stderr).unwrap();
    let mut narenas = printed.lines().filter(|line| line.contains("Set conf value: narenas:"));
    assert_eq!(narenas.next_back(), Some("<jemalloc>: -- Set conf value: narenas:1"), "{printed}");
}
