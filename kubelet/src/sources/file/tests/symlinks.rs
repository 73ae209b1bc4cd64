//! Directories and symlinks that are created, removed and changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::bed::{Bed, pod, shown};
use crate::desired::Completeness;
use crate::file_watch::FileWatcher;

const NEVER: Duration = Duration::from_secs(3600);

/// A ConfigMap volume: files are symlinks through `..data` into a versioned directory.
fn publish(mount: &Path, version: &str, names: &[&str]) {
    let data = format!("..{version}");
    fs::create_dir(mount.join(&data)).unwrap();
    for name in names {
        fs::write(mount.join(&data).join(format!("{name}.yaml")), pod(name, version)).unwrap();
    }
    symlink(&data, mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    for name in names {
        let link = mount.join(format!("{name}.yaml"));
        if !link.is_symlink() {
            symlink(format!("..data/{name}.yaml"), link).unwrap();
        }
    }
}

#[tokio::test]
async fn mounted_config_map_directory_changes_atomically() {
    let mut bed = Bed::start(|folder| publish(&folder.join("manifests"), "1", &["a", "b"])).await;
    bed.until("a=1 b=1").await;
    publish(&bed.path("manifests"), "2", &["a", "b"]);
    fs::remove_dir_all(bed.path("manifests/..1")).unwrap();
    bed.until("a=2 b=2").await;
    let seen: Vec<String> = bed.seen.iter().map(|snapshot| shown(snapshot)).collect();
    assert_eq!(seen, ["a=1 b=1", "a=2 b=2"]);
}

#[tokio::test]
async fn a_single_file_of_a_mounted_config_map_is_followed() {
    let mut bed = Bed::start_at("mount/a.yaml", NEVER, |folder| {
        fs::create_dir(folder.join("mount")).unwrap();
        publish(&folder.join("mount"), "1", &["a", "b"]);
    })
    .await;
    bed.until("a=1").await;
    publish(&bed.path("mount"), "2", &["a", "b"]);
    bed.until("a=2").await;
}

#[tokio::test]
async fn symlinked_file_is_watched_at_its_target() {
    let mut bed = Bed::start(|folder| {
        fs::create_dir(folder.join("elsewhere")).unwrap();
        fs::write(folder.join("elsewhere/real"), pod("a", "1")).unwrap();
        symlink("../elsewhere/real", folder.join("manifests/a.yaml")).unwrap();
    })
    .await;
    bed.until("a=1").await;
    bed.write("elsewhere/real", &pod("a", "2"));
    bed.until("a=2").await;
    bed.write("elsewhere/other", &pod("a", "3"));
    symlink("../elsewhere/other", bed.path("manifests/.tmp")).unwrap();
    fs::rename(bed.path("manifests/.tmp"), bed.path("manifests/a.yaml")).unwrap();
    bed.until("a=3").await;
    fs::remove_file(bed.path("elsewhere/other")).unwrap();
    bed.until("").await;
    bed.write("elsewhere/other", &pod("a", "4"));
    bed.until("a=4").await;
}

#[tokio::test]
async fn manifest_directory_may_appear_later_and_be_recreated() {
    let mut bed = Bed::start_at("later/manifests", NEVER, |_| ()).await;
    assert_eq!((bed.last().as_str(), bed.completeness()), ("", Completeness::Complete));
    let expected = "later/manifests: there is no such file or directory; create it; pods in it will run";
    assert_eq!(bed.problems(), [expected]);
    fs::create_dir_all(bed.path("later/manifests")).unwrap();
    bed.write("later/manifests/a.yaml", &pod("a", "1"));
    bed.until("a=1").await;
    assert!(bed.problems().is_empty());
    // It may be an unmounted disk, so no pod is stopped, neither now nor after a restart.
    fs::rename(bed.path("later/manifests"), bed.path("later/away")).unwrap();
    bed.next().await;
    let gone = "later/manifests: the directory is gone; restore it; to stop its pods, empty it (the last good version stays in use)";
    assert_eq!((bed.last().as_str(), bed.problems()), ("a=1", vec![gone.to_owned()]));
    bed.restart(|_| ()).await;
    assert_eq!(bed.last(), "a=1");
    fs::create_dir(bed.path("later/manifests")).unwrap();
    bed.until("").await;
    bed.write("later/manifests/a.yaml", &pod("a", "2"));
    bed.until("a=2").await;
    bed.write("later/manifests/b.yaml", &pod("b", "1"));
    bed.until("a=2 b=1").await;
}

#[tokio::test]
async fn manifest_directory_is_replaced_without_a_gap() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("a", "1")).unwrap()).await;
    fs::create_dir(bed.path("new")).unwrap();
    bed.write("new/a.yaml", &pod("a", "2"));
    fs::rename(bed.path("manifests"), bed.path("old")).unwrap();
    fs::rename(bed.path("new"), bed.path("manifests")).unwrap();
    bed.until("a=2").await;
    assert!(bed.seen.iter().all(|snapshot| !shown(snapshot).is_empty()));
    bed.write("manifests/a.yaml", &pod("a", "3"));
    bed.until("a=3").await;
}

#[tokio::test]
async fn retargeted_directory_symlink_is_followed() {
    let mut bed = Bed::start_at("current", NEVER, |folder| {
        for version in ["1", "2"] {
            fs::create_dir(folder.join(version)).unwrap();
            fs::write(folder.join(version).join("a.yaml"), pod("a", version)).unwrap();
        }
        symlink("1", folder.join("current")).unwrap();
    })
    .await;
    bed.until("a=1").await;
    symlink("2", bed.path("next")).unwrap();
    fs::rename(bed.path("next"), bed.path("current")).unwrap();
    bed.until("a=2").await;
    bed.write("2/b.yaml", &pod("b", "2"));
    bed.until("a=2 b=2").await;
    assert!(bed.seen.iter().all(|snapshot| !shown(snapshot).is_empty()));
}

#[tokio::test]
async fn manifest_path_may_be_one_file_with_any_name() {
    let mut bed =
        Bed::start_at("pods", NEVER, |folder| fs::write(folder.join("pods"), pod("a", "1")).unwrap()).await;
    bed.until("a=1").await;
    bed.write("pods.new", &format!("{}---\n{}", pod("a", "2"), pod("b", "2")));
    fs::rename(bed.path("pods.new"), bed.path("pods")).unwrap();
    bed.until("a=2 b=2").await;
    bed.write("pods", &pod("b", "3"));
    bed.until("b=3").await;
    fs::remove_file(bed.path("pods")).unwrap();
    bed.until("").await;
    fs::create_dir(bed.path("pods")).unwrap();
    bed.write("pods/c.yaml", &pod("c", "1"));
    bed.until("c=1").await;
}

#[tokio::test]
async fn symlink_loops_are_reported_and_end_no_pod() {
    let mut bed = Bed::start_at("current", NEVER, |folder| {
        fs::create_dir(folder.join("1")).unwrap();
        fs::write(folder.join("1/a.yaml"), pod("a", "1")).unwrap();
        symlink("1", folder.join("current")).unwrap();
    })
    .await;
    bed.until("a=1").await;
    symlink("current", bed.path("next")).unwrap();
    fs::rename(bed.path("next"), bed.path("current")).unwrap();
    bed.next().await;
    assert_eq!(bed.last(), "a=1");
    let expected = "current: it cannot be read: its symlinks form a cycle; check the file and the disk it is on (the last \
                    good version stays in use)";
    assert_eq!(bed.problems(), [expected]);
}

#[tokio::test]
async fn without_inotify_changes_are_found_by_polling() {
    let mut bed = Bed::start_with(FileWatcher::polling, "manifests", NEVER, |folder| {
        fs::create_dir(folder.join("manifests")).unwrap();
        publish(&folder.join("manifests"), "1", &["a"]);
    })
    .await;
    bed.until("a=1").await;
    publish(&bed.path("manifests"), "2", &["a"]);
    bed.until("a=2").await;
    bed.write("manifests/b.yaml", &pod("b", "1"));
    bed.until("a=2 b=1").await;
    fs::remove_dir_all(bed.path("manifests")).unwrap();
    bed.next().await;
    assert_eq!((bed.last().as_str(), bed.problems().len()), ("a=2 b=1", 1));
    fs::create_dir(bed.path("manifests")).unwrap();
    bed.write("manifests/b.yaml", &pod("b", "2"));
    bed.until("b=2").await;
}
