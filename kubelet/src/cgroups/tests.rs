//! Cgroups of both versions, in directories that look like the kernel's.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use super::*;

fn pod(class: &str, uid: &str, shares: i64) -> PodCgroup {
    PodCgroup {
        path: format!("/kubepods{class}/pod{uid}"),
        burstable: class == "/burstable",
        resources: Resources {
            cpu_shares: Some(shares),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            memory_bytes: Some(1 << 20),
            pids: None,
        },
    }
}

fn v1() -> (tempfile::TempDir, Cgroups) {
    let root = tempfile::tempdir().unwrap();
    for controller in ["cpu", "memory", "pids"] {
        fs::create_dir(root.path().join(controller)).unwrap();
    }
    let cgroups = Cgroups::at(root.path()).unwrap();
    (root, cgroups)
}

fn read(root: &Path, file: &str) -> String {
    fs::read_to_string(root.join(file)).unwrap()
}

/// The kernel removes the files of a cgroup with its directory; regular files must be removed first.
fn empty(root: &Path, path: &str) {
    for entry in fs::read_dir(root.join(path)).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

#[test]
fn pod_cgroup_is_created_and_removed() {
    let (root, cgroups) = v1();
    let uid = PodUid::new("a");
    cgroups.apply(&uid, &pod("", "a", 512)).unwrap();
    cgroups.apply(&uid, &pod("", "a", 512)).unwrap();
    assert_eq!(read(root.path(), "cpu/kubepods/poda/cpu.shares"), "512");
    assert_eq!(read(root.path(), "cpu/kubepods/poda/cpu.cfs_quota_us"), "50000");
    assert_eq!(read(root.path(), "memory/kubepods/poda/memory.limit_in_bytes"), "1048576");
    assert_eq!(read(root.path(), "pids/kubepods/poda/pids.max"), "max");
    for controller in ["cpu", "memory", "pids"] {
        empty(root.path(), &format!("{controller}/kubepods/poda"));
    }
    // The container runtime creates the cgroup under the other controllers.
    fs::create_dir_all(root.path().join("freezer/kubepods/poda")).unwrap();
    cgroups.release(&uid).unwrap();
    cgroups.release(&uid).unwrap();
    for controller in ["cpu", "memory", "pids", "freezer"] {
        assert!(!root.path().join(controller).join("kubepods/poda").exists(), "{controller}");
    }
}

#[test]
fn burstable_cgroup_has_the_sum_of_cpu_shares() {
    let (root, cgroups) = v1();
    cgroups.apply(&PodUid::new("a"), &pod("/burstable", "a", 512)).unwrap();
    cgroups.apply(&PodUid::new("b"), &pod("/burstable", "b", 100)).unwrap();
    assert_eq!(read(root.path(), "cpu/kubepods/burstable/cpu.shares"), "612");
    cgroups.apply(&PodUid::new("b"), &pod("/burstable", "b", 200)).unwrap();
    assert_eq!(read(root.path(), "cpu/kubepods/burstable/cpu.shares"), "712");
    for controller in ["cpu", "memory", "pids"] {
        empty(root.path(), &format!("{controller}/kubepods/burstable/poda"));
    }
    cgroups.release(&PodUid::new("a")).unwrap();
    assert_eq!(read(root.path(), "cpu/kubepods/burstable/cpu.shares"), "200");
}

#[test]
fn busy_cgroup_does_not_block_other_cgroups() {
    let (root, cgroups) = v1();
    for uid in ["a", "b"] {
        cgroups.apply(&PodUid::new(uid), &pod("/burstable", uid, 100)).unwrap();
    }
    for controller in ["memory", "pids"] {
        empty(root.path(), &format!("{controller}/kubepods/burstable/poda"));
    }
    let error = cgroups.release(&PodUid::new("a")).unwrap_err().to_string();
    assert!(error.contains("cpu/kubepods/burstable/poda: "), "{error}");
    assert!(!root.path().join("pids/kubepods/burstable/poda").exists());
    assert_eq!(read(root.path(), "cpu/kubepods/burstable/cpu.shares"), "100");
}

#[test]
fn best_effort_cgroup_has_minimal_cpu_shares() {
    let (root, cgroups) = v1();
    cgroups.apply(&PodUid::new("a"), &pod("/besteffort", "a", 2)).unwrap();
    assert_eq!(read(root.path(), "cpu/kubepods/besteffort/cpu.shares"), "2");
}

#[test]
fn cgroup_v2_uses_one_hierarchy() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
    let cgroups = Cgroups::at(root.path()).unwrap();
    cgroups.apply(&PodUid::new("a"), &pod("", "a", 1024)).unwrap();
    assert_eq!(read(root.path(), "kubepods/poda/cpu.weight"), "39");
    assert_eq!(read(root.path(), "kubepods/poda/cpu.max"), "50000 100000");
    assert_eq!(read(root.path(), "kubepods/poda/memory.max"), "1048576");
    assert_eq!(read(root.path(), "kubepods/cgroup.subtree_control"), "+cpu +memory +pids");
}

#[test]
fn cgroups_are_absent_if_they_cannot_be_created() {
    let root = tempfile::tempdir().unwrap();
    assert!(Cgroups::at(&root.path().join("nothing")).is_none());
}
