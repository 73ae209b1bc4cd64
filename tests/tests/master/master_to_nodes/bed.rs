//! A master and a node: the kubelet runs static pods, and the test creates the Node and Pod objects.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tests::certificates::{Pair, Signer};
use tests::{DEADLINE, Kubectl, Master, Output, World, wait_until};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

/// A master and its node.
pub struct Cluster {
    pub master: Master,
    /// The node.
    pub world: World,
    /// The master's CA.
    pub signer: Signer,
}

impl Cluster {
    /// A kubelet with a serving certificate of the cluster.
    pub async fn new(name: &str) -> Self {
        // This kubelet sends no heartbeats, so its node stays usable only during a long grace period.
        let mut master = Master::new().with_flags(["--node-monitor-grace-period=1h"]);
        master.start().await;
        let signer = Signer::of_master(&master.data_dir());
        let world = World::new(name).await;
        let (certificates, root) = (world.path("certificates"), master.data_dir().join("pki/root.crt"));
        fs::create_dir(&certificates).unwrap();
        let mut world = world.with_flags([
            "--client-ca-file".to_owned(),
            root.display().to_string(),
            "--cert-dir".to_owned(),
            certificates.display().to_string(),
        ]);
        shows(&world, &signer.signs_node(&world.node));
        world.start().await;
        let cluster = Self { master, world, signer };
        cluster.has_node(&cluster.world.node, cluster.world.api_port.number).await;
        cluster
    }

    /// Replaces the kubelet's serving certificate.
    pub fn shows(&self, pair: &Pair) {
        shows(&self.world, pair);
    }

    /// Sends JSON as administrator. Returns status code and body.
    pub async fn sends(&self, method: &str, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        let url = format!("https://127.0.0.1:{}{path}", self.master.port);
        let request = self.master.client().request(method.parse().unwrap(), url);
        let sent = request.header(CONTENT_TYPE, media_type).body(body.to_string()).send().await.unwrap();
        (sent.status().as_u16(), sent.json().await.unwrap())
    }

    async fn makes(&self, path: &str, object: &Value, status: &Value) {
        let look = async || match self.sends("POST", path, "application/json", object).await {
            (201 | 409, _) => Ok(()),
            // The namespace's service account may not exist yet.
            (code, answer) => Err(format!("{code} {answer}")),
        };
        wait_until(DEADLINE, look).await.unwrap();
        self.patches(&format!("{path}/{}", object["metadata"]["name"].as_str().unwrap()), status).await;
    }

    async fn patches(&self, path: &str, status: &Value) {
        let path = format!("{path}/status");
        let patch = json!({"status": status});
        let (code, answer) = self.sends("PATCH", &path, "application/merge-patch+json", &patch).await;
        assert_eq!(code, 200, "{answer}");
    }

    /// Creates a Node object with a port of this machine.
    pub async fn has_node(&self, name: &str, port: u16) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let status = json!({
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        });
        self.makes("/api/v1/nodes", &node, &status).await;
    }

    /// Creates a pod with that name on that node.
    pub async fn has_pod(&self, name: &str, spec: Value, status: &Value) {
        let metadata = json!({"name": name, "namespace": "default"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        self.makes("/api/v1/namespaces/default/pods", &pod, status).await;
    }

    /// Sets the status of a pod.
    pub async fn shows_pod(&self, name: &str, status: &Value) {
        self.patches(&format!("/api/v1/namespaces/default/pods/{name}"), status).await;
    }

    /// Runs a static pod, waits until it is ready, and creates its Pod object. Returns its name.
    pub async fn runs(&self, name: &str, manifest: &str) -> String {
        self.world.write(&format!("{name}.yaml"), manifest);
        let name = self.world.pod_name(name);
        let look = async || {
            let pods = self.world.pods().await?;
            let pod = pods.into_iter().find(|pod| pod.name() == name).ok_or("it is not there")?;
            if pod.is_ready() { Ok(pod) } else { Err(format!("{}", pod.0["status"])) }
        };
        let pod = wait_until(DEADLINE, look).await.unwrap();
        self.has_pod(&name, pod.0["spec"].clone(), &pod.0["status"]).await;
        name
    }

    /// The administrator's kubeconfig.
    pub fn admin(&self) -> PathBuf {
        self.master.data_dir().join("admin.kubeconfig")
    }

    /// Runs a kubectl to its end.
    pub async fn kubectl(&self, kubectl: &Kubectl, arguments: &[&str]) -> Output {
        self.master.kubectl_at(&kubectl.path, &self.admin(), arguments).await
    }

    /// Starts a kubectl in the background.
    pub fn begins(&self, kubectl: &Kubectl, arguments: &[&str]) -> Going {
        let home = self.world.path(&format!("home-{}", kubectl.minor));
        fs::create_dir_all(&home).unwrap();
        let mut command = Command::new(&kubectl.path);
        command.env("HOME", home).arg("--kubeconfig").arg(self.admin()).args(arguments);
        Going::new(command, &format!("1.{} {arguments:?}", kubectl.minor))
    }
}

fn shows(world: &World, pair: &Pair) {
    let whole = world.path(".certificate");
    fs::write(&whole, format!("{}{}", pair.certificate, pair.key)).unwrap();
    fs::rename(whole, world.path("certificates/kubelet-server-current.pem")).unwrap();
}

/// A background program with pipes to its input and output.
pub struct Going {
    what: String,
    child: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Going {
    /// Starts it.
    pub fn new(mut command: Command, what: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { what: what.to_owned(), child, lines }
    }

    /// Writes a line to its input.
    pub async fn types(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        input.flush().await.unwrap();
    }

    /// Closes its input.
    pub fn ends_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until it prints a line that contains the words. Returns the line.
    pub async fn prints(&mut self, words: &str) -> String {
        let what = &self.what;
        let mut seen = Vec::new();
        let look = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.contains(words) {
                    return Some(line);
                }
                seen.push(line);
            }
            None
        };
        let found = tokio::time::timeout(DEADLINE, look).await;
        found.ok().flatten().unwrap_or_else(|| panic!("{what} does not print {words:?} but {seen:?}"))
    }

    /// Kills it without any further output.
    pub async fn is_killed(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until it exits. Returns its exit code.
    pub async fn ends(&mut self) -> i32 {
        let ended = tokio::time::timeout(DEADLINE, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("{} does not end", self.what)).unwrap().code().unwrap_or(-1)
    }
}
