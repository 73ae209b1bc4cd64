//! What is told of a machine whose files and disks a test keeps.
#![allow(clippy::unwrap_used, reason = "tests")]

use tempfile::TempDir;
use tokio::sync::oneshot;

use super::super::pressure::STAYS;
use super::*;

/// What a kernel tells of a machine with that much memory left, in KiB.
fn machine_with(memory: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("sys/kernel")).unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("loadavg", "0.10 0.20 0.30 2/345 6789\n");
    put("sys/kernel/pid_max", "4194304\n");
    put("sys/kernel/threads-max", "1000\n");
    set(&folder, memory);
    folder
}

fn set(machine: &TempDir, memory: u64) {
    let text = format!("MemTotal: 9999999 kB\nMemAvailable: {memory} kB\n");
    fs::write(machine.path().join("meminfo"), text).unwrap();
}

fn is_short(told: &watch::Receiver<Option<Short>>, pressure: Pressure) -> Option<bool> {
    let all = told.borrow().clone().unwrap();
    all.into_iter().find(|(one, _)| *one == pressure).map(|(_, is_short)| is_short)
}

#[tokio::test(start_paused = true)]
async fn what_runs_short_is_told_within_seconds_and_for_five_minutes_after() {
    let machine = machine_with(1_000_000);
    let (root, data_root) = watch::channel(PathBuf::new());
    let (sender, mut told) = watch::channel(None);
    tokio::spawn(keep(Gauge::new(machine.path(), Path::new("/not/there")), data_root, sender));
    told.changed().await.unwrap();
    assert_eq!(is_short(&told, Pressure::Memory), Some(false));
    assert_eq!((is_short(&told, Pressure::Processes), is_short(&told, Pressure::Disk)), (Some(false), None));

    let since = Instant::now();
    set(&machine, 1000);
    told.changed().await.unwrap();
    assert_eq!(is_short(&told, Pressure::Memory), Some(true));
    assert!(since.elapsed() <= EVERY, "{:?}", since.elapsed());

    let since = Instant::now();
    set(&machine, 1_000_000);
    told.changed().await.unwrap();
    assert_eq!(is_short(&told, Pressure::Memory), Some(false));
    assert!((STAYS..=STAYS + EVERY).contains(&since.elapsed()), "{:?}", since.elapsed());
    // Nothing differs, and nothing is told.
    timeout(10 * STAYS, told.changed()).await.unwrap_err();
    drop(root);
    told.changed().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_is_asked_once_and_hides_nothing_else() {
    let disk = Disk::of(Path::new("/"));
    assert!(disk.is_some());
    let mut dial = Dial::at(Path::new("/"));
    assert_eq!(dial.ask(async move { disk }).await, disk);
    let (answer, awaited) = oneshot::channel();
    let since = Instant::now();
    let hangs = async move { awaited.await.unwrap() };
    assert_eq!(dial.ask(hangs).await, disk, "what it said last");
    assert_eq!(since.elapsed(), DISK_WITHIN);
    assert_eq!(dial.ask(async { unreachable!("it is asked already") }).await, disk);
    assert_eq!(since.elapsed(), DISK_WITHIN, "it is not waited for again");

    // The other disk and all else are read meanwhile.
    let machine = machine_with(1000);
    let mut gauge = Gauge::new(machine.path(), Path::new("/"));
    gauge.node = dial;
    let left = gauge.look(Path::new("/proc")).await;
    assert_eq!((left.memory, left.node_disk), (Some(1000 * 1024), disk));
    assert!(left.processes.is_some() && left.image_disk.is_some(), "{left:?}");

    answer.send(None).unwrap();
    let mut looks = interval(EVERY);
    while gauge.node.asked.is_some() {
        looks.tick().await;
        gauge.node.read().await;
    }
    assert!(gauge.node.read().await.is_some(), "it is asked again");
}

#[tokio::test]
async fn this_machine_has_something_of_each() {
    let mut gauge = Gauge::new(Path::new("/proc"), Path::new("/"));
    let left = gauge.look(Path::new("/not/there")).await;
    assert!(left.memory.is_some() && left.node_disk.is_some() && left.processes.is_some(), "{left:?}");
    assert_eq!(left.image_disk, None);
}
