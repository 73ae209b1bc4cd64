//! `docs/static.md`: creates all certificates with `openssl` as the page says, and checks with `kubectl` that they
//! work.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Master, installed};

const PAGE: &str = include_str!("../../../../docs/static.md");

/// The executable blocks of the page, in order.
fn blocks() -> Vec<&'static str> {
    PAGE.split("```").filter_map(|block| block.strip_prefix("sh\n")).collect()
}

/// Runs all of them as one script, with the page's paths and addresses replaced.
fn follow(folder: &Path, master: &Master) {
    let place = master.data_dir().display().to_string();
    let script = blocks().join("\n");
    let script = script.replace("192.0.2.10:6443", &format!("127.0.0.1:{}", master.port));
    let script = script.replace("192.0.2.10", "127.0.0.1").replace("/var/lib/master", &place);
    let [openssl, kubectl] = [installed("openssl", "openssl"), installed("kubernetes-client", "kubectl")];
    let beside = |program: &Path| program.parent().unwrap().display().to_string();
    let path = format!("{}:{}:{}", beside(&kubectl), beside(&openssl), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-eu", "-c", &script]).current_dir(folder).env("PATH", path).env("HOME", folder);
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn master_runs_with_certificates_created_by_the_administrator() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "--advertise-address=127.0.0.1",
        "--csr-approval-policy=always-reject",
        "--node-admission=certificate",
    ];
    let mut master = Master::new().with_flags(flags);
    follow(folder.path(), &master);
    let pki = |name: &str| fs::read_to_string(master.data_dir().join("pki").join(name)).unwrap();
    let brought = ["root.crt", "intermediate.crt", "serving.pem", "service-account.key"].map(pki);
    master.start().await;
    let pki = |name: &str| fs::read_to_string(master.data_dir().join("pki").join(name)).unwrap();
    assert_eq!(["root.crt", "intermediate.crt", "serving.pem", "service-account.key"].map(pki), brought);
    assert!(!master.data_dir().join("pki/root.key").exists());

    let file = |name: &str| folder.path().join(name);
    let admin = master.kubectl(&file("admin.kubeconfig"), &["get", "namespaces"]).await;
    assert!(admin.code == 0 && admin.stdout.contains("kube-system"), "{admin:?}");
    // The node's key is not recorded in its Node object.
    let node = async || master.kubectl(&file("worker-1.kubeconfig"), &["get", "node", "worker-1"]).await;
    let refused = node().await;
    assert!(refused.code != 0 && refused.stderr.contains("not registered"), "{refused:?}");
    let hash = fs::read_to_string(file("worker-1.hash")).unwrap();
    let annotations = json!({"coracle.io/public-keys": hash.trim()});
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1", "annotations": annotations}});
    fs::write(file("node.json"), object.to_string()).unwrap();
    let path = file("node.json").display().to_string();
    let made = master.kubectl(&file("admin.kubeconfig"), &["create", "-f", &path]).await;
    assert_eq!(made.code, 0, "{made:?}");
    let seen = node().await;
    assert!(seen.code == 0 && seen.stdout.contains("worker-1"), "{seen:?}");
    let (_, text) = master.get_as_admin("/api/v1/nodes/worker-1").await;
    let seen: Value = serde_json::from_str(&text).unwrap();
    let trusted =
        seen["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Trusted");
    // The node has the taint only because it has not reported Ready yet.
    let silent = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    assert_eq!((&trusted.unwrap()["status"], &seen["spec"]["taints"]), (&"True".into(), &silent), "{seen}");
    // The node's serving certificate chains to the same root.
    let mut verify = Command::new(installed("openssl", "openssl"));
    verify.args(["verify", "-CAfile", "root.crt", "-untrusted", "intermediate.crt", "-purpose", "sslserver"]);
    let verified = verify.arg("worker-1-serving.leaf").current_dir(folder.path()).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
}
