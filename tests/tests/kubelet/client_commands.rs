//! Commands of `kubelet` that are clients of the running node: cp, port-forward, top, wait and logs of several containers.

use std::fs;
use std::process::Stdio;

use tests::manifest::{FOREVER, container, pod};
use tests::{World, binary};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::looking::send_request;

/// Serves a file on the loopback of the pod.
const SERVE: &str =
    "mkdir -p /www; echo served > /www/f; trap 'exit 0' TERM; httpd -f -p 127.0.0.1:8080 -h /www & wait";
const READY: &str = "readinessProbe: {exec: {command: [wget, -q, -O, /dev/null, 'http://127.0.0.1:8080/f']}, periodSeconds: 1}, \
                     ports: [{name: http, containerPort: 8080}]";

/// Starts a client command with pipes. Ctrl-C is sent to it by [`interrupt`].
fn start(world: &World, arguments: &[&str]) -> Child {
    let mut command = Command::new(binary("kubelet"));
    command.args(&arguments[..1]).arg("--root-dir").arg(world.root_dir()).args(&arguments[1..]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// Sends SIGINT to a command.
async fn interrupt(child: &Child) {
    let pid = child.id().unwrap().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().await.unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn port_forward_reaches_a_port_on_the_loopback_of_a_pod() {
    let world = World::running("port-forward").await;
    world.write("web.yaml", &pod("web", &format!("containers:\n- {}", container("main", SERVE, READY))));
    world.wait_ready("web").await;
    let mut forward = start(&world, &["port-forward", "pod/web", ":http", ":9", "--address", "127.0.0.1"]);
    let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
    let mut ports = Vec::new();
    for remote in ["8080", "9"] {
        let line = lines.next_line().await.unwrap().unwrap();
        let (start, end) = line.split_once(" -> ").unwrap();
        assert_eq!(end, remote, "{line}");
        ports.push(start.strip_prefix("Forwarding from 127.0.0.1:").unwrap().parse::<u16>().unwrap());
    }
    for _ in 0..3 {
        let answer = send_request(TcpStream::connect(("127.0.0.1", ports[0])).await.unwrap(), "/f").await;
        assert!(answer.ends_with("served\n"), "{answer}");
        assert_eq!(
            lines.next_line().await.unwrap().unwrap(),
            format!("Handling connection for {}", ports[0])
        );
    }
    // Nothing listens on this port of the pod. The connection ends, and others still work.
    let mut refused = TcpStream::connect(("127.0.0.1", ports[1])).await.unwrap();
    assert_eq!(refused.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    let answer = send_request(TcpStream::connect(("127.0.0.1", ports[0])).await.unwrap(), "/f").await;
    assert!(answer.ends_with("served\n"), "{answer}");
    interrupt(&forward).await;
    let ended = forward.wait_with_output().await.unwrap();
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{printed}");
    let expected =
        format!("error: an error occurred forwarding {} -> 9: error forwarding port 9 to pod", ports[1]);
    assert!(printed.starts_with(&expected), "{printed}");
    for (arguments, expected) in [
        (&["port-forward", "absent", "80"][..], "Error from server (NotFound): pods \"absent\" not found"),
        (&["port-forward", "web", "ftp"], "\"ftp\" is neither a port nor the name of a port of the pod"),
        (&["port-forward", "web", "0"], "remote port must be > 0"),
    ] {
        let failed = world.kubelet(arguments).await;
        assert_eq!(failed.code, 1, "{arguments:?}");
        assert!(failed.stderr.contains(expected), "{arguments:?}: {}", failed.stderr);
    }
}

#[tokio::test]
async fn top_shows_the_usage_of_pods_and_of_the_node() {
    let world = World::running("top").await;
    let containers = ["main", "helper"].map(|name| format!("- {}\n", container(name, FOREVER, ""))).concat();
    let labelled = pod("web", &format!("containers:\n{containers}")).replacen(
        "metadata:",
        "metadata:\n  labels: {app: web}",
        1,
    );
    world.write("web.yaml", &labelled);
    world.wait_ready("web").await;
    let name = world.pod_name("web");
    // A new container appears with its second sample.
    let seen = async || {
        let printed = world.kubelet(&["top", "pods", "--containers", "--no-headers"]).await;
        let lines: Vec<Vec<&str>> =
            printed.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
        let rows: Vec<&[&str]> = lines.iter().map(|line| &line[..2.min(line.len())]).collect();
        if rows == [[name.as_str(), "helper"], [name.as_str(), "main"]] {
            Ok(())
        } else {
            Err(printed.stdout.clone())
        }
    };
    world.wait_for("the usage of both containers", seen).await;
    for (arguments, expected) in [
        (&["top", "pods"][..], "NAME"),
        (&["top", "pod", "web"], &name),
        (&["top", "po", "-A", "-l", "app=web", "--sort-by", "memory"], &name),
        (&["top", "po", "-l", "app=other"], ""),
        (&["top", "node"], &world.node),
        (&["top", "nodes", "--no-headers"], "%"),
    ] {
        let printed = world.kubelet(arguments).await;
        assert_eq!(printed.code, 0, "{arguments:?}: {}", printed.stderr);
        assert!(printed.stdout.contains(expected), "{arguments:?}: {}", printed.stdout);
    }
    let unknown = world.kubelet(&["top", "secrets"]).await;
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("unknown resource \"secrets\": use pods or nodes"), "{}", unknown.stderr);
}

#[tokio::test]
async fn logs_of_several_pods_and_containers_are_printed() {
    let world = World::running("logs-many").await;
    for name in ["a", "b"] {
        let say = |container: &str| format!("for i in 1 2 3; do echo {name}-{container}-$i; done; {FOREVER}");
        let containers =
            ["main", "helper"].map(|one| format!("- {}\n", container(one, &say(one), ""))).concat();
        let text = pod(name, &format!("containers:\n{containers}"));
        world.write(
            &format!("{name}.yaml"),
            &text.replacen("metadata:", "metadata:\n  labels: {app: shop}", 1),
        );
    }
    for (pod, container) in [("a", "main"), ("a", "helper"), ("b", "main"), ("b", "helper")] {
        world.wait_for_log(pod, container, &format!("{pod}-{container}-3")).await;
    }
    let prefix = |pod: &str, container: &str| format!("[pod/{}/{container}] ", world.pod_name(pod));
    for (arguments, expected) in [
        (&["logs", "a", "--all-containers", "--tail", "1"][..], "a-main-3\na-helper-3\n".to_owned()),
        (&["logs", "-l", "app=shop", "-c", "main", "--tail", "1"], "a-main-3\nb-main-3\n".to_owned()),
        (
            &["logs", "-l", "app=shop", "--all-containers", "--prefix", "--tail=1"],
            [("a", "main"), ("a", "helper"), ("b", "main"), ("b", "helper")]
                .map(|(pod, container)| format!("{}{pod}-{container}-3\n", prefix(pod, container)))
                .concat(),
        ),
        (&["logs", "-l", "app=other"], String::new()),
    ] {
        let printed = world.kubelet(arguments).await;
        assert_eq!(
            (printed.code, printed.stdout.as_str()),
            (0, expected.as_str()),
            "{arguments:?}: {}",
            printed.stderr
        );
    }
    let failed =
        world.kubelet(&["logs", "-f", "-l", "app=shop", "--all-containers", "--max-log-requests", "3"]).await;
    assert_eq!(failed.code, 1);
    let expected = "you are attempting to follow 4 log streams, but maximum allowed concurrency is 3";
    assert!(failed.stderr.contains(expected), "{}", failed.stderr);
    // Logs that are followed end with their containers.
    let follow = start(&world, &["logs", "-f", "-l", "app=shop", "--all-containers", "--prefix"]);
    let mut follow = follow;
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen.len() < 12 {
        seen.push(lines.next_line().await.unwrap().unwrap());
    }
    world.remove("a.yaml");
    world.remove("b.yaml");
    assert_eq!(follow.wait().await.unwrap().code(), Some(0));
    seen.sort();
    let expected = format!("{}a-helper-1", prefix("a", "helper"));
    assert_eq!(seen[0], expected, "{seen:?}");
}

#[tokio::test]
async fn wait_ends_when_a_pod_is_ready_and_when_it_is_deleted() {
    let world = World::running("wait").await;
    world.write("web.yaml", &pod("web", &format!("containers:\n- {}", container("main", SERVE, READY))));
    world.wait_for_pod("web", "to exist", |_| true).await;
    let name = world.pod_name("web");
    let met = format!("pod/{name} condition met\n");
    let ready = world.kubelet(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).await;
    assert_eq!((ready.code, ready.stdout.as_str()), (0, met.as_str()), "{}", ready.stderr);
    let late = world.kubelet(&["wait", "--for=condition=Ready=False", "pod", "web", "--timeout=100ms"]).await;
    assert_eq!(late.code, 1);
    let expected = format!("timed out waiting for the condition on pods/{name}");
    assert!(late.stderr.contains(&expected), "{}", late.stderr);
    let gone = start(&world, &["wait", "--for=delete", "pod/web", "--timeout=60s"]);
    world.remove("web.yaml");
    let gone = gone.wait_with_output().await.unwrap();
    assert_eq!((gone.status.code(), String::from_utf8_lossy(&gone.stdout).as_ref()), (Some(0), met.as_str()));
    let absent = world.kubelet(&["wait", "--for=delete", "pod/web"]).await;
    assert_eq!((absent.code, absent.stdout.as_str()), (0, ""), "{}", absent.stderr);
    let absent = world.kubelet(&["wait", "--for=condition=Ready", "pod/web"]).await;
    assert_eq!(absent.code, 1);
    assert!(
        absent.stderr.contains("Error from server (NotFound): pods \"web\" not found"),
        "{}",
        absent.stderr
    );
}

#[tokio::test]
async fn cp_copies_files_and_directories_in_both_directions() {
    let world = World::running("cp").await;
    world.write("web.yaml", &pod("web", &format!("containers:\n- {}", container("main", SERVE, READY))));
    world.wait_ready("web").await;
    let source = world.path("source");
    fs::create_dir_all(source.join("inner")).unwrap();
    // Larger than a message.
    let large = "0123456789".repeat(20_000);
    fs::write(source.join("inner/large"), &large).unwrap();
    fs::write(source.join("small"), "small\n").unwrap();
    let text = |path: std::path::PathBuf| path.display().to_string();
    let copy = async |from: &str, to: &str| {
        let copied = world.kubelet(&["cp", from, to]).await;
        // `tar` in the container may say that it removes the leading slash.
        assert_eq!((copied.code, copied.stdout.as_str()), (0, ""), "{from} {to}: {}", copied.stderr);
    };
    copy("web:/www/f", &text(world.path("f"))).await;
    assert_eq!(fs::read_to_string(world.path("f")).unwrap(), "served\n");
    copy(&text(source.clone()), "web:/tmp").await;
    copy(&text(source.join("small")), "default/web:/tmp/renamed").await;
    let printed = world.kubelet(&["exec", "web", "--", "cat", "/tmp/renamed", "/tmp/source/small"]).await;
    assert_eq!(printed.stdout, "small\nsmall\n", "{}", printed.stderr);
    copy("web:/tmp/source", &text(world.path("back"))).await;
    assert_eq!(fs::read_to_string(world.path("back").join("inner/large")).unwrap(), large);
    for (from, to, expected) in [
        ("/absent", "web:/tmp", "/absent doesn't exist in local filesystem"),
        ("web:/absent", "/tmp/absent", "/absent"),
        ("a", "b", "one of src or dest must be a remote file specification"),
        ("absent:/f", "/tmp/f", "Error from server (NotFound): pods \"absent\" not found"),
    ] {
        let failed = world.kubelet(&["cp", from, to]).await;
        assert_ne!(failed.code, 0, "{from} {to}");
        assert!(failed.stderr.contains(expected), "{from} {to}: {}", failed.stderr);
    }
}
