//! kubectl as a user of a cluster with stock components, and the objects that the tests create.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tests::manifest::{FOREVER, container};
use tests::{DEADLINE, Output, Process, free_port, installed, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

/// Grace period of the controller manager without heartbeats of a node: twice the interval of lease renewals.
pub const NODE_GRACE: &str = "--node-monitor-grace-period=20s";
/// Time within which a node is lost, and its pods are evicted or replaced.
pub const LOST_WITHIN: Duration = Duration::from_secs(90);

/// A kubectl with a kubeconfig; manifests and logs are in the folder.
#[derive(Debug)]
pub struct Client {
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl Client {
    pub fn new(folder: &Path, kubeconfig: &Path) -> Self {
        Self { folder: folder.to_owned(), kubeconfig: kubeconfig.to_owned() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(installed("kubernetes-client", "kubectl"));
        command.env("HOME", &self.folder).arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        command
    }

    pub async fn kubectl(&self, arguments: &[&str]) -> Output {
        self.kubectl_with_input(arguments, "").await
    }

    pub async fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // The command may end before it has read its input.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {arguments:?} does not end")).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Checks that kubectl succeeds and prints the expected text.
    pub async fn check_output(&self, arguments: &[&str], expected: &str) -> Result<(), String> {
        let result = self.kubectl(arguments).await;
        if result.code == 0 && result.stdout.contains(expected) {
            Ok(())
        } else {
            Err(format!("{arguments:?}: {result:?}"))
        }
    }

    /// Waits until `check_output` succeeds.
    pub async fn wait_for_output(&self, within: Duration, arguments: &[&str], expected: &str) {
        let look = async || self.check_output(arguments, expected).await;
        wait_until(within, look).await.unwrap_or_else(|seen| panic!("{expected:?} is not printed: {seen}"));
    }

    /// Waits until kubectl prints nothing.
    pub async fn wait_for_no_output(&self, arguments: &[&str]) {
        let look = async || match self.kubectl(arguments).await {
            result if result.code == 0 && result.stdout.is_empty() => Ok(()),
            result => Err(format!("{arguments:?}: {result:?}")),
        };
        wait_until(LOST_WITHIN, look).await.unwrap();
    }

    /// Waits until a port of the pod, forwarded by kubectl, serves that text at the path.
    pub async fn check_port_forward(&self, pod: &str, port: u16, path: &str, expected: &str) {
        let local = free_port();
        let mut command = std::process::Command::new(installed("kubernetes-client", "kubectl"));
        command.env("HOME", &self.folder).arg("--kubeconfig").arg(&self.kubeconfig);
        command.args(["port-forward", pod, &format!("{local}:{port}")]);
        let log = self.folder.join("port-forward.log");
        let _forwarding = Process::start(&mut command, &log);
        let get = async || {
            let mut stream = TcpStream::connect(("127.0.0.1", local.number)).await?;
            stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
            let mut answer = String::new();
            tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await??;
            std::io::Result::Ok(answer)
        };
        let serves = async || match get().await {
            Ok(answer) if answer.contains(expected) => Ok(()),
            other => Err(format!("{other:?}: {}", std::fs::read_to_string(&log).unwrap_or_default())),
        };
        wait_until(DEADLINE, serves).await.unwrap();
    }

    pub async fn apply(&self, manifest: &str) {
        let result = self.kubectl_with_input(&["apply", "--validate=false", "-f", "-"], manifest).await;
        assert_eq!(result.code, 0, "{result:?}");
    }

    /// Waits until the Deployment of [`deployment`] has rolled out.
    pub async fn wait_for_rollout(&self) {
        let status = ["rollout", "status", "deployment/dep", "--timeout=20s"];
        self.wait_for_output(LOST_WITHIN, &status, "successfully").await;
    }

    /// Waits until no pod is terminating.
    pub async fn wait_for_terminating_pods(&self) {
        let terminating = "jsonpath={.items[?(@.metadata.deletionTimestamp)].metadata.name}";
        self.wait_for_no_output(&["get", "pods", "-o", terminating]).await;
    }

    /// Waits until the controller manager has evicted both pods of [`deployment`] from a lost node: they are terminating, and
    /// the Deployment has others, for which there is no node. Another node has to be Ready, because the controller manager evicts
    /// no pods while all nodes are lost; it is cordoned.
    pub async fn wait_for_eviction(&self) {
        let look = async || {
            let result = self.kubectl(&["get", "pods", "-l", "app=dep", "--no-headers"]).await;
            let count = |status: &str| result.stdout.lines().filter(|line| line.contains(status)).count();
            match (count("Terminating"), count("Pending")) {
                (2, 2) => Ok(()),
                _ => Err(format!("{result:?}")),
            }
        };
        wait_until(LOST_WITHIN, look).await.unwrap();
    }
}

/// A Deployment with two pods, which tolerate the loss of their node for a second.
pub fn deployment(text: &str) -> String {
    let main = container("main", FOREVER, &format!("env: [{{name: TEXT, value: {text}}}]"));
    let lost =
        "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}";
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: dep}}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{app: \
         dep}}}}\n  template:\n    metadata: {{labels: {{app: dep}}}}\n    spec:\n      terminationGracePeriodSeconds: 2\n      \
         tolerations: [{lost}]\n      containers: [{main}]\n"
    )
}

/// The pod `web` with a ConfigMap that it serves on port 8080 and prints.
pub fn web(text: &str) -> String {
    let script = "httpd -p 8080 -h /conf; echo begins; while sleep 1; do cat /conf/text; done";
    let main = container("main", script, "volumeMounts: [{name: conf, mountPath: /conf}]");
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: conf}}\ndata: {{text: {text}}}\n---\napiVersion: v1\nkind: Pod\nmetadata: \
         {{name: web}}\nspec:\n  terminationGracePeriodSeconds: 2\n  containers: [{main}]\n  volumes: [{{name: conf, configMap: \
         {{name: conf}}}}]\n"
    )
}
