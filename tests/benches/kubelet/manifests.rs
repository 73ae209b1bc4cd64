//! Manifests of the measured pods.

use std::net::SocketAddr;

use tests::IMAGE;

/// Returns a pod with one container that exits as soon as it receives SIGTERM.
pub fn one_container(name: &str) -> String {
    format!("{}{}", head(name), container("app", "sleep 86400", ""))
}

/// Returns a pod that serves on `port`, and calls `host` as soon as it serves.
pub fn serving(name: &str, port: u16, host: SocketAddr) -> String {
    let call = format!("nc -w 9 {} {} </dev/null", host.ip(), host.port());
    let command = format!("httpd -p {port} -h /etc; {call}; sleep 86400");
    format!("{}{}", head(name), container("app", &command, ""))
}

/// Returns a pod with ten probes per second, half of them TCP and half HTTP.
///
/// A container has one readiness and one liveness probe, so the pod has five containers. Four of them exist only
/// for their probes of the web server in the first.
pub fn ten_probes(name: &str) -> String {
    let probes = "    readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
";
    let mut text = head(name);
    text += &container("app", "echo ok >/tmp/index.html; httpd -f -p 8080 -h /tmp", probes);
    for number in 1..5 {
        text += &container(&format!("idle-{number}"), "sleep 86400", probes);
    }
    text
}

fn head(name: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 10
  containers:
"
    )
}

fn container(name: &str, command: &str, more: &str) -> String {
    format!(
        "  - name: {name}
    image: {IMAGE}
    command: [sh, -c, \"trap 'exit 0' TERM; {command} & wait\"]
{more}"
    )
}
