//! Objects that kubectl pushes to a lone node: every write verb, restarts, and the limits of users.

use std::fs;

use tests::manifest::{FOREVER, container, pod, sleeper};
use tests::{IMAGE, Kubectl, Output, kubectls};

use super::kubectl::Bed;

/// A pod of this name with one container that runs until it is stopped.
fn manifest(bed: &Bed, name: &str) -> String {
    let path = bed.world.path(&format!("{name}.yaml"));
    fs::write(&path, sleeper(name)).unwrap();
    path.display().to_string()
}

async fn check(bed: &Bed, kubectl: &Kubectl, arguments: &[&str], expected: &str) {
    let printed = bed.admin(kubectl, arguments).await;
    assert!(printed.contains(expected), "1.{} {arguments:?}: {printed}", kubectl.minor);
}

async fn wait_ready(bed: &Bed, kubectl: &Kubectl, pod: &str) {
    let arguments = ["wait", "--for=condition=Ready", "pod", pod, "--timeout=60s"];
    check(bed, kubectl, &arguments, "condition met").await;
}

#[tokio::test]
async fn kubectl_writes_pods_to_a_lone_node() {
    let bed = Bed::new("push-pods").await;
    let file = manifest(&bed, "web");
    let changed = bed.world.path("changed.yaml");
    fs::write(&changed, sleeper("web").replace("name: web", "name: web\n  labels: {tier: front}")).unwrap();
    let changed = changed.display().to_string();
    let shown_image = ["get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}"];
    // The test of settings covers the versions between them.
    let versions = kubectls();
    for kubectl in [versions.first(), versions.last()].into_iter().flatten() {
        for (arguments, expected) in [
            (&["create", "-f", &file, "--dry-run=server"][..], "created (server dry run)"),
            (&["apply", "-f", &file], "pod/web created"),
            (&["apply", "-f", &file], "pod/web unchanged"),
            (&["apply", "-f", &changed], "pod/web configured"),
            (&["label", "pod", "web", "a=b"], "labeled"),
            (&["annotate", "pod", "web", "note=editme"], "pod/web annotate"),
            (&["edit", "pod", "web"], "edited"),
            (&["get", "pod", "web", "-o", "jsonpath={.metadata.annotations.note}"], "edited"),
            (&["patch", "pod", "web", "-p", r#"{"metadata":{"labels":{"c":"d"}}}"#], "patched"),
            (
                &["patch", "pod", "web", "--type=merge", "-p", r#"{"spec":{"activeDeadlineSeconds":3600}}"#],
                "patched",
            ),
            (
                &[
                    "patch",
                    "pod",
                    "web",
                    "--type=json",
                    "-p",
                    r#"[{"op":"remove","path":"/metadata/labels/c"}]"#,
                ],
                "patched",
            ),
            (&["apply", "--server-side", "--force-conflicts", "-f", &file], "serverside-applied"),
            (&shown_image, IMAGE),
        ] {
            check(&bed, kubectl, arguments, expected).await;
        }
        wait_ready(&bed, kubectl, "web").await;
        check(&bed, kubectl, &["exec", "web", "--", "echo", "inside"], "inside").await;
        check(&bed, kubectl, &["delete", "pod", "web"], "deleted").await;
        check(&bed, kubectl, &["create", "-f", &file], "created").await;
        check(&bed, kubectl, &["delete", "-f", &file, "--force", "--grace-period=0"], "deleted").await;
        check(&bed, kubectl, &["apply", "--server-side", "-f", &file], "serverside-applied").await;
        check(&bed, kubectl, &["replace", "--force", "-f", &file], "replaced").await;
        check(&bed, kubectl, &["delete", "pods", "--field-selector", "metadata.name=web"], "deleted").await;
        let run = ["run", "job", "--image", IMAGE, "--restart=Never", "--", "true"];
        check(&bed, kubectl, &run, "created").await;
        let ended = async || {
            let shown = bed.admin(kubectl, &["get", "pod", "job", "-o", "jsonpath={.status.phase}"]).await;
            if shown == "Succeeded" { Ok(()) } else { Err(shown) }
        };
        bed.world.wait_for("the job to end", ended).await;
        check(&bed, kubectl, &["delete", "pod", "-l", "run=job"], "deleted").await;
    }
    let gone = async || {
        let left = bed.world.containers().await;
        let is_pushed = |pod: &str| matches!(pod, "web" | "job");
        if left.iter().any(|container| is_pushed(&container.pod)) { Err(format!("{left:?}")) } else { Ok(()) }
    };
    bed.world.wait_for("the containers of deleted pods to be removed", gone).await;
}

#[tokio::test]
async fn kubectl_writes_settings_and_namespaces_to_a_lone_node() {
    let bed = Bed::new("push-settings").await;
    let user = bed.world.path("user.yaml");
    let script = format!("echo $A-$B-$C; {FOREVER}");
    let env = "env: [{name: A, valueFrom: {configMapKeyRef: {name: pushed, key: a}}}, \
               {name: B, valueFrom: {secretKeyRef: {name: token, key: b}}}, \
               {name: C, valueFrom: {configMapKeyRef: {name: settings, key: a}}}]";
    fs::write(&user, pod("user", &format!("containers:\n- {}", container("main", &script, env)))).unwrap();
    let user = user.display().to_string();
    for kubectl in &kubectls() {
        for (arguments, expected) in [
            (&["create", "configmap", "pushed", "--from-literal=a=1"][..], "created"),
            (&["create", "secret", "generic", "token", "--from-literal=b=2"], "created"),
            (&["apply", "-f", &user], "created"),
            (&["create", "namespace", "shop"], "created"),
            (&["create", "configmap", "more", "-n", "shop"], "created"),
            (&["get", "namespaces"], "kube-system"),
            (&["patch", "configmap", "pushed", "-p", r#"{"data":{"a":"3"}}"#], "patched"),
        ] {
            check(&bed, kubectl, arguments, expected).await;
        }
        wait_ready(&bed, kubectl, "user").await;
        let printed = bed.admin(kubectl, &["logs", "user"]).await;
        assert!(printed.contains("-2-1"), "1.{}: {printed}", kubectl.minor);
        for (arguments, expected) in [
            (&["delete", "namespace", "shop"][..], "deleted"),
            (&["get", "configmaps", "-A", "-o", "name"], "configmap/pushed"),
            (&["delete", "-f", &user], "deleted"),
            (&["delete", "configmap/pushed", "secret/token"], "deleted"),
        ] {
            check(&bed, kubectl, arguments, expected).await;
        }
        let left = bed.admin(kubectl, &["get", "configmaps,namespaces", "-A", "-o", "name"]).await;
        assert!(!left.contains("shop") && !left.contains("more"), "1.{}: {left}", kubectl.minor);
    }
}

#[tokio::test]
async fn pushed_pods_survive_kills_and_deletions_last() {
    let mut bed = Bed::new("push-kill").await;
    let kubectl = kubectls().pop().unwrap();
    let (web, late) = (manifest(&bed, "web"), manifest(&bed, "late"));
    check(&bed, &kubectl, &["apply", "-f", &web], "created").await;
    wait_ready(&bed, &kubectl, "web").await;
    let id =
        ["get", "pod", "web", "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID}"];
    let before = bed.admin(&kubectl, &id).await;
    check(&bed, &kubectl, &["create", "-f", &late], "created").await;
    // The kubelet dies between the write and the start of the pod.
    bed.world.kill();
    bed.world.start().await;
    wait_ready(&bed, &kubectl, "late").await;
    assert_eq!(bed.admin(&kubectl, &id).await, before);
    let node =
        ["get", "node", "-o", "jsonpath={.items[0].metadata.uid} {.items[0].metadata.creationTimestamp}"];
    let identity = bed.admin(&kubectl, &node).await;
    check(&bed, &kubectl, &["delete", "pod", "late", "--wait=false"], "deleted").await;
    bed.world.kill();
    bed.world.start().await;
    check(&bed, &kubectl, &["wait", "--for=delete", "pod/late", "--timeout=60s"], "").await;
    check(&bed, &kubectl, &["delete", "pod", "web"], "deleted").await;
    bed.world.kill();
    bed.world.start().await;
    let left = bed.admin(&kubectl, &["get", "pods", "-o", "name"]).await;
    assert_eq!(left, format!("pod/{}\n", bed.world.pod_name("web")));
    assert_eq!(bed.admin(&kubectl, &node).await, identity);
}

#[tokio::test]
async fn refused_writes_name_the_owner_or_the_user() {
    let bed = Bed::new("push-refused").await;
    let static_pod = bed.world.pod_name("web");
    let node = bed.world.node.clone();
    let file = manifest(&bed, "own");
    for kubectl in &kubectls() {
        for arguments in [
            &["delete", "pod", &static_pod, "--wait=false"][..],
            &["label", "pod", &static_pod, "a=b"],
            &["annotate", "configmap", "settings", "a=b"],
            &["delete", "secret", "key"],
        ] {
            let Output { code, stderr, .. } = bed.run(kubectl, &bed.admin, arguments).await;
            let names = stderr.contains("web.yaml") && stderr.contains("edit or remove it there");
            assert!(code != 0 && names, "1.{} {arguments:?}: {stderr}", kubectl.minor);
        }
        let Output { code, stderr, .. } =
            bed.run(kubectl, &bed.admin, &["label", "node", &node, "a=b"]).await;
        assert!(code != 0 && stderr.contains("--node-labels"), "1.{}: {stderr}", kubectl.minor);
        let Output { code, stderr, .. } = bed.run(kubectl, &bed.viewer, &["create", "-f", &file]).await;
        assert!(
            code != 0 && stderr.contains("cannot create resource \"pods\""),
            "1.{}: {stderr}",
            kubectl.minor
        );
        for (kubeconfig, verb, resource, expected) in [
            (&bed.admin, "create", "pods", "yes"),
            (&bed.admin, "delete", "namespaces", "yes"),
            (&bed.viewer, "get", "pods", "yes"),
            (&bed.viewer, "create", "pods", "no"),
            (&bed.viewer, "get", "secrets", "no"),
        ] {
            let Output { stdout, stderr, .. } =
                bed.run(kubectl, kubeconfig, &["auth", "can-i", verb, resource]).await;
            assert_eq!(stdout.trim(), expected, "1.{} {verb} {resource}: {stderr}", kubectl.minor);
        }
        let Output { code, stdout, stderr } =
            bed.run(kubectl, &bed.viewer, &["auth", "can-i", "--list"]).await;
        assert!(code == 0 && stdout.contains("pods/log"), "1.{}: {stdout}{stderr}", kubectl.minor);
        if kubectl.minor >= 28 {
            let Output { stdout, stderr, .. } = bed.run(kubectl, &bed.viewer, &["auth", "whoami"]).await;
            assert!(stdout.contains("node-viewer"), "1.{}: {stdout}{stderr}", kubectl.minor);
        }
    }
}
