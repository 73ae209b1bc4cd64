//! Kernel files of both cgroup versions.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use super::*;

const ID: &str = "0123abcd";

fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn kernel(root: &Path) -> Kernel {
    Kernel { proc: root.join("proc"), cgroups: root.join("cgroup") }
}

#[test]
fn cgroup_v1_stats_of_a_container_and_its_pod_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let pod = "kubepods/burstable/podu-1";
    write(
        dir.path(),
        &[
            (
                "proc/7/cgroup",
                "5:cpu,cpuacct:/kubepods/burstable/podu-1/0123abcd\n4:memory:/kubepods/burstable/podu-1/0123abcd\n\
                 0::/kubepods/burstable/podu-1/0123abcd\n",
            ),
            (&format!("cgroup/cpuacct/{pod}/{ID}/cpuacct.usage"), "1234567\n"),
            (&format!("cgroup/memory/{pod}/{ID}/memory.usage_in_bytes"), "5000\n"),
            (
                &format!("cgroup/memory/{pod}/{ID}/memory.stat"),
                "inactive_file 1\ntotal_rss 3000\ntotal_inactive_file 1500\ntotal_pgfault 8\ntotal_pgmajfault 2\n",
            ),
            (&format!("cgroup/cpuacct/{pod}/cpuacct.usage"), "2000000\n"),
            (&format!("cgroup/memory/{pod}/memory.usage_in_bytes"), "7000\n"),
            (&format!("cgroup/memory/{pod}/memory.stat"), "total_inactive_file 8000\n"),
        ],
    );
    let place = CgroupPath::of(&kernel(dir.path()), 7, ID).unwrap();
    let expected = CgroupStats {
        cpu_nanoseconds: 1_234_567,
        usage_bytes: 5000,
        working_set_bytes: 3500,
        rss_bytes: 3000,
        page_faults: 8,
        major_page_faults: 2,
    };
    assert_eq!(place.read_stats().unwrap(), expected);
    let whole = place.pod("u-1").unwrap().read_stats().unwrap();
    assert_eq!((whole.cpu_nanoseconds, whole.usage_bytes, whole.working_set_bytes), (2_000_000, 7000, 0));
}

#[test]
fn cgroup_v2_stats_of_a_container_and_its_slice_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let slice = "kubepods.slice/kubepods-podu_1.slice";
    let place = format!("cgroup/{slice}/docker-{ID}.scope");
    write(
        dir.path(),
        &[
            ("proc/7/cgroup", &format!("0::/{slice}/docker-{ID}.scope\n")),
            (&format!("{place}/cpu.stat"), "usage_usec 12\nuser_usec 7\n"),
            (&format!("{place}/memory.current"), "5000\n"),
            (&format!("{place}/memory.stat"), "anon 3000\ninactive_file 1500\npgfault 8\npgmajfault 2\n"),
        ],
    );
    let place = CgroupPath::of(&kernel(dir.path()), 7, ID).unwrap();
    let counted = place.read_stats().unwrap();
    assert_eq!((counted.cpu_nanoseconds, counted.working_set_bytes, counted.rss_bytes), (12_000, 3500, 3000));
    let slice = place.pod("u-1").unwrap();
    assert_eq!(slice.read_stats().unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(slice.pod("u-1"), None, "only what is right above a container is its pod's");
}

#[test]
fn a_process_outside_the_container_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("proc/7/cgroup", "0::/system.slice/sshd.service\n")]);
    assert!(CgroupPath::of(&kernel(dir.path()), 7, ID).unwrap_err().to_string().contains("process 7"));
    assert_eq!(CgroupPath::of(&kernel(dir.path()), 8, ID).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn machine_stats_are_read() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        &[
            ("proc/stat", "cpu  10 1 5 1000 50 2 3 4 9 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nbtime 1700000000\n"),
            (
                "proc/meminfo",
                "MemTotal: 1000 kB\nMemFree: 400 kB\nInactive(file): 100 kB\nAnonPages: 300 kB\n",
            ),
            ("proc/vmstat", "pgfault 77\npgmajfault 5\n"),
        ],
    );
    let machine = Machine::read(&kernel(dir.path())).unwrap();
    assert_eq!(machine.counted.cpu_nanoseconds, 25 * 10_000_000);
    assert_eq!((machine.memory_bytes, machine.booted_at), (1_024_000, 1_700_000_000));
    assert_eq!((machine.counted.usage_bytes, machine.counted.working_set_bytes), (600 * 1024, 500 * 1024));
    assert_eq!((machine.counted.page_faults, machine.counted.major_page_faults), (77, 5));
}
