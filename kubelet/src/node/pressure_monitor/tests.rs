//! Observations of a machine with simulated files and disks.
#![allow(clippy::unwrap_used, reason = "tests")]

use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval};

use super::*;

/// Files of `/proc` with this much available memory, in KiB.
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

#[tokio::test(start_paused = true)]
async fn hanging_disk_is_measured_once_and_hides_no_other_signal() {
    let disk = Disk::of(Path::new("/"));
    assert!(disk.is_some());
    let mut dial = DiskProbe::at(Path::new("/"));
    assert_eq!(dial.poll(async move { disk }).await, disk);
    let (answer, awaited) = oneshot::channel();
    let since = Instant::now();
    let hangs = async move { awaited.await.unwrap() };
    assert_eq!(dial.poll(hangs).await, disk, "what it said last");
    assert_eq!(since.elapsed(), DISK_TIMEOUT);
    assert_eq!(dial.poll(async { unreachable!("it is asked already") }).await, disk);
    assert_eq!(since.elapsed(), DISK_TIMEOUT, "it is not waited for again");

    // The other disk and the rest are still observed.
    let machine = machine_with(1000);
    let mut monitor = PressureMonitor::new(machine.path(), Path::new("/"));
    monitor.node = dial;
    let available = monitor.available(Path::new("/proc")).await;
    assert_eq!(
        (available.memory.map(|memory| memory.available), available.node_disk),
        (Some(1000 * 1024), disk)
    );
    assert!(available.pids.is_some() && available.image_disk.is_some(), "{available:?}");

    answer.send(None).unwrap();
    let mut looks = interval(DISK_TIMEOUT);
    while monitor.node.pending.is_some() {
        looks.tick().await;
        monitor.node.read().await;
    }
    assert!(monitor.node.read().await.is_some(), "it is asked again");
}

#[tokio::test]
async fn pressure_signals_of_this_machine_are_available() {
    let mut monitor = PressureMonitor::new(Path::new("/proc"), Path::new("/"));
    let available = monitor.available(Path::new("/not/there")).await;
    assert!(
        available.memory.is_some() && available.node_disk.is_some() && available.pids.is_some(),
        "{available:?}"
    );
    assert_eq!(available.image_disk, None);
}
