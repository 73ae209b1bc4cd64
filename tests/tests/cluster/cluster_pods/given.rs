//! Pods assigned by a master: they run on the node, their status is reported, and they continue to run while the master is unavailable.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::Pod;
use tests::manifest::{FOREVER, container, pod};

use crate::cluster_pods::{apply, at_master, bound, get, joined, kubectl};

/// The time that a pod takes to end after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_pod_of_the_api_server_runs_reports_its_status_and_is_deleted_after_it_ended() {
    let (master, world) = joined("given").await;
    let conf = |motto: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: conf}}\ndata: {{motto: {motto}}}\n")
    };
    apply(&master, &world, &conf("fresh")).await;
    // A ConfigMap of the same name next to the static pods is independent of the master's one.
    world.write("conf.yaml", &conf("local"));
    let script = format!(
        "trap 'sleep {}; exit 0' TERM; while true; do now=$(cat /config/motto); \
         [ \"$now\" = \"$last\" ] || echo motto=$now; last=$now; usleep 100000; done",
        FAREWELL.as_secs()
    );
    let main = container("main", &script, "volumeMounts: [{name: config, mountPath: /config}]");
    let spec = format!("volumes:\n- {{name: config, configMap: {{name: conf}}}}\ncontainers:\n- {main}");
    let manifest = bound(&world, "web", &spec);
    let manifest = manifest.replace("terminationGracePeriodSeconds: 2", "terminationGracePeriodSeconds: 30");
    apply(&master, &world, &manifest).await;

    let there = at_master(&world, &master, "web", "to be Ready", Pod::is_ready).await;
    assert_eq!((there.phase(), there.text("/status/hostIP")), ("Running", "127.0.0.1"));
    assert!(!there.ip().is_empty() && there.condition("PodScheduled") == "True", "{}", there.0);
    let here = world.wait_ready("web").await;
    assert_eq!((here.uid(), here.ip()), (there.uid(), there.ip()), "it is the same pod, by the same name");
    world.wait_for_log("web", "main", "motto=fresh").await;
    let output = kubectl(&master, &["logs", &world.pod_name("web")]).await;
    assert!(output.contains("motto=fresh") && !output.contains("local"), "{output}");

    let before = world.container("web", "main").await.unwrap();
    apply(&master, &world, &conf("daily")).await;
    world.wait_for_log("web", "main", "motto=daily").await;
    assert_eq!(world.container("web", "main").await.unwrap(), before, "a new value restarts nothing");

    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", world.node);
    let lease = world.wait_for("the node's lease", async || get(&master, &lease).await).await;
    assert_eq!(
        (&lease["spec"]["leaseDurationSeconds"], &lease["spec"]["holderIdentity"]),
        (&40.into(), &world.node.as_str().into())
    );

    let began = Instant::now();
    kubectl(&master, &["delete", "pod", &world.pod_name("web"), "--wait=false"]).await;
    let path = format!("/api/v1/namespaces/default/pods/{}", world.pod_name("web"));
    let gone = async || match get(&master, &path).await {
        Err(why) if why.starts_with("404") => Ok(()),
        Err(why) => Err(why),
        Ok(pod) if pod["metadata"]["deletionTimestamp"].is_string() => Err("it is going".to_owned()),
        Ok(pod) => panic!("it is not to go: {pod}"),
    };
    world.wait_for("the pod to go from the API", gone).await;
    let left = world.containers().await;
    assert!(left.is_empty(), "it went before its containers: {left:?}");
    assert!(began.elapsed() >= FAREWELL, "it was not given the time to end");
    world.wait_gone("web").await;
}

#[tokio::test]
async fn pods_continue_while_the_master_is_unreachable() {
    let (mut master, mut world) = joined("coasts").await;
    for name in ["web", "db"] {
        let main = container("main", &format!("echo up; {FOREVER}"), "");
        apply(&master, &world, &bound(&world, name, &format!("containers:\n- {main}"))).await;
        at_master(&world, &master, name, "to be Ready", Pod::is_ready).await;
    }
    let kept = world.root_dir().join("cluster/pods");
    // Both pods, their tokens, and the objects that they refer to.
    let is_kept = async || match fs::read_dir(&kept).map_err(|error| error.to_string())?.count() {
        7 => Ok(()),
        files => Err(format!("{files} files")),
    };
    world.wait_for("both pods to be on the disk", is_kept).await;
    master.kill();

    // A container that ends is restarted, and a running one is not touched, also by the next kubelet.
    let db = world.container("db", "main").await.unwrap();
    let dies = world.container("web", "main").await.unwrap();
    world.engine.docker().kill_container(&dies.id, None).await.unwrap();
    let web = world
        .wait_for_pod("web", "to be begun again", |pod| pod.restarts("main") == 1 && pod.is_ready())
        .await;
    world.kill();
    world.start().await;
    world.wait_for_pod("web", "to be as it was", |pod| pod.restarts("main") == 1 && pod.is_ready()).await;
    world.wait_ready("db").await;
    assert_eq!(world.container("db", "main").await.unwrap(), db);
    assert_eq!(world.container("web", "main").await.unwrap().id, web.container_id("main"));

    // The machine restarts, with no containers left in the engine.
    world.kill();
    world.engine.remove_all(&world.node).await;
    world.start().await;
    // At first the status may be that of the lost container.
    let is_new = |pod: &Pod| pod.is_ready() && pod.container_id("main") != db.id;
    let restarted = world.wait_for_pod("db", "to run in a new container", is_new).await;

    // A static pod that is added and removed meanwhile does not wait for the master.
    world.write("own.yaml", &pod("own", &format!("containers:\n- {}", container("main", FOREVER, ""))));
    world.wait_ready("own").await;
    world.remove("own.yaml");
    world.wait_gone("own").await;

    master.start().await;
    let is_reported =
        |pod: &Pod| pod.container_id("main") == restarted.container_id("main") && pod.is_ready();
    at_master(&world, &master, "db", "to be reported with its current state", is_reported).await;
    kubectl(&master, &["delete", "pod", &world.pod_name("db"), &world.pod_name("web")]).await;
    world.wait_gone("db").await;
    world.wait_gone("web").await;
    let empty = async || match world.leftovers().await {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    };
    world.wait_for("nothing to be left of them", empty).await;
}

#[tokio::test]
async fn restored_master_ends_no_pod_missing_from_its_backup() {
    let (mut master, mut world) = joined("restored").await;
    let sleeping = |name: &str| {
        bound(
            &world,
            name,
            &format!("containers:\n- {}", container("main", &format!("echo up; {FOREVER}"), "")),
        )
    };
    let (old, new) = (sleeping("old"), sleeping("new"));
    apply(&master, &world, &old).await;
    at_master(&world, &master, "old", "to be Ready", Pod::is_ready).await;
    let backup = world.path("backup").display().to_string();
    assert_eq!(master.verb(&["backup", &backup]).await.code, 0);
    apply(&master, &world, &new).await;
    let forgotten = at_master(&world, &master, "new", "to be Ready", Pod::is_ready).await;
    let runs = world.container("new", "main").await.unwrap();
    master.kill();
    assert_eq!(master.verb(&["restore", "--replace", &backup]).await.code, 0);
    master.start().await;

    // The problem is reported, also by the next kubelet, and the pod continues to run.
    let unknown_pod_is_reported = async || {
        let events = world.get("events").await?;
        let is_it = |event: &&Value| event["reason"] == "PodsMissing";
        let message = events.iter().find(is_it).map(|event| event["message"].to_string());
        message.filter(|text| text.contains(forgotten.name())).ok_or_else(|| format!("{events:?}"))
    };
    world.wait_for("the pod to be named that the master does not know", unknown_pod_is_reported).await;
    let file = world.root_dir().join(format!("cluster/pods/pod_{}.json", forgotten.uid()));
    let noted = async || match fs::read_to_string(&file) {
        Ok(text) if text.contains("\"isUnclaimed\":true") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    world.wait_for("that to be on the disk", noted).await;
    world.kill();
    world.start().await;
    at_master(&world, &master, "old", "to be Ready", Pod::is_ready).await;
    world.wait_ready("new").await;
    assert_eq!(world.container("new", "main").await.unwrap(), runs);

    // A pod with the same name replaces it.
    apply(&master, &world, &new).await;
    let there = at_master(&world, &master, "new", "to be Ready", Pod::is_ready).await;
    assert_ne!((there.uid(), there.container_id("main")), (forgotten.uid(), runs.id.as_str()));
    let over = async || {
        let events = world.get("events").await?;
        let is_over = events.iter().any(|event| event["reason"] == "PodsFound");
        if is_over { Ok(()) } else { Err(format!("{events:?}")) }
    };
    world.wait_for("that to be over", over).await;
    // Both pods may exist for a moment, because the old one has another UID.
    let replaced = async || {
        let left = world.containers().await;
        if left.iter().all(|container| container.id != runs.id) { Ok(()) } else { Err(format!("{left:?}")) }
    };
    world.wait_for("the container of the old pod to go", replaced).await;
}
