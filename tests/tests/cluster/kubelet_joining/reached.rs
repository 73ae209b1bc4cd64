//! kubectl reaches a joined node through the master, also while all certificates between the two are renewed.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::time::Duration;

use tests::manifest::scripted;
use tests::{DEADLINE, Master, Pod, World, wait_until};

use crate::kubelet_joining::machine::{admin, is_in, line, master, pem, started};

/// The interval of each kind of request while certificates are renewed.
const PACE: Duration = Duration::from_millis(500);

/// Starts a static pod, waits until the master shows it, and returns its name.
pub async fn runs(node: &World, master: &Master) -> String {
    let script = "echo here; trap 'exit 0' TERM; sleep 1000000 & wait";
    node.write("web.yaml", &scripted("web", "Always", script));
    node.wait_ready("web").await;
    node.wait_for_log("web", "main", "here").await;
    shown(node, master, "web").await
}

/// Waits until the master shows the current pod of the node. Returns the pod's name.
pub async fn shown(node: &World, master: &Master, name: &str) -> String {
    let name = node.pod_name(name);
    let look = async || match master.get_as_admin(&format!("/api/v1/namespaces/default/pods/{name}")).await {
        (200, text) if Pod(serde_json::from_str(&text).unwrap()).is_ready() => Ok(()),
        (code, text) => Err(format!("{code} {text}")),
    };
    node.wait_for("the master to show the pod", look).await;
    name
}

/// Waits until the pod's log can be read through the master.
pub async fn wait_for_logs(node: &World, master: &Master, pod: &str) {
    let kubeconfig = master.data_dir().join("admin.kubeconfig");
    let look = async || match master.kubectl(&kubeconfig, &["logs", pod]).await {
        output if output.code == 0 && output.stdout == "here\n" => Ok(()),
        output => Err(format!("{output:?}")),
    };
    node.wait_for("the pod's log through the master", look).await;
}

/// Asserts the pod's log as read through the master.
pub async fn logs(master: &Master, pod: &str) {
    assert_eq!(admin(master, &["logs", pod]).await, "here\n");
}

/// Repeats a kubectl command forever and asserts each output.
async fn keeps_asking(master: &Master, arguments: &[&str], expected: &str) -> Infallible {
    let mut turns = tokio::time::interval(PACE);
    loop {
        turns.tick().await;
        let printed = admin(master, arguments).await;
        assert!(printed.contains(expected), "{arguments:?}: {printed}");
    }
}

#[tokio::test]
async fn one_minute_certificates_are_renewed_without_kubectl_errors() {
    let rotations = std::env::var("CORACLE_ROTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let master = master(&[
        "--csr-approval-policy=insecure-always-approve",
        "--cluster-signing-duration=60s",
        "--serving-cert-duration=60s",
    ])
    .await;
    let node = started("minute", &["--bootstrap", &line(&master).await]).await;
    is_in(&node, &master, "kubelet:").await;
    let pod = runs(&node, &master).await;
    wait_for_logs(&node, &master, &pod).await;
    let files = ["kubelet-client-current.pem", "kubelet-server-current.pem"].map(|name| pem(&node, name));
    let files = [&files[0], &files[1], &master.data_dir().join("pki/serving.pem")];
    let mut seen = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    let rotated = async || {
        for (path, seen) in files.iter().zip(&mut seen) {
            seen.extend(fs::read_to_string(path));
        }
        let counts = seen.each_ref().map(|seen| seen.len().saturating_sub(1));
        if counts.iter().all(|count| *count >= rotations) { Ok(()) } else { Err(format!("{counts:?}")) }
    };
    let within = Duration::from_secs(60) * u32::try_from(rotations).unwrap() + DEADLINE;
    let (log, echo) = (["logs", &pod], ["exec", &pod, "--", "echo", "inside"]);
    tokio::select! {
        rotated = wait_until(within, rotated) => rotated.unwrap(),
        never = keeps_asking(&master, &["get", "pods"], &pod) => match never {},
        never = keeps_asking(&master, &log, "here\n") => match never {},
        never = keeps_asking(&master, &echo, "inside\n") => match never {},
    }
    // Each renewal is logged, after its file is written.
    let logged = async || {
        let log = fs::read_to_string(node.log_path()).map_err(|error| error.to_string())?;
        for (log, line) in [
            (&log, "the client certificate of this node is valid until"),
            (&log, "the serving certificate of this node is valid until"),
            (&master.log(), "reloaded the serving certificate: it is valid until"),
        ] {
            let entry = log.lines().filter(|entry| entry.contains(line) && entry.contains("INFO")).count();
            if entry < rotations {
                return Err(format!("{entry} times {line:?} in\n{log}"));
            }
        }
        Ok(())
    };
    node.wait_for("each renewal to be logged", logged).await;
}
