//! A demo cluster of three machines on a bed: the first runs the master as a static pod, two join with its join
//! string.
//!
//! `hack/demo-cluster.sh` builds the binaries and runs this program. It exits on Ctrl-C, or as soon as everything
//! is Ready if `ONCE` is set. Everything that the program created ends with it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it ends with what went wrong, and leaves nothing")]

use std::env;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tests::bed::manifest;
use tests::{Bed, Machine, Pod, binary, exported, installed, wait_until};
use tokio::signal::unix::{SignalKind, signal};

/// Repository of the master image that `hack/image.sh` builds.
const REPOSITORY: &str = "coracle/master";
/// How long to wait until everything is Ready. A loaded machine with cold engines needs minutes, an idle one about
/// twenty seconds.
const READY_WITHIN: Duration = Duration::from_secs(240);
/// API path of the nodes.
const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    tokio::select! {
        () = demo() => {}
        _ = tokio::signal::ctrl_c() => print_step("taking everything down"),
        _ = terminate.recv() => print_step("taking everything down"),
    }
}

async fn demo() {
    let tag = env::var("TAG").unwrap_or_else(|_| "latest".to_owned());
    print_step("switching on three machines: network namespaces with a Docker engine each");
    let (_bed, mut machines) = Bed::named(["one", "two", "three"]).await;
    for machine in &machines {
        println!("  {} at {}", machine.node.node, machine.address);
    }
    let [one, others @ ..] = &mut machines;

    print_step("node one: a kubelet, manifests/master.yaml in its directory, and the image of the master");
    one.engine.load_image(exported(&format!("{REPOSITORY}:{tag}")).await).await;
    one.node.write("master.yaml", &one.own_manifest(&manifest("master.yaml"), &tag));
    one.found(&[]).await;
    ready(one, NODES, 1).await;

    let line = one.node.wait_for("a line to join by", async || one.join_string().await).await;
    print_step(&format!("nodes two and three: kubelet run --bootstrap '{line}'"));
    for other in others.iter_mut() {
        other.join_by(&line).await;
    }
    print_step("an administrator approves them: kubectl certificate approve NAME");
    let approved = async || {
        approve(one).await?;
        all_ready(one, NODES, 3).await
    };
    within(one, "the nodes to be Ready", approved).await;
    println!("{}", table(one, &["get", "nodes", "-o", "wide"]).await);

    print_step("pods for all three: kubectl apply -f examples/cluster");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples/cluster");
    table(one, &["apply", "-f", examples.to_str().unwrap()]).await;
    print_step("they get each other's addresses, and are Ready when all of them respond");
    let addresses = within(one, "the pods to have addresses", async || addresses(one).await).await;
    let patch = serde_json::json!({"data": {"addresses": addresses.join(" ")}}).to_string();
    table(one, &["patch", "configmap", "round", "-p", &patch]).await;
    ready(one, PODS, 3).await;
    println!("{}", table(one, &["get", "pods", "-A", "-o", "wide"]).await);
    print_step("every node and every pod is Ready");
    if env::var("ONCE").is_ok_and(|once| !once.is_empty()) {
        return;
    }
    look_around(one);
    std::future::pending().await
}

fn print_step(text: &str) {
    println!("\ndemo: {text}");
}

/// Runs kubectl as administrator. Returns its output.
async fn table(one: &Machine, arguments: &[&str]) -> String {
    let output = one.kubectl(arguments).await;
    assert_eq!(output.code, 0, "kubectl {arguments:?}: {}", output.stderr);
    output.stdout
}

/// Polls until `look` succeeds. After the timeout, exits and prints the log of the first node.
async fn within<T>(one: &Machine, what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> T {
    match wait_until(READY_WITHIN, look).await {
        Ok(found) => found,
        Err(seen) => panic!("waited {READY_WITHIN:?} for {what}, but {seen}\n{}", one.node.log_tail()),
    }
}

/// Waits until `count` objects exist at the path and all are Ready.
async fn ready(one: &Machine, path: &str, count: usize) {
    within(one, &format!("{count} of {path} to be Ready"), async || all_ready(one, path, count).await).await;
}

async fn all_ready(one: &Machine, path: &str, count: usize) -> Result<(), String> {
    let ready: Vec<bool> = items(one, path).await?.into_iter().map(|item| Pod(item).is_ready()).collect();
    if ready.len() == count && ready.iter().all(|ready| *ready) { Ok(()) } else { Err(format!("{ready:?}")) }
}

async fn items(one: &Machine, path: &str) -> Result<Vec<Value>, String> {
    let list = one.get_json(path).await?;
    list["items"].as_array().cloned().ok_or_else(|| format!("{path} is no list"))
}

/// Approves pending certificate requests of joining machines; the master approves requests of nodes by itself.
async fn approve(one: &Machine) -> Result<(), String> {
    for request in items(one, "/apis/certificates.k8s.io/v1/certificatesigningrequests").await? {
        let is_first = request["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet";
        if is_first && request["status"]["conditions"].is_null() {
            let name = request["metadata"]["name"].as_str().unwrap_or_default();
            print!("{}", table(one, &["certificate", "approve", name]).await);
        }
    }
    Ok(())
}

/// Addresses of the three pods of the example.
async fn addresses(one: &Machine) -> Result<Vec<String>, String> {
    let pods: Vec<Pod> = items(one, PODS).await?.into_iter().map(Pod).collect();
    let addresses: Vec<String> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
    if addresses.len() == 3 && addresses.iter().all(|address| !address.is_empty()) {
        return Ok(addresses);
    }
    Err(format!("they have {addresses:?}"))
}

fn look_around(one: &Machine) {
    let (kubelet, kubectl) = (binary("kubelet"), installed("kubernetes-client", "kubectl"));
    let (kubelet, kubectl) = (kubelet.display(), kubectl.display());
    let on_one = format!("sudo nsenter --net=/proc/{}/ns/net", one.host().pid());
    let admin = one.master_dir().join("admin.kubeconfig");
    println!(
        "Look around from another terminal:\n  alias k='{on_one} {kubectl} --kubeconfig {}'\n  \
         k get nodes\n  k get pods -A -o wide\n  k logs round-1 -f\n  k exec -it round-2 -- sh\n  \
         sudo {kubelet} get pods -A --root-dir {}\n\
         Change {} (the probes, the arguments) and watch the master being replaced while all pods go on.\n\
         Ctrl-C takes everything down.",
        admin.display(),
        one.node.root_dir().display(),
        one.node.manifests().join("master.yaml").display(),
    );
}
