//! Ports of pods through the master, as every kubectl forwards them, and as the Python client does: over a WebSocket with two
//! channels a port.

use std::fs;
use std::time::Duration;

use tests::manifest::{container, pod};
use tests::{DEADLINE, Python, kubectls};

use crate::bed::Cluster;

/// Asks both ports, of which one is listened on, on the pod's own loopback alone.
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

#[tokio::test]
async fn a_port_of_the_pods_own_loopback_is_reached() {
    let cluster = Cluster::new("ports").await;
    let serve = "mkdir /www; yes coracle | head -c 300000 >/www/f; printf 'the end' >>/www/f; \
                 trap 'exit 0' TERM; httpd -f -p 127.0.0.1:8080 -h /www & wait";
    let ready = "readinessProbe: {exec: {command: [wget, -q, -O, /dev/null, 'http://127.0.0.1:8080/f']}, periodSeconds: 1}";
    let manifest = pod("web", &format!("containers:\n- {}", container("main", serve, ready)));
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
