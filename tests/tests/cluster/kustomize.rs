//! `kubectl apply -k` with generators, by each kubectl of this machine.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tests::{IMAGE, Kubectl, Master, World, kubectls};

use crate::cluster_pods::{get, joined_with};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments";

fn write(folder: &Path, prefix: &str, greeting: &str) {
    let kustomization = format!(
        "namePrefix: {prefix}-\nresources: [deployment.yaml]\ncommonLabels: {{variant: {prefix}}}\n\
         configMapGenerator:\n- name: greeting\n  literals: [\"text={greeting}\"]\n\
         secretGenerator:\n- name: key\n  literals: [\"key=secret\"]\n\
         images:\n- name: main\n  newName: {}\n  newTag: \"{}\"\n",
        IMAGE.split(':').next().unwrap(),
        IMAGE.split(':').next_back().unwrap(),
    );
    fs::write(folder.join("kustomization.yaml"), kustomization).unwrap();
    let deployment = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: main
        imagePullPolicy: IfNotPresent
        command: [sh, -c, "echo $text $key; exec sleep 3600"]
        envFrom: [{configMapRef: {name: greeting}}, {secretRef: {name: key}}]
"#;
    fs::write(folder.join("deployment.yaml"), deployment).unwrap();
}

async fn run(master: &Master, kubectl: &Kubectl, line: &str) -> String {
    let kubeconfig = master.data_dir().join("admin.kubeconfig");
    let arguments: Vec<&str> = line.split(' ').collect();
    let output = master.kubectl_at(&kubectl.path, &kubeconfig, &arguments).await;
    assert_eq!(output.code, 0, "1.{} {line}: {output:?}\n{}", kubectl.minor, master.log());
    output.stdout
}

/// Waits until the Deployment uses a generated ConfigMap, and its new pod has logged a text.
async fn until_logged(master: &Master, world: &World, prefix: &str, text: &str) {
    let pods = format!("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb,variant%3D{prefix}");
    let look = async || {
        let pods = get(master, &pods).await?;
        let [pod] = pods["items"].as_array().unwrap().as_slice() else { return Err(pods.to_string()) };
        let name = pod["metadata"]["name"].as_str().unwrap();
        match master.get_as_admin(&format!("/api/v1/namespaces/default/pods/{name}/log")).await {
            (200, log) if log == text => Ok(()),
            (code, log) => Err(format!("{code} {log}")),
        }
    };
    world.wait_for(&format!("a pod of {prefix} to log {text:?}"), look).await;
}

#[tokio::test]
async fn every_kubectl_applies_a_kustomization_with_generators() {
    let (master, world) = joined_with("kustomize", "--scheduler=true").await;
    for kubectl in kubectls() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = format!("v{}", kubectl.minor);
        write(folder.path(), &prefix, "hello");
        let apply = format!("apply -k {}", folder.path().display());
        run(&master, &kubectl, &apply).await;
        run(&master, &kubectl, &format!("rollout status deployment/{prefix}-web --timeout=50s")).await;
        until_logged(&master, &world, &prefix, "hello secret\n").await;
        // A changed value gives the ConfigMap another name, so the Deployment starts a new pod.
        write(folder.path(), &prefix, "bye");
        run(&master, &kubectl, &apply).await;
        run(&master, &kubectl, &format!("rollout status deployment/{prefix}-web --timeout=50s")).await;
        until_logged(&master, &world, &prefix, "bye secret\n").await;
        let deployment: Value = get(&master, &format!("{DEPLOYMENT}/{prefix}-web")).await.unwrap();
        assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], IMAGE);
        run(
            &master,
            &kubectl,
            &format!("delete -k {} --wait=true --ignore-not-found", folder.path().display()),
        )
        .await;
        assert!(get(&master, &format!("{DEPLOYMENT}/{prefix}-web")).await.is_err());
    }
}
