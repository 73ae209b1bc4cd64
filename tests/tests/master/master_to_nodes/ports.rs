//! Port forwarding through the master, with every kubectl and with the Python client: over a WebSocket with two
//! channels per port.

use std::collections::BTreeMap;
use std::fs;
use std::pin::pin;
use std::time::Duration;

use apiserver::spdy::frame::{Decoder, Encoder, Frame};
use bytes::BytesMut;
use futures_util::stream::{Stream, StreamExt as _, unfold};
use http::{HeaderName, HeaderValue};
use tests::manifest::{container, pod, sleeper};
use tests::{DEADLINE, Pod, Python, kubectls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::master_to_nodes::bed::Cluster;

/// Connects to both ports; a server listens only on one, on the pod's loopback address.
const SCRIPT: &str = r#"
import sys
from kubernetes import client, config
from kubernetes.stream import portforward, stream

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
name = sys.argv[2]
forwarded = portforward(api.connect_get_namespaced_pod_portforward, name, "default", ports="8080,8081")
http = forwarded.socket(8080)
http.setblocking(True)
http.sendall(b"GET /f HTTP/1.0\r\n\r\n")
answer = b""
while True:
    piece = http.recv(4096)
    if not piece:
        break
    answer += piece
print("answer", len(answer), answer.endswith(b"the end"))
closed = forwarded.socket(8081)
closed.setblocking(True)
print("closed", closed.recv(4096), forwarded.error(8081))
ran = stream(api.connect_get_namespaced_pod_exec, name, "default", container="main",
             command=["sh", "-c", "echo ran"], stdout=True, stderr=True, stdin=False, tty=False)
print("exec", ran.strip())
"#;

/// Serves a file on the pod's loopback address.
const SERVE: &str = "mkdir -p /www; yes coracle | head -c 300000 >/www/f; printf 'the end' >>/www/f; \
                     trap 'exit 0' TERM; httpd -f -p 127.0.0.1:8080 -h /www & wait";
const READY: &str = "readinessProbe: {exec: {command: [wget, -q, -O, /dev/null, 'http://127.0.0.1:8080/f']}, periodSeconds: 1}";

#[tokio::test]
async fn port_forward_survives_a_container_restart() {
    let cluster = Cluster::new("outlives").await;
    let manifest = pod("web", &format!("containers:\n- {}", container("main", SERVE, READY)));
    let name = cluster.runs("web", &manifest).await;
    let client = cluster.master.client();
    let found = kubectls();
    // The oldest speaks SPDY, the newest WebSocket.
    for (kubectl, restarts) in [&found[0], &found[found.len() - 1]].into_iter().zip(1..) {
        let mut forwarding = cluster.begins(kubectl, &["port-forward", &name, "0:8080"]);
        let line = forwarding.prints("Forwarding from 127.0.0.1:").await;
        let port = line.split(':').nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let send_request = async || {
            let answer = client.get(format!("http://127.0.0.1:{port}/f")).send().await.unwrap();
            assert!(answer.text().await.unwrap().ends_with("the end"), "1.{}", kubectl.minor);
        };
        send_request().await;
        // Killing the container may also kill the command that does it.
        let ended = cluster.kubectl(kubectl, &["exec", &name, "--", "kill", "1"]).await;
        assert!(matches!(ended.code, 0 | 137), "{ended:?}");
        let again = |pod: &Pod| pod.restarts("main") == restarts && pod.is_ready();
        let pod = cluster.world.wait_for_pod("web", "to run again", again).await;
        cluster.shows_pod(&name, &pod.0["status"]).await;
        send_request().await;
    }
}

/// Opens that many SPDY connections to a port at the kubelet directly. Returns the error messages.
async fn forwards(cluster: &Cluster, name: &str, connections: u32) -> impl Stream<Item = String> {
    let mut stream = UnixStream::connect(cluster.world.root_dir().join("kubelet.sock")).await.unwrap();
    let head = format!(
        "POST /portForward/default/{name} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let (mut encoder, mut bytes) = (Encoder::default(), BytesMut::new());
    for number in 0..connections {
        for (stream, kind) in [(4 * number + 1, "error"), (4 * number + 3, "data")] {
            let header = |(name, value): (&'static str, String)| {
                (HeaderName::from_static(name), HeaderValue::try_from(value).unwrap())
            };
            let headers = [("streamtype", kind.to_owned()), ("port", "8080".to_owned())];
            let request = ("requestid", number.to_string());
            let headers = headers.into_iter().chain([request]).map(header).collect();
            encoder
                .encode(&Frame::SynStream { stream, fin: false, unidirectional: false, headers }, &mut bytes);
        }
    }
    stream.write_all(&bytes).await.unwrap();
    let state = (stream, Decoder::default(), BytesMut::new(), BTreeMap::<u32, Vec<u8>>::new());
    unfold(state, |(mut stream, mut decoder, mut come, mut received)| async move {
        loop {
            match decoder.next(&mut come).unwrap() {
                Some(Frame::Data { stream: number, fin, bytes }) => {
                    let so_far = received.entry(number).or_default();
                    so_far.extend_from_slice(&bytes);
                    if fin && !so_far.is_empty() {
                        let all = String::from_utf8_lossy(so_far).into_owned();
                        return Some((all, (stream, decoder, come, received)));
                    }
                }
                Some(_) => {}
                None => {
                    let read = tokio::time::timeout(DEADLINE, stream.read_buf(&mut come)).await;
                    assert!(read.unwrap().unwrap() > 0, "the session ended");
                }
            }
        }
    })
}

#[tokio::test]
async fn an_unresponsive_pod_does_not_block_another() {
    let cluster = Cluster::new("dials").await;
    // A stopped server accepts only as many connections as the kernel's backlog holds, and answers no more.
    let serve = "mkdir /www; echo x >/www/f; httpd -f -p 127.0.0.1:8080 -h /www & \
                 until wget -q -O /dev/null http://127.0.0.1:8080/f; do :; done; kill -STOP $!; echo stopped; \
                 trap 'exit 0' TERM; sleep 1000000 & wait";
    let name =
        cluster.runs("web", &pod("web", &format!("containers:\n- {}", container("main", serve, "")))).await;
    let other = cluster.runs("other", &sleeper("other")).await;
    cluster.world.wait_for_log("web", "main", "stopped").await;
    let mut received = pin!(forwards(&cluster, &name, 100).await);
    let tasks = format!("/proc/{}/task", cluster.world.kubelet_pid());
    let threads = || {
        let names =
            fs::read_dir(&tasks).unwrap().map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
        names.filter(|name| name.as_ref().is_ok_and(|name| name == "dial\n")).count()
    };
    let look = async || match threads() {
        4.. => Ok(()),
        threads => Err(format!("{threads} threads connect")),
    };
    cluster.world.wait_within(DEADLINE, "the pod to have its share", look).await;
    let why = pin!(forwards(&cluster, &other, 1).await).next().await.unwrap();
    assert!(why.contains("refused"), "it has a turn at once: {why}");
    let (mut late, mut waited) = (0, 0);
    while late == 0 || waited == 0 {
        let why = received.next().await.unwrap();
        assert!(why.starts_with("error forwarding port 8080 to pod: "), "{why}");
        late += u32::from(why.contains("timed out"));
        waited += u32::from(why.contains("4 connections to ports of this pod are being made"));
        // A finished thread may still exist when the next starts.
        assert!(threads() <= 2 * 4, "{} threads connect", threads());
    }
}

#[tokio::test]
async fn port_forward_reaches_the_loopback_of_the_pod() {
    let cluster = Cluster::new("ports").await;
    let manifest = pod("web", &format!("containers:\n- {}", container("main", SERVE, READY)));
    let name = cluster.runs("web", &manifest).await;
    let client = cluster.master.client();
    for kubectl in kubectls() {
        let mut forwarding = cluster.begins(&kubectl, &["port-forward", &name, "0:8080"]);
        let line = forwarding.prints("Forwarding from 127.0.0.1:").await;
        let port = line.split(':').nth(1).unwrap().split(' ').next().unwrap();
        let answers = (0..3).map(async |_| {
            let answer = client.get(format!("http://127.0.0.1:{port}/f")).send().await.unwrap();
            answer.text().await.unwrap()
        });
        for answer in futures_util::future::join_all(answers).await {
            assert!(
                answer.len() > 300_000 && answer.ends_with("the end"),
                "1.{}: {}",
                kubectl.minor,
                answer.len()
            );
        }
    }
    let python = Python::new();
    fs::write(python.home().join("ports.py"), SCRIPT).unwrap();
    let mut command = python.command("python");
    command.arg("ports.py").arg(cluster.admin()).arg(&name);
    let output = python.run(command, DEADLINE + Duration::from_secs(30)).await;
    for line in
        ["answer 300", "True\n", "closed b'' error forwarding port 8081 to pod: ", "refused", "exec ran"]
    {
        assert!(output.stdout.contains(line), "{line:?}: {output:?}");
    }
}
