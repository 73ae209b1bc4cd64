//! What kubectl learns from the documents of a master, and what it prints of each kind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;

use tests::{Master, Output, kubectls};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: 'shop/web:1', ports: [{containerPort: 80}]}
      - {name: log, image: 'shop/log:1'}
";

/// One object of each kind that needs no more than this, and the line of heads of its table.
const OBJECTS: &str = include_str!("master_openapi/objects.yaml");
const HEADS: &str = include_str!("master_openapi/heads.txt");

async fn run(master: &Master, kubectl: &Path, arguments: &[&str]) -> Output {
    master.kubectl_at(kubectl, &master.data_dir().join("admin.kubeconfig"), arguments).await
}

/// What kubectl prints when it succeeds.
async fn said(master: &Master, kubectl: &Path, arguments: &[&str]) -> String {
    let output = run(master, kubectl, arguments).await;
    let called = format!("{} {}", kubectl.display(), arguments.join(" "));
    assert!(output.code == 0, "{called}: {output:?}\n{}", master.log());
    output.stdout
}

#[tokio::test]
async fn every_kubectl_explains_applies_compares_and_finds_typos() {
    let master = Master::running().await;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let first = write("first.yaml", DEPLOYMENT);
    let second = write("second.yaml", &DEPLOYMENT.replace("shop/log:1", "shop/log:2"));
    let typo = write(
        "typo.yaml",
        &DEPLOYMENT.replace("replicas:", "replicaz:").replace("name: web,", "name: typo,"),
    );
    for kubectl in kubectls() {
        let kubectl = kubectl.as_path();
        let context = kubectl.display();
        let explained = said(&master, kubectl, &["explain", "pod.spec.containers"]).await;
        for words in ["List of containers belonging to the pod.", "imagePullPolicy", "name", "required"] {
            assert!(explained.contains(words), "{context}: {words}: {explained}");
        }
        let explained = said(&master, kubectl, &["explain", "deployments", "--recursive"]).await;
        assert!(explained.contains("terminationGracePeriodSeconds"), "{context}: {explained}");

        let applied = said(&master, kubectl, &["apply", "-f", &first]).await;
        assert_eq!(applied, "deployment.apps/web created\n", "{context}");
        let applied = said(&master, kubectl, &["apply", "-f", &first]).await;
        assert_eq!(applied, "deployment.apps/web unchanged\n", "{context}");
        let same = run(&master, kubectl, &["diff", "-f", &first]).await;
        assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{context}: {same:?}");
        let other = run(&master, kubectl, &["diff", "-f", &second]).await;
        assert!(
            other.code == 1 && other.stdout.contains("+      - image: shop/log:2"),
            "{context}: {other:?}"
        );
        let applied = said(&master, kubectl, &["apply", "-f", &second]).await;
        assert_eq!(applied, "deployment.apps/web configured\n", "{context}");
        let images = "jsonpath={.spec.template.spec.containers[*].image}";
        let images = said(&master, kubectl, &["get", "deployment", "web", "-o", images]).await;
        assert_eq!(images, "shop/web:1 shop/log:2", "{context}");

        let wrong = run(&master, kubectl, &["create", "--validate=true", "-f", &typo]).await;
        assert!(
            wrong.code != 0 && wrong.stderr.contains("unknown field") && wrong.stderr.contains("replicaz"),
            "{context}: {wrong:?}"
        );
        said(&master, kubectl, &["delete", "deployment", "web"]).await;
    }
}

#[tokio::test]
async fn every_kind_is_printed_under_its_own_heads() {
    let master = Master::running().await;
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("objects.yaml");
    fs::write(&objects, OBJECTS).unwrap();
    let kubectl = kubectls().remove(0);
    let created = said(&master, &kubectl, &["create", "-f", &objects.display().to_string()]).await;
    let served = said(&master, &kubectl, &["api-resources", "--verbs=list", "-o", "name"]).await;
    let mut untold: Vec<&str> = served.lines().collect();
    for line in HEADS.lines() {
        let (resource, heads) = line.split_once(": ").unwrap();
        untold.retain(|served| *served != resource);
        let table = said(&master, &kubectl, &["get", resource, "-o", "wide", "-A"]).await;
        let first = table.lines().next().unwrap_or_default();
        let columns: Vec<&str> = first.split("  ").map(str::trim).filter(|head| !head.is_empty()).collect();
        let columns = columns.into_iter().filter(|head| *head != "NAMESPACE").collect::<Vec<_>>().join(", ");
        assert_eq!(columns, heads, "{resource}\n{created}");
    }
    assert!(untold.is_empty(), "no table was looked at of {untold:?}");
}
