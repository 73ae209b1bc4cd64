//! The kubelet as a node of a stock control plane, through the whole lifecycle of a pod.
//!
//! `CORACLE_PEERS` names a folder with `kube-apiserver`, `kube-controller-manager` and `kube-scheduler` (written
//! against 1.21). `kubelet/src/cluster/tests/stock.rs` tests without them what a stock server requires of a kubelet.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tests::manifest::container;
use tests::{DEADLINE, Etcd, IMAGE, Port, Process, World, free_port, installed, wait_until};

use crate::stock_client::{Client, LOST_WITHIN, NODE_GRACE, deployment, web};
use crate::stock_page::stock_program;

/// A stock control plane on loopback.
struct Stock {
    client: Client,
    folder: TempDir,
    _port: Port,
    _processes: Vec<Process>,
    _etcd: Etcd,
}

impl Stock {
    async fn running() -> Self {
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
            let mut command = Command::new(stock_program(program));
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
                format!(
                    "--cluster-signing-cert-file ca.crt --cluster-signing-key-file ca.key --root-ca-file ca.crt \
                     --service-account-private-key-file ca.key {NODE_GRACE}"
                ),
            ),
            ("kube-scheduler", String::new()),
        ] {
            let ports = format!("--port 0 --secure-port {} --bind-address 127.0.0.1", free_port());
            start(
                program,
                format!("--kubeconfig admin.conf --leader-elect=false --cert-dir {program} {ports} {flags}"),
            );
        }
        let client = Client::new(&path, &at("admin.conf"));
        let stock = Self { client, folder, _port: port, _processes: processes, _etcd: etcd };
        let ready = async || stock.client.check_output(&["get", "--raw", "/readyz"], "ok").await;
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
            let binds = async || {
                stock
                    .client
                    .check_output(&["create", "clusterrolebinding", name, &role, who], "created")
                    .await
            };
            wait_until(DEADLINE, binds).await.unwrap();
        }
        stock
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

#[tokio::test]
async fn pod_runs_on_a_node_of_a_stock_cluster() {
    let stock = Stock::running().await;
    let client = &stock.client;
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
    let mut other = World::new("other").await;
    let kubeconfig = other.path("kubeconfig").display().to_string();
    let flags = ["--bootstrap-kubeconfig", boot.to_str().unwrap(), "--kubeconfig", &kubeconfig];
    other = other.with_config("rotateCertificates: true\n").with_flags(flags);
    other.launch();
    client.wait_for_output(DEADLINE, &["get", "node", &other.node], " Ready").await;
    client.check_output(&["cordon", &other.node], "cordoned").await.unwrap();
    client.wait_for_output(DEADLINE, &["get", "node", &node.node], " Ready").await;
    // An administrator approves the serving certificate.
    let approve = async || {
        let list = client.kubectl(&["get", "csr", "-o", "json"]).await;
        let list: Value = serde_json::from_str(&list.stdout).map_err(|error| error.to_string())?;
        let all = list["items"].as_array().ok_or("no list")?;
        let serving = all.iter().find(|csr| csr["spec"]["signerName"] == "kubernetes.io/kubelet-serving");
        let name = serving.and_then(|csr| csr["metadata"]["name"].as_str()).ok_or("no request")?;
        client.check_output(&["certificate", "approve", name], "approved").await
    };
    node.wait_for("a request for a serving certificate", approve).await;

    client.apply(&web("first")).await;
    client.wait_for_output(DEADLINE, &["get", "pod", "web"], "1/1").await;
    client.wait_for_output(DEADLINE, &["logs", "web"], "begins").await;
    client.wait_for_output(DEADLINE, &["exec", "web", "--", "cat", "/conf/text"], "first").await;
    client.check_port_forward("web", 8080, "/text", "first").await;
    // A short command that `kubectl run` attaches to.
    let image = format!("--image={IMAGE}");
    let attach = ["run", "once", &image, "--restart=Never", "--rm", "--attach", "--command", "--"];
    client
        .wait_for_output(DEADLINE, &[&attach[..], &["sh", "-c", "sleep 1; echo said"]].concat(), "said")
        .await;
    client.apply(&web("second")).await;
    client.wait_for_output(DEADLINE, &["exec", "web", "--", "cat", "/conf/text"], "second").await;
    check_attach_with_input(client).await;
    check_conditions(client).await;
    client.apply(&deployment("one")).await;
    client.wait_for_rollout().await;
    client.apply(&deployment("two")).await;
    client.wait_for_rollout().await;

    // The node becomes unreachable. Pods that do not tolerate that are evicted, the others stay as they are.
    client.wait_for_terminating_pods().await;
    let id = node.container("web", "main").await.map(|container| container.id).unwrap_or_default();
    node.kill();
    client.wait_for_output(LOST_WITHIN, &["get", "node", &node.node], "NotReady").await;
    client.wait_for_eviction().await;
    node.launch();
    client.wait_for_output(DEADLINE, &["get", "node", &node.node], " Ready").await;
    client.wait_for_output(DEADLINE, &["get", "pod", "web"], "1/1").await;
    assert_eq!(node.container("web", "main").await.map(|container| container.id).unwrap_or_default(), id);
    client.wait_for_rollout().await;
    client.wait_for_terminating_pods().await;

    let gone = client.kubectl(&["delete", "pod", "web", "--wait"]).await;
    assert_eq!(gone.code, 0, "{gone:?}");
    client.kubectl(&["delete", "deployment", "dep"]).await;
    client.wait_for_no_output(&["get", "pods", "-o", "name"]).await;
}

/// Input reaches a running container, and its output comes back.
async fn check_attach_with_input(client: &Client) {
    let main = container("main", "read word; echo said $word", "stdin: true, stdinOnce: true");
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: talk}}\nspec: {{restartPolicy: Never, containers: [{main}]}}\n"
    );
    client.apply(&pod).await;
    client.wait_for_output(DEADLINE, &["get", "pod", "talk"], "1/1").await;
    let printed = client.kubectl_with_input(&["attach", "-i", "talk"], "hello\n").await;
    assert!(printed.code == 0 && printed.stdout.contains("said hello"), "{printed:?}");
    client.wait_for_output(DEADLINE, &["get", "pod", "talk"], "Completed").await;
    client.check_output(&["delete", "pod", "talk"], "deleted").await.unwrap();
}

/// A pod waits for its init container, and fails with it; another is edited while it runs.
async fn check_conditions(client: &Client) {
    const INITIALIZED: &str = "{.status.conditions[?(@.type=='Initialized')]['status','reason']}";
    let (init, main) = (container("init", "sleep 5; exit 3", ""), container("main", "sleep 1000", ""));
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: fails}}\nspec: {{restartPolicy: Never, initContainers: [{init}], \
         containers: [{main}]}}\n"
    );
    client.apply(&pod).await;
    client.wait_for_output(DEADLINE, &["get", "pod", "fails"], "Init:0/1").await;
    let shown = format!("jsonpath={{.status.phase}} {INITIALIZED}");
    client
        .wait_for_output(
            DEADLINE,
            &["get", "pod", "fails", "-o", &shown],
            "Failed False ContainersNotInitialized",
        )
        .await;
    client.check_output(&["get", "pod", "fails"], "Init:Error").await.unwrap();
    client.check_output(&["delete", "pod", "fails"], "deleted").await.unwrap();

    // A stock server lets an image of a running pod change; the container restarts.
    let other = format!("{IMAGE}-none");
    let image = format!(r#"{{"spec":{{"containers":[{{"name":"main","image":"{other}"}}]}}}}"#);
    client.check_output(&["patch", "pod", "web", "-p", &image], "patched").await.unwrap();
    client.wait_for_output(DEADLINE, &["get", "events"], &other).await;
    let image = image.replace(&other, IMAGE);
    client.check_output(&["patch", "pod", "web", "-p", &image], "patched").await.unwrap();
    client.wait_for_output(DEADLINE, &["get", "pod", "web"], "1/1").await;
}
