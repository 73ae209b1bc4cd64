//! The kubelet's own disk is full: running pods continue, failures are reported, and free space resolves them.

use std::path::Path;

use tests::manifest::{FOREVER, container, pod, scripted, sleeper};
use tests::{Disk, Pod, World};

/// The size of the disk in megabytes.
const SIZE: u32 = 4;

fn config(name: &str) -> String {
    let main = container("main", FOREVER, "volumeMounts: [{name: config, mountPath: /config}]");
    let spec = format!("volumes:\n- {{name: config, configMap: {{name: {name}}}}}\ncontainers:\n- {main}");
    let map =
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{key: value}}\n");
    format!("{}{map}", pod(name, &spec))
}

/// Without thresholds for disks, so that pods of a full disk are neither evicted nor rejected.
const FLAGS: [&str; 2] = ["--eviction-hard", "memory.available<1Mi"];

#[tokio::test]
async fn running_pods_continue_on_a_full_disk_and_new_ones_wait() {
    let mut world = World::new("full").await.with_flags(FLAGS);
    let disk = Disk::at(&world.root_dir(), SIZE);
    world.start().await;
    world.write("a.yaml", &sleeper("a"));
    let before = world.wait_ready("a").await;
    disk.fill();

    world.write("b.yaml", &config("b"));
    let event = world.wait_for_event("b", "FailedMount: ").await;
    assert!(event.contains("No space left on device"), "{event}");
    world.wait_for_event("b", "FailedCheckpoint: Cannot save the pod's checkpoint").await;
    let b = world.pod("b").await.unwrap();
    assert_eq!(b.waiting("main"), "ContainerCreating");

    // A restart of the kubelet on the full disk does not stop pods either.
    world.kill();
    world.start().await;
    let after = world.wait_ready("a").await;
    assert_eq!((after.container_id("main"), after.restarts("main")), (before.container_id("main"), 0));
    world.wait_for_event("b", "FailedMount: ").await;

    disk.empty();
    world.wait_ready("b").await;
    assert_eq!(world.pod("a").await.unwrap().container_id("main"), before.container_id("main"));
}

#[tokio::test]
async fn pods_end_and_are_restarted_on_a_full_disk() {
    let mut world = World::new("fullend").await.with_flags(FLAGS);
    let disk = Disk::at(&world.root_dir(), SIZE);
    world.start().await;
    world.write("a.yaml", &config("a"));
    world.write("b.yaml", &sleeper("b"));
    world.write("job.yaml", &scripted("job", "Never", "while ! [ -e /proc/1/root/end ]; do sleep 0.1; done"));
    for name in ["a", "b", "job"] {
        world.wait_ready(name).await;
    }
    disk.fill();
    let b = world.container("b", "main").await.unwrap();
    world.engine.docker().kill_container(&b.id, None).await.unwrap();
    world.remove("a.yaml");
    world.wait_gone("a").await;
    assert!(disk.is_full());
    // A restarted container needs a file for its termination message: it may wait for space, and reports that.
    disk.empty();
    world.wait_for_pod("b", "to be restarted", |pod: &Pod| pod.is_ready() && pod.restarts("main") == 1).await;
    let job = world.container("job", "main").await.unwrap();
    assert_eq!(world.engine.exec(&job.id, &["touch", "/end"]).await.1, 0);
    world.wait_for_pod("job", "to be done", |pod| pod.phase() == "Succeeded").await;
    let root = world.root_dir();
    assert!(Path::new(&root).join("kubelet.sock").exists());
}

#[tokio::test]
async fn termination_message_size_is_limited_on_disk() {
    let mut world = World::new("flood").await.with_flags(FLAGS);
    let _disk = Disk::at(&world.root_dir(), 16);
    world.start().await;
    // A container that writes 200 MB into its termination message file at each run.
    let flood = "head -c 200000000 /dev/zero | tr '\\0' x >/dev/termination-log; exit 3";
    world.write("f.yaml", &scripted("f", "OnFailure", flood));
    let pod = world.wait_for_pod("f", "to have ended twice", |pod| pod.restarts("main") >= 1).await;
    let folder = world.root_dir().join("pods").join(pod.uid()).join("termination-messages");
    let look = async || {
        let pod = world.pod("f").await?;
        let last =
            pod.container("main")["lastState"]["terminated"]["message"].as_str().unwrap_or_default().len();
        if last == 4096 { Ok(()) } else { Err(format!("its last message has {last} bytes")) }
    };
    world.wait_for("the end of the message", look).await;
    let sizes = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() <= 1 << 20, "{folder:?}");
}
