//! Three masters with an etcd cluster, set up as docs/bootstrap.md says: a machine fails, and the cluster continues to work.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tests::bed::manifest;
use tests::manifest::{FOREVER, container, pod};
use tests::{Bed, Files, Machine, installed};

use crate::cluster_bootstrap::stage::{TAG, image, kubectl, node_ready, pod_ready, sees};

/// The example addresses and node names in the manifests and on the page.
const EXAMPLES: [(&str, &str); 3] =
    [("192.0.2.11", "node-a"), ("192.0.2.12", "node-b"), ("192.0.2.13", "node-c")];

/// Replaces the example addresses and names in a text by those of these machines.
fn edited(text: &str, machines: [&Machine; 3]) -> String {
    let pairs = EXAMPLES.iter().zip(machines);
    pairs.fold(text.to_owned(), |text, ((address, node), machine)| {
        text.replace(address, &machine.address)
            .replace(&format!("{node}="), &format!("{}=", machine.node.node))
    })
}

/// The commands on the page that create the certificates of etcd.
fn commands() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/bootstrap.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, after) = page.split_once("```sh\n").unwrap();
    after.split_once("```").unwrap().0.to_owned()
}

fn run(shell: &str) {
    let output = Command::new("sh").args(["-ec", shell]).output().unwrap();
    assert!(output.status.success(), "{shell}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until a node's lease at a machine's master has been renewed after that time. Returns the new time.
async fn renewed(machine: &Machine, of: &Machine, after: &str) -> String {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", of.node.node);
    let at = |lease: &Value| lease["spec"]["renewTime"].as_str().unwrap_or_default().to_owned();
    at(&sees(machine, &path, "to be renewed", |lease| at(lease).as_str() > after).await)
}

#[tokio::test]
async fn cluster_survives_the_loss_of_one_of_three_masters() {
    let (_bed, [mut a, mut b, mut c]) = Bed::with([1, 1, 1]).await;
    let (master, etcd) = (image(), Files::of(&installed("etcd-server", "etcd")));
    let texts = ["master.yaml", "etcd.yaml"]
        .map(|file| (file, edited(&manifest(&format!("ha/{file}")), [&a, &b, &c])));
    for machine in [&a, &b, &c] {
        master.give(&machine.engine.engine(), "coracle/master", TAG).await;
        etcd.give(&machine.engine.engine(), "registry.k8s.io/etcd", "3.5.21-0").await;
        for (file, text) in &texts {
            machine.node.write(file, &machine.own_manifest(text, TAG));
        }
    }

    let directory = |machine: &Machine| machine.master_dir().display().to_string();
    run(&edited(&commands(), [&a, &b, &c]).replace("/var/lib/master", &directory(&a)));
    a.found(&[]).await;
    let made = async || match a.master_dir().join("admin.kubeconfig").exists() {
        true => Ok(()),
        false => Err("there is no admin.kubeconfig".to_owned()),
    };
    a.node.wait_for("the first master to make its pki", made).await;
    for machine in [&b, &c] {
        let (from, to) = (directory(&a), directory(machine));
        run(&format!("mkdir -m 700 {to} && cp -r {from}/etcd {from}/pki {to}"));
    }
    b.found(&[]).await;
    node_ready(&b, &a).await;
    node_ready(&a, &b).await;
    c.found(&[]).await;
    node_ready(&a, &c).await;

    let path = c.node.path("kept.yaml");
    let main = container("main", FOREVER, "");
    let spec =
        format!("nodeName: {}\nautomountServiceAccountToken: false\ncontainers:\n- {main}", c.node.node);
    fs::write(&path, pod("kept", &spec)).unwrap();
    kubectl(&a, &["apply", "-f", path.to_str().unwrap()]).await;
    let kept = pod_ready(&b, "kept").await;

    a.power_off();
    kubectl(&b, &["create", "configmap", "written-without-a", "--from-literal=by=b"]).await;
    let config = "/api/v1/namespaces/default/configmaps/written-without-a";
    sees(&c, config, "to be there", |config| config["data"]["by"] == "b").await;

    // The master that its kubelet has used until now fails too, and the kubelet switches to another one.
    c.node.remove("master.yaml");
    c.node.wait_gone("master").await;
    let last = [renewed(&b, &b, "").await, renewed(&b, &c, "").await];
    renewed(&b, &b, &last[0]).await;
    renewed(&b, &c, &last[1]).await;
    assert_eq!(pod_ready(&b, "kept").await.uid(), kept.uid());

    a.boot().await;
    a.node.start().await;
    sees(&a, config, "to be there too", |config| config["data"]["by"] == "b").await;
    node_ready(&a, &a).await;
}
