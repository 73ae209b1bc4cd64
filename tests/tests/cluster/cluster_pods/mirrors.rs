//! Mirror pods: how the master shows a node's static pods.

use serde_json::Value;
use tests::manifest::{FOREVER, container, pod, scripted, sleeper};
use tests::{DEADLINE, Pod, wait_until};

use crate::cluster_pods::{at_master, gone_from_master, joined, kubectl};

const MIRROR: &str = "/metadata/annotations/kubernetes.io~1config.mirror";

#[tokio::test]
async fn static_pod_has_a_mirror_pod_while_it_exists() {
    let (master, mut world) = joined("mirrors").await;
    world.write("web.yaml", &scripted("web", "Always", &format!("echo here; {FOREVER}")));
    let there = at_master(&world, &master, "web", "to be Ready", Pod::is_ready).await;
    let here = world.wait_ready("web").await;
    let noted = |pod: &Pod, name: &str| {
        pod.text(&format!("/metadata/annotations/kubernetes.io~1config.{name}")).to_owned()
    };
    assert_ne!(there.uid(), here.uid());
    assert_eq!((there.ip(), there.container_id("main")), (here.ip(), here.container_id("main")));
    for note in ["hash", "source", "seen"] {
        assert_eq!(noted(&there, note), noted(&here, note));
    }
    assert_eq!((noted(&there, "mirror"), noted(&there, "source")), (noted(&here, "hash"), "file".to_owned()));
    let owner = &there.0["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&"Node".into(), &world.node.as_str().into()));

    let name = world.pod_name("web");
    world.wait_for_log("web", "main", "here").await;
    assert_eq!(kubectl(&master, &["logs", &name]).await, "here\n");
    assert_eq!(kubectl(&master, &["exec", &name, "--", "hostname"]).await.trim_end(), name);
    let look = async || {
        let text = kubectl(&master, &["describe", "pod", &name]).await;
        if text.contains("Started container main") { Ok(()) } else { Err(text) }
    };
    world.wait_for("its events to be described", look).await;

    // Deleting a mirror pod does not delete the static pod.
    kubectl(&master, &["delete", "pod", &name]).await;
    let again = |pod: &Pod| pod.uid() != there.uid() && pod.is_ready();
    let there = at_master(&world, &master, "web", "to be made again", again).await;
    assert_eq!(there.container_id("main"), here.container_id("main"));

    world.write("web.yaml", &scripted("web", "Always", &format!("echo there; {FOREVER}")));
    let edited = |pod: &Pod| pod.text(MIRROR) != there.text(MIRROR) && pod.is_ready();
    let there = at_master(&world, &master, "web", "to be another", edited).await;
    let runs = |pod: &Pod| pod.container_id("main") != here.container_id("main") && pod.is_ready();
    let here = world.wait_for_pod("web", "to be created again", runs).await;
    let is_reported = |pod: &Pod| pod.container_id("main") == here.container_id("main");
    at_master(&world, &master, "web", "to be reported", is_reported).await;

    // The next kubelet recognizes its own mirror pod.
    world.kill();
    world.start().await;
    world.wait_ready("web").await;
    world.write("db.yaml", &sleeper("db"));
    at_master(&world, &master, "db", "to be Ready", Pod::is_ready).await;
    assert_eq!(at_master(&world, &master, "web", "to be there", Pod::is_ready).await.uid(), there.uid());

    // One static pod is removed while a kubelet runs, another one while none does.
    world.remove("db.yaml");
    world.wait_gone("db").await;
    gone_from_master(&world, &master, "db").await;
    world.kill();
    world.remove("web.yaml");
    world.start().await;
    world.wait_gone("web").await;
    gone_from_master(&world, &master, "web").await;
}

#[tokio::test]
async fn static_pod_without_a_possible_mirror_pod_runs_with_an_event() {
    let (master, world) = joined("unshown").await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {word: secret}\n";
    let main = container("main", FOREVER, "envFrom: [{secretRef: {name: key}}]");
    world.write("key.yaml", secret);
    world.write("hidden.yaml", &pod("hidden", &format!("containers:\n- {main}")));
    let elsewhere = sleeper("away").replace("metadata:\n", "metadata:\n  namespace: nowhere\n");
    world.write("away.yaml", &elsewhere);
    for (name, why) in [("hidden", "secrets"), ("away", "nowhere")] {
        world.wait_ready(name).await;
        let event = world.wait_for_event(name, "FailedMirrorPod").await;
        assert!(event.contains(why), "{event}");
    }
    // The mirror pod is created as soon as its namespace exists.
    kubectl(&master, &["create", "namespace", "nowhere"]).await;
    let path = format!("/api/v1/namespaces/nowhere/pods/{}", world.pod_name("away"));
    let look = async || crate::cluster_pods::get(&master, &path).await;
    let shown: Value = wait_until(DEADLINE * 3, look).await.unwrap();
    assert_eq!(shown["spec"]["nodeName"], world.node.as_str());
}
