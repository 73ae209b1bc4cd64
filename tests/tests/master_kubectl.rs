//! What people type, with the kubectl of this machine, as far as it needs no pod that runs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use tests::{Master, Output, installed};

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {tier: front}}
spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "web:1"}]}}}
"#;

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop, labels: {app: p}}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: "web:1"}]}
"#;

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: shop}\ndata: {a: \"1\"}\n";

/// One after another: what is typed, whether it succeeds, and words of what is printed.
const JOURNEY: &[(&str, bool, &str)] = &[
    ("api-resources", true, "deployments"),
    ("api-versions", true, "apps/v1"),
    ("cluster-info", true, "is running at"),
    ("create namespace shop", true, "namespace/shop created"),
    ("create -f web.yaml --validate=false", true, "deployment.apps/web created"),
    ("create -f web.yaml --validate=false", false, "AlreadyExists"),
    ("get deployments -n shop", true, "0/2"),
    ("get deployments -A -o wide", true, "web:1"),
    ("get deployment web -n shop -o yaml", true, "kind: Deployment"),
    ("get deployment web -n shop -o jsonpath={.spec.replicas}", true, "2"),
    ("get deployment web -n shop -o custom-columns=R:.spec.replicas", true, "R\n2"),
    ("get deployment web -n shop -o go-template={{.metadata.name}}", true, "web"),
    ("get all -n shop", true, "deployment.apps/web"),
    ("get deployments -n shop -l tier=front -o name", true, "deployment.apps/web"),
    ("get deployments -n shop --show-labels", true, "tier=front"),
    ("describe deployment web -n shop", true, "web:1"),
    ("scale deployment web -n shop --replicas=3", true, "scaled"),
    ("set image deployment/web c=web:2 -n shop", true, "image updated"),
    ("rollout restart deployment/web -n shop", true, "restarted"),
    ("rollout history deployment/web -n shop", true, "history"),
    ("rollout status deployment/web -n shop --timeout=1s", false, "timed out"),
    (
        "get deployment web -n shop -o jsonpath={.spec.replicas},{.spec.template.spec.containers[0].image}",
        true,
        "3,web:2",
    ),
    ("annotate deployment web -n shop note=one", true, "annotated"),
    ("label deployment web -n shop tier=back --overwrite", true, "labeled"),
    ("patch deployment web -n shop -p {\"spec\":{\"paused\":true}}", true, "patched"),
    ("expose deployment web -n shop --port=80", true, "service/web exposed"),
    ("apply -f map.yaml --validate=false", true, "configmap/m created"),
    ("apply -f map.yaml --validate=false", true, "configmap/m unchanged"),
    ("replace -f map.yaml --validate=false", true, "replaced"),
    ("apply --server-side --field-manager=other -f map2.yaml --validate=false", false, "conflict"),
    (
        "apply --server-side --field-manager=other --force-conflicts -f map2.yaml --validate=false",
        true,
        "serverside-applied",
    ),
    ("get configmap m -n shop -o jsonpath={.data.a}", true, "2"),
    ("explain deployment.spec.replicas", true, "desired pods"),
    ("create -f node.yaml --validate=false", true, "node/n1 created"),
    ("create -f pod.yaml --validate=false", true, "pod/p created"),
    ("get pods -n shop", true, "Pending"),
    ("describe pod p -n shop", true, "web:1"),
    ("cordon n1", true, "cordoned"),
    ("get nodes", true, "SchedulingDisabled"),
    ("describe node n1", true, "Unschedulable"),
    ("taint nodes n1 k=v:NoSchedule", true, "tainted"),
    ("uncordon n1", true, "uncordoned"),
    ("drain n1 --force --grace-period=0", true, "evict"),
    ("run again -n shop --image=web:1 --restart=Never", true, "pod/again created"),
    ("wait pod/again -n shop --for=condition=Ready --timeout=1s", false, "timed out"),
    ("auth can-i create pods -n shop", true, "yes"),
    ("auth can-i create pods -n shop --as nobody", false, "no"),
    ("auth whoami", true, "system:masters"),
    ("create token default -n shop", true, "ey"),
    ("get events -n shop", true, ""),
    ("events -n shop", true, ""),
    ("delete pod again -n shop --grace-period=0 --force", true, "deleted"),
    ("delete -f web.yaml --cascade=orphan", true, "deleted"),
    ("delete configmap,service -n shop --all", true, "deleted"),
    ("delete node n1", true, "deleted"),
    ("delete namespace shop", true, "namespace \"shop\" deleted"),
];

async fn ask(master: &Master, kubectl: &Path, typed: &str) -> Output {
    let arguments: Vec<String> = typed
        .split(' ')
        .map(|word| {
            if word.ends_with(".yaml") {
                master.data_dir().join(word).display().to_string()
            } else {
                word.to_owned()
            }
        })
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    master.kubectl_at(kubectl, &master.data_dir().join("admin.kubeconfig"), &arguments).await
}

async fn types(master: &Master, kubectl: &Path, (typed, succeeds, words): (&str, bool, &str)) {
    let output = ask(master, kubectl, typed).await;
    let printed = format!("{}{}", output.stdout, output.stderr);
    let is_right = (output.code == 0) == succeeds && printed.contains(words);
    assert!(is_right, "{} {typed}: {output:?}\n{}", kubectl.display(), master.log());
}

#[tokio::test]
async fn kubectl_goes_the_whole_way() {
    let master = Master::running().await;
    let map2 = MAP.replace("\"1\"", "\"2\"");
    for (name, text) in [("web", DEPLOYMENT), ("pod", POD), ("node", NODE), ("map", MAP), ("map2", &map2)] {
        std::fs::write(master.data_dir().join(format!("{name}.yaml")), text).unwrap();
    }
    let kubectl = installed("kubernetes-client", "kubectl");
    for step in JOURNEY {
        types(&master, &kubectl, *step).await;
    }
}
