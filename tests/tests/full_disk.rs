//! The kubelet's own disk is full: what runs goes on, what cannot be done is said, and room puts it right.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use rustix::mount::{MountFlags, mount};
use tests::manifest::{FOREVER, container, pod, scripted, sleeper};
use tests::{Pod, World};

/// Gives a world a disk of its own for the root directory; it goes with the world.
fn small_disk(world: &World) {
    fs::create_dir(world.root_dir()).unwrap();
    let options = CString::new("size=4m,mode=750").unwrap();
    mount("coracle-test", world.root_dir(), "tmpfs", MountFlags::empty(), Some(options.as_c_str())).unwrap();
}

/// Fills the disk to the last byte.
fn fill(world: &World) -> std::path::PathBuf {
    let path = world.root_dir().join("ballast");
    let mut file = File::create(&path).unwrap();
    for size in [64 * 1024, 4096, 512, 1] {
        let piece = vec![0; size];
        while file.write_all(&piece).is_ok() {}
    }
    path
}

fn config(name: &str) -> String {
    let main = container("main", FOREVER, "volumeMounts: [{name: config, mountPath: /config}]");
    let spec = format!("volumes:\n- {{name: config, configMap: {{name: {name}}}}}\ncontainers:\n- {main}");
    let map =
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{key: value}}\n");
    format!("{}{map}", pod(name, &spec))
}

#[tokio::test]
async fn pods_run_on_and_new_ones_wait_for_room() {
    let mut world = World::new("full").await;
    small_disk(&world);
    world.start().await;
    world.write("a.yaml", &sleeper("a"));
    let before = world.wait_ready("a").await;
    let ballast = fill(&world);

    world.write("b.yaml", &config("b"));
    let said = world.wait_for_event("b", "FailedMount: ").await;
    assert!(said.contains("No space left on device"), "{said}");
    world.wait_for_event("b", "FailedRecord: Cannot write the pod's record").await;
    let b = world.pod("b").await.unwrap();
    assert_eq!(b.waiting("main"), "ContainerCreating");

    // A restart on the full disk is no reason to stop anything either.
    world.kill();
    world.start().await;
    let after = world.wait_ready("a").await;
    assert_eq!((after.container_id("main"), after.restarts("main")), (before.container_id("main"), 0));
    world.wait_for_event("b", "FailedMount: ").await;

    fs::remove_file(ballast).unwrap();
    world.wait_ready("b").await;
    assert_eq!(world.pod("a").await.unwrap().container_id("main"), before.container_id("main"));
}

#[tokio::test]
async fn pods_end_and_are_restarted_on_a_full_disk() {
    let mut world = World::new("fullend").await;
    small_disk(&world);
    world.start().await;
    world.write("a.yaml", &config("a"));
    world.write("b.yaml", &sleeper("b"));
    world.write("job.yaml", &scripted("job", "Never", "while ! [ -e /proc/1/root/end ]; do sleep 0.1; done"));
    for name in ["a", "b", "job"] {
        world.wait_ready(name).await;
    }
    let ballast = fill(&world);
    let b = world.container("b", "main").await.unwrap();
    world.engine.docker().kill_container(&b.id, None).await.unwrap();
    world.remove("a.yaml");
    world.wait_gone("a").await;
    assert!(fs::metadata(&ballast).is_ok());
    // A restarted container needs a file for its last words: it may wait for that, and says so.
    fs::remove_file(ballast).unwrap();
    world.wait_for_pod("b", "to be restarted", |pod: &Pod| pod.is_ready() && pod.restarts("main") == 1).await;
    let job = world.container("job", "main").await.unwrap();
    assert_eq!(world.engine.exec(&job.id, &["touch", "/end"]).await.1, 0);
    world.wait_for_pod("job", "to be done", |pod| pod.phase() == "Succeeded").await;
    let root = world.root_dir();
    assert!(Path::new(&root).join("kubelet.sock").exists());
}
