//! Calls of systemctl, recorded by a script in its place.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

struct Listener {
    folder: tempfile::TempDir,
    slices: Slices,
}

impl Listener {
    fn new(answer: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("systemctl");
        fs::write(&program, format!("#!/bin/sh\necho \"$@\" >>\"$0.calls\"\n{answer}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { slices: Slices::by(&program), folder }
    }

    /// The arguments of each call since the last query.
    fn calls(&self) -> Vec<String> {
        let path = self.folder.path().join("systemctl.calls");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }
}

fn pod(slice: &str, shares: i64) -> PodCgroup {
    PodCgroup {
        path: slice.to_owned(),
        burstable: slice.contains("burstable"),
        resources: Resources { cpu_shares: Some(shares), ..Resources::default() },
    }
}

#[test]
fn pod_and_qos_slices_get_the_summed_resources() {
    let systemd = Listener::new("exit 0");
    let (a, b) = (PodUid::new("a"), PodUid::new("b"));
    let set = "set-property --runtime";
    let limited = PodCgroup {
        resources: Resources {
            cpu_shares: Some(1024),
            cpu_quota: Some(150_000),
            cpu_period: Some(100_000),
            memory_bytes: Some(1 << 20),
            pids: Some(9),
        },
        ..pod("kubepods-poda.slice", 0)
    };
    systemd.slices.apply(&a, &limited).unwrap();
    let expected =
        format!("{set} kubepods-poda.slice CPUWeight=39 CPUQuota=150% MemoryMax=1048576 TasksMax=9");
    assert_eq!(systemd.calls(), [expected]);

    let none = "CPUQuota= MemoryMax=infinity TasksMax=infinity";
    systemd.slices.apply(&a, &pod("kubepods-burstable-poda.slice", 1024)).unwrap();
    systemd.slices.apply(&b, &pod("kubepods-burstable-podb.slice", 2048)).unwrap();
    systemd.slices.apply(&b, &pod("kubepods-burstable-podb.slice", 2048)).unwrap();
    let expected = [
        format!("{set} kubepods-burstable-poda.slice CPUWeight=39 {none}"),
        format!("{set} kubepods-burstable.slice CPUWeight=39"),
        format!("{set} kubepods-burstable-podb.slice CPUWeight=79 {none}"),
        format!("{set} kubepods-burstable.slice CPUWeight=118"),
        format!("{set} kubepods-burstable-podb.slice CPUWeight=79 {none}"),
    ];
    assert_eq!(systemd.calls(), expected, "only changed properties of a class are set");

    systemd.slices.release(&b, "kubepods-burstable-podb.slice").unwrap();
    let expected = [
        format!("{set} kubepods-burstable.slice CPUWeight=39"),
        "stop kubepods-burstable-podb.slice".to_owned(),
        "revert kubepods-burstable-podb.slice".to_owned(),
    ];
    assert_eq!(systemd.calls(), expected);

    systemd.slices.apply(&b, &pod("kubepods-besteffort-podb.slice", 2)).unwrap();
    let expected = [
        format!("{set} kubepods-besteffort-podb.slice CPUWeight=1 {none}"),
        format!("{set} kubepods-besteffort.slice CPUWeight=1"),
    ];
    assert_eq!(systemd.calls(), expected);
}

#[test]
fn a_rejection_has_the_message_of_systemd() {
    let systemd = Listener::new("echo 'Access denied' >&2; exit 4");
    let error =
        systemd.slices.apply(&PodUid::new("a"), &pod("kubepods-poda.slice", 2)).unwrap_err().to_string();
    assert!(error.contains("kubepods-poda.slice") && error.ends_with(": Access denied"), "{error}");
}

#[test]
fn failed_slice_removal_does_not_block_other_slices() {
    let systemd = Listener::new("case $1 in stop) echo 'Access denied' >&2; exit 4;; esac");
    let (a, b) = (PodUid::new("a"), PodUid::new("b"));
    systemd.slices.apply(&a, &pod("kubepods-burstable-poda.slice", 1024)).unwrap();
    systemd.slices.apply(&b, &pod("kubepods-burstable-podb.slice", 2048)).unwrap();
    systemd.calls();
    let error = systemd.slices.release(&b, "kubepods-burstable-podb.slice").unwrap_err().to_string();
    assert!(error.starts_with("systemctl stop ") && error.ends_with(": Access denied"), "{error}");
    let expected = [
        "set-property --runtime kubepods-burstable.slice CPUWeight=39",
        "stop kubepods-burstable-podb.slice",
        "revert kubepods-burstable-podb.slice",
    ];
    assert_eq!(systemd.calls(), expected);
}

#[test]
fn release_searches_slices_of_all_qos_classes() {
    let systemd = Listener::new("case $1-$2 in stop-*-burstable-*) exit 0;; stop-*) exit 5;; esac");
    let forgotten = |of: &str| [format!("stop {of}-podu.slice"), format!("revert {of}-podu.slice")];
    for all in ["kubepods", "site-kubepods"] {
        let expected = ["", "-burstable", "-besteffort"].map(|class| forgotten(&format!("{all}{class}")));
        for class in ["", "-burstable", "-besteffort"] {
            systemd.slices.release(&PodUid::new("u"), &format!("{all}{class}-podu.slice")).unwrap();
            assert_eq!(systemd.calls(), expected.as_flattened());
        }
    }
}
