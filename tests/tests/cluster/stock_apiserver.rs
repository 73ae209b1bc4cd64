//! The kubelet as a node of a stock control plane, through the whole lifecycle of a pod.
//!
//! `CORACLE_PEERS` names a folder with `kube-apiserver`, `kube-controller-manager` and `kube-scheduler` (written
//! against 1.21). Without it the test does nothing; `kubelet/src/cluster/tests/stock.rs` tests what a stock server
//! requires of a kubelet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tests::manifest::{FOREVER, container};
use tests::{DEADLINE, Etcd, IMAGE, Output, Port, Process, World, free_port, installed, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The stock node lifecycle controller marks a node as lost after 40 s, and checks every 5 s.
const LOST_WITHIN: Duration = Duration::from_secs(90);

/// A stock control plane on loopback.
struct Stock {
    folder: TempDir,
    _port: Port,
    _processes: Vec<Process>,
    _etcd: Etcd,
}

impl Stock {
    async fn running(peers: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("st").tempdir_in("/tmp").unwrap();
        let path = folder.path().to_owned();
        let at = |name: &str| path.join(name);
        let (etcd, port) = (Etcd::running().await, free_port());
        certificates(folder.path());
        // The server does not create the folder of its loopback certificate.
        fs::create_dir(at("api")).unwrap();
        let tokens =
            ["admin,admin,1,system:masters", "boot,system:bootstrap:abcdef,2,system:bootstrappers", ""];
        fs::write(at("tokens.csv"), tokens.join("\n")).unwrap();
        for (user, file) in [("admin", "admin.conf"), ("boot", "boot.conf")] {
            fs::write(at(file), kubeconfig(port.number, &at("ca.crt"), user)).unwrap();
        }
        let mut processes = Vec::new();
        let mut start = |program: &str, flags: String| {
            let mut command = Command::new(peers.join(program));
            command.current_dir(&path).args(flags.split_whitespace());
            processes.push(Process::start(&mut command, &at(&format!("{program}.log"))));
        };
        start(
            "kube-apiserver",
            format!(
                "--etcd-servers {} --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port {port} \
                 --tls-cert-file server.crt --tls-private-key-file server.key --client-ca-file ca.crt --token-auth-file tokens.csv \
                 --service-account-key-file ca.key --service-account-signing-key-file ca.key --service-account-issuer https://stock \
                 --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --kubelet-client-certificate client.crt \
                 --kubelet-client-key client.key --kubelet-preferred-address-types InternalIP --endpoint-reconciler-type none \
                 --service-cluster-ip-range 10.97.0.0/16 --cert-dir api",
                etcd.url()
            ),
        );
        for (program, flags) in [
            (
                "kube-controller-manager",
                "--cluster-signing-cert-file ca.crt --cluster-signing-key-file ca.key --root-ca-file ca.crt \
                 --service-account-private-key-file ca.key",
            ),
            ("kube-scheduler", ""),
        ] {
            let ports = format!("--port 0 --secure-port {} --bind-address 127.0.0.1", free_port());
            start(
                program,
                format!("--kubeconfig admin.conf --leader-elect=false --cert-dir {program} {ports} {flags}"),
            );
        }
        let stock = Self { folder, _port: port, _processes: processes, _etcd: etcd };
        let ready = async || stock.says(&["get", "--raw", "/readyz"], "ok").await;
        wait_until(DEADLINE, ready).await.unwrap();
        for (name, role, who) in [
            ("boot", "system:node-bootstrapper", "--group=system:bootstrappers"),
            (
                "first",
                "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
                "--group=system:bootstrappers",
            ),
        ] {
            let role = format!("--clusterrole={role}");
            let binds =
                async || stock.says(&["create", "clusterrolebinding", name, &role, who], "created").await;
            wait_until(DEADLINE, binds).await.unwrap();
        }
        stock
    }

    async fn kubectl(&self, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(installed("kubernetes-client", "kubectl"));
        let kubeconfig = self.folder.path().join("admin.conf");
        command.env("HOME", self.folder.path()).arg("--kubeconfig").arg(kubeconfig).args(arguments);
        let output = tokio::time::timeout(DEADLINE, command.kill_on_drop(true).output()).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {arguments:?} does not end")).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Checks that kubectl succeeds and prints the expected text.
    async fn says(&self, arguments: &[&str], expected: &str) -> Result<(), String> {
        let said = self.kubectl(arguments).await;
        if said.code == 0 && said.stdout.contains(expected) {
            Ok(())
        } else {
            Err(format!("{arguments:?}: {said:?}"))
        }
    }

    /// Waits until `says` succeeds.
    async fn comes_to_say(&self, within: Duration, arguments: &[&str], expected: &str) {
        let look = async || self.says(arguments, expected).await;
        wait_until(within, look).await.unwrap_or_else(|seen| panic!("{expected:?} is not said: {seen}"));
    }

    /// Waits until a port of the pod, forwarded by kubectl, serves that text at the path.
    async fn forwards(&self, pod: &str, port: u16, path: &str, expected: &str) {
        let local = free_port();
        let mut command = Command::new(installed("kubernetes-client", "kubectl"));
        command
            .env("HOME", self.folder.path())
            .arg("--kubeconfig")
            .arg(self.folder.path().join("admin.conf"));
        command.args(["port-forward", pod, &format!("{local}:{port}")]);
        let _forwarding = Process::start(&mut command, &self.folder.path().join("port-forward.log"));
        let ask = async || {
            let mut stream = TcpStream::connect(("127.0.0.1", local.number)).await?;
            stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let serves = async || match ask().await {
            Ok(answer) if answer.contains(expected) => Ok(()),
            other => Err(format!("{other:?}")),
        };
        wait_until(DEADLINE, serves).await.unwrap();
    }

    async fn apply(&self, file: &str, manifest: &str) {
        let path = self.folder.path().join(file);
        fs::write(&path, manifest).unwrap();
        let said = self.kubectl(&["apply", "-f", path.to_str().unwrap()]).await;
        assert_eq!(said.code, 0, "{said:?}");
    }
}

/// Creates a CA in `ca`, the server's certificate, and the server's client certificate for kubelets.
fn certificates(folder: &Path) {
    let openssl = |words: &str| {
        let mut command = Command::new(installed("openssl", "openssl"));
        let output = command.current_dir(folder).args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=stock -keyout ca.key -out ca.crt");
    for (name, subject, names) in [
        ("server", "/CN=kube-apiserver", "IP:127.0.0.1,DNS:kubernetes.default.svc"),
        ("client", "/O=system:masters/CN=kubelet-client", "DNS:client"),
    ] {
        fs::write(folder.join("names"), format!("subjectAltName={names}\n")).unwrap();
        openssl(&format!("req -newkey rsa:2048 -nodes -subj {subject} -keyout {name}.key -out {name}.csr"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 9 -out {name}.crt -extfile names"
        ));
    }
}

fn kubeconfig(port: u16, authority: &Path, token: &str) -> String {
    let authority = authority.display();
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', \
         certificate-authority: {authority}}}}}]\nusers: [{{name: u, user: {{token: {token}}}}}]\ncontexts: [{{name: x, context: \
         {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

fn deployment(text: &str) -> String {
    let main = container("main", FOREVER, &format!("env: [{{name: TEXT, value: {text}}}]"));
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: dep}}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{app: \
         dep}}}}\n  template:\n    metadata: {{labels: {{app: dep}}}}\n    spec:\n      terminationGracePeriodSeconds: 2\n      \
         containers: [{main}]\n"
    )
}

#[tokio::test]
async fn a_pod_lives_on_a_node_of_a_stock_cluster() {
    let Some(peers) = std::env::var_os("CORACLE_PEERS").map(PathBuf::from) else { return };
    let stock = Stock::running(&peers).await;
    let boot = stock.folder.path().join("boot.conf");
    let mut node = World::new("stock").await;
    let kubeconfig = node.path("kubeconfig");
    node = node.with_config("rotateCertificates: true\nserverTLSBootstrap: true\n").with_flags([
        "--bootstrap-kubeconfig",
        boot.to_str().unwrap(),
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--node-ip",
        "127.0.0.1",
    ]);
    node.launch();
    stock.comes_to_say(DEADLINE, &["get", "node", &node.node], " Ready").await;
    // An administrator approves the serving certificate.
    let approve = async || {
        let list = stock.kubectl(&["get", "csr", "-o", "json"]).await;
        let list: Value = serde_json::from_str(&list.stdout).map_err(|error| error.to_string())?;
        let all = list["items"].as_array().ok_or("no list")?;
        let serving = all.iter().find(|csr| csr["spec"]["signerName"] == "kubernetes.io/kubelet-serving");
        let name = serving.and_then(|csr| csr["metadata"]["name"].as_str()).ok_or("no request")?;
        stock.says(&["certificate", "approve", name], "approved").await
    };
    node.wait_for("a request for a serving certificate", approve).await;

    let script = "httpd -p 8080 -h /conf; echo begins; while sleep 1; do cat /conf/text; done";
    let main = container("main", script, "volumeMounts: [{name: conf, mountPath: /conf}]");
    let pod = |text: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: conf}}\ndata: {{text: {text}}}\n---\napiVersion: v1\nkind: \
             Pod\nmetadata: {{name: web}}\nspec:\n  terminationGracePeriodSeconds: 2\n  containers: [{main}]\n  volumes: [{{name: conf, \
             configMap: {{name: conf}}}}]\n"
        )
    };
    stock.apply("pod.yaml", &pod("first")).await;
    stock.comes_to_say(DEADLINE, &["get", "pod", "web"], "1/1").await;
    stock.comes_to_say(DEADLINE, &["logs", "web"], "begins").await;
    stock.comes_to_say(DEADLINE, &["exec", "web", "--", "cat", "/conf/text"], "first").await;
    stock.forwards("web", 8080, "/text", "first").await;
    // A short command that `kubectl run` attaches to.
    let image = format!("--image={IMAGE}");
    let attach = ["run", "once", &image, "--restart=Never", "--rm", "--attach", "--command", "--"];
    stock.comes_to_say(DEADLINE, &[&attach[..], &["sh", "-c", "sleep 1; echo said"]].concat(), "said").await;
    stock.apply("pod.yaml", &pod("second")).await;
    stock.comes_to_say(DEADLINE, &["exec", "web", "--", "cat", "/conf/text"], "second").await;
    stock.apply("dep.yaml", &deployment("one")).await;
    stock
        .comes_to_say(DEADLINE, &["rollout", "status", "deployment/dep", "--timeout=20s"], "successfully")
        .await;
    stock.apply("dep.yaml", &deployment("two")).await;
    stock
        .comes_to_say(DEADLINE, &["rollout", "status", "deployment/dep", "--timeout=20s"], "successfully")
        .await;

    // The node becomes unreachable, then returns with the same containers.
    let id = node.container("web", "main").await.map(|container| container.id).unwrap_or_default();
    node.kill();
    stock.comes_to_say(LOST_WITHIN, &["get", "node", &node.node], "NotReady").await;
    node.launch();
    stock.comes_to_say(DEADLINE, &["get", "node", &node.node], " Ready").await;
    stock.comes_to_say(DEADLINE, &["get", "pod", "web"], "1/1").await;
    assert_eq!(node.container("web", "main").await.map(|container| container.id).unwrap_or_default(), id);

    let gone = stock.kubectl(&["delete", "pod", "web", "--wait"]).await;
    assert_eq!(gone.code, 0, "{gone:?}");
    stock.kubectl(&["delete", "deployment", "dep"]).await;
    stock.comes_to_say(DEADLINE, &["get", "pods", "-o", "name", "--ignore-not-found"], "").await;
    let empty = async || {
        let left = stock.kubectl(&["get", "pods", "-o", "name"]).await.stdout;
        if left.is_empty() { Ok(()) } else { Err(left) }
    };
    node.wait_for("all pods to be gone", empty).await;
}
