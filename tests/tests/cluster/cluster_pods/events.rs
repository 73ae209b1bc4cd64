//! Events about pods and nodes at the master.

use serde_json::Value;
use tests::manifest::{FOREVER, container};
use tests::{Master, Pod};

use crate::cluster_pods::{apply, at_master, bound, get, joined, kubectl};

/// The events about a pod with this reason at the master.
async fn events(master: &Master, pod: &str, reason: &str) -> Result<Vec<Value>, String> {
    let list = get(master, "/api/v1/namespaces/default/events").await?;
    let is_one = |event: &&Value| event["involvedObject"]["name"] == pod && event["reason"] == reason;
    Ok(list["items"].as_array().unwrap().iter().filter(is_one).cloned().collect())
}

#[tokio::test]
async fn events_of_a_pod_are_posted_once_and_counted() {
    let (mut master, mut world) = joined("events").await;
    let main = container("main", &format!("echo up; {FOREVER}"), "");
    apply(&master, &world, &bound(&world, "web", &format!("containers:\n- {main}"))).await;
    let there = at_master(&world, &master, "web", "to be Ready", Pod::is_ready).await;
    let name = world.pod_name("web");
    let started = |count: u64| {
        let (master, name) = (&master, &name);
        async move || {
            let found = events(master, name, "Started").await?;
            let is_it = found.len() == 1 && found[0]["count"] == count;
            if is_it { Ok(found[0].clone()) } else { Err(format!("{found:?}")) }
        }
    };
    let event = world.wait_for("the event of its start", started(1)).await;
    assert_eq!((&event["source"]["component"], &event["type"]), (&"kubelet".into(), &"Normal".into()));
    assert_eq!(event["source"]["host"], world.node.as_str());
    assert_eq!(event["involvedObject"]["uid"], there.uid());
    let text = kubectl(&master, &["describe", "pod", &name]).await;
    assert!(text.contains("Started container main") && text.contains("kubelet"), "{text}");
    let look = async || {
        let text = kubectl(&master, &["get", "events", "--field-selector", "involvedObject.kind=Node"]).await;
        if text.contains("NodeReady") { Ok(()) } else { Err(text) }
    };
    world.wait_for("the event of the node", look).await;

    // Repeated events are counted, also by the next kubelet, which duplicates none.
    world.stop().await;
    world.start().await;
    world.wait_ready("web").await;
    let again = async |restarts: i64| {
        let runs = world.container("web", "main").await.unwrap();
        world.engine.docker().kill_container(&runs.id, None).await.unwrap();
        world
            .wait_for_pod("web", "to run again", |pod| pod.restarts("main") == restarts && pod.is_ready())
            .await;
    };
    again(1).await;
    let counted = world.wait_for("the second start to be counted", started(2)).await;
    assert_eq!(counted["metadata"]["uid"], event["metadata"]["uid"]);

    // Events are queued while the master is unavailable.
    master.kill();
    again(2).await;
    master.start().await;
    let look = async || {
        let found = events(&master, &name, "Started").await?;
        if found.len() == 1 && found[0]["count"] == 3 { Ok(()) } else { Err(format!("{found:?}")) }
    };
    world.wait_for("the third start to be counted", look).await;
}
