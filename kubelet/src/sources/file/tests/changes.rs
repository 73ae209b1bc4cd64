//! Files that are created, edited and removed, as users and editors do it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use super::bed::{Bed, broken, pod, shown};
use crate::desired::{Completeness, SourceObject};

#[tokio::test]
async fn file_source_follows_added_changed_and_removed_files() {
    let mut bed = Bed::start(|_| ()).await;
    assert_eq!((bed.last().as_str(), bed.completeness()), ("", Completeness::Complete));
    bed.write("manifests/b.yaml", &pod("b", "1"));
    bed.until("b=1").await;
    bed.write(
        "manifests/a.json",
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}}"#,
    );
    bed.until("conf b=1").await;
    bed.write("manifests/b.yaml", &pod("b", "2"));
    bed.until("conf b=2").await;
    fs::remove_file(bed.path("manifests/b.yaml")).unwrap();
    bed.until("conf").await;
    fs::rename(bed.path("manifests/a.json"), bed.path("manifests/a.json.bak")).unwrap();
    bed.until("").await;
    assert!(bed.problems().is_empty());
}

/// Edits `web.yaml` from version 1 to 2, and checks that the pod was never missing.
async fn edited(edit: impl FnOnce(&Bed)) {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/web.yaml"), pod("web", "1")).unwrap()).await;
    bed.until("web=1").await;
    edit(&bed);
    bed.until("web=2").await;
    let seen: Vec<String> = bed.seen.iter().map(|snapshot| shown(snapshot)).collect();
    assert!(seen.iter().all(|shown| shown.starts_with("web=")), "{seen:?}");
    assert!(bed.problems().is_empty());
}

#[tokio::test]
async fn file_source_handles_the_save_strategies_of_editors() {
    let new = pod("web", "2");
    // Truncate and write, like nano.
    edited(|bed| bed.write("manifests/web.yaml", &new)).await;
    // Write a new file and rename it, like most tools.
    edited(|bed| {
        bed.write("manifests/.web.yaml.tmp", &new);
        fs::rename(bed.path("manifests/.web.yaml.tmp"), bed.path("manifests/web.yaml")).unwrap();
    })
    .await;
    // Move the old file away, write a new one, remove the old one, like vim.
    edited(|bed| {
        bed.write("manifests/.web.yaml.swp", "b0VIM");
        fs::rename(bed.path("manifests/web.yaml"), bed.path("manifests/web.yaml~")).unwrap();
        bed.write("manifests/web.yaml", &new);
        fs::remove_file(bed.path("manifests/web.yaml~")).unwrap();
        fs::remove_file(bed.path("manifests/.web.yaml.swp")).unwrap();
    })
    .await;
    // Copy to a backup and write in place, like emacs.
    edited(|bed| {
        fs::copy(bed.path("manifests/web.yaml"), bed.path("manifests/web.yaml~")).unwrap();
        bed.write("manifests/web.yaml", &new);
        bed.write("manifests/#web.yaml#", &new);
    })
    .await;
    // Remove and write, like simple scripts.
    edited(|bed| {
        fs::remove_file(bed.path("manifests/web.yaml")).unwrap();
        bed.write("manifests/web.yaml", &new);
    })
    .await;
    // A hard link of a file created elsewhere.
    edited(|bed| {
        bed.write("elsewhere", &new);
        fs::remove_file(bed.path("manifests/web.yaml")).unwrap();
        fs::hard_link(bed.path("elsewhere"), bed.path("manifests/web.yaml")).unwrap();
    })
    .await;
}

#[tokio::test]
async fn renamed_file_keeps_its_pod() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("web", "1")).unwrap()).await;
    let pod_of = |bed: &Bed| match &bed.seen.last().unwrap().objects[0].object {
        SourceObject::Pod(pod) => pod.clone(),
        other => panic!("{other:?}"),
    };
    let before = pod_of(&bed);
    fs::rename(bed.path("manifests/a.yaml"), bed.path("manifests/b.yaml")).unwrap();
    while !bed.seen.last().unwrap().objects[0].origin.ends_with("b.yaml") {
        bed.next().await;
    }
    assert!(bed.seen.iter().all(|snapshot| shown(snapshot) == "web=1"));
    assert!(Arc::ptr_eq(&before, &pod_of(&bed)));
}

#[tokio::test]
async fn file_is_read_only_after_it_is_closed() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("a", "1")).unwrap()).await;
    let whole = format!("{}---\n{}", pod("a", "2"), pod("b", "2"));
    let (first, second) = whole.split_at(whole.find("---").unwrap());
    let mut file = fs::File::create(bed.path("manifests/a.yaml")).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    // The first half is a valid manifest. Another file ensures that a scan happens at this time.
    bed.write("manifests/other.yaml", &pod("c", "1"));
    bed.until("a=1 c=1").await;
    file.write_all(second.as_bytes()).unwrap();
    drop(file);
    bed.until("a=2 b=2 c=1").await;
    let seen: Vec<String> = bed.seen.iter().map(|snapshot| shown(snapshot)).collect();
    assert!(!seen.iter().any(|shown| shown.starts_with("a=2 c=1")), "{seen:?}");
}

#[tokio::test]
async fn newly_created_empty_file_is_not_reported() {
    let mut bed = Bed::start(|_| ()).await;
    let mut file = fs::File::create(bed.path("manifests/a.yaml")).unwrap();
    bed.write("manifests/b.yaml", &pod("b", "1"));
    bed.until("b=1").await;
    assert!(bed.problems().is_empty());
    file.write_all(pod("a", "1").as_bytes()).unwrap();
    drop(file);
    bed.until("a=1 b=1").await;
    drop(fs::File::create(bed.path("manifests/c.yaml")).unwrap());
    bed.next().await;
    let expected = "manifests/c.yaml:1:1: the manifest is empty; write a Pod, a ConfigMap, a Secret or a Service, or remove the file";
    assert_eq!(bed.problems(), [expected]);
}

#[tokio::test]
async fn a_broken_edit_keeps_the_last_good_version() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("a", "1")).unwrap()).await;
    for bad in [broken("a"), String::new(), "{".to_owned(), "apiVersion: v1\nkind: Deployment\n".to_owned()] {
        bed.write("manifests/a.yaml", &bad);
        bed.next().await;
        assert_eq!(bed.last(), "a=1", "{bad:?}");
        let problems = bed.problems();
        assert!(
            !problems.is_empty()
                && problems.iter().all(|p| p.ends_with("(the last good version stays in use)")),
            "{problems:?}"
        );
        bed.write("manifests/a.yaml", &pod("a", "1"));
        bed.next().await;
        assert!(bed.problems().is_empty());
    }
    bed.write("manifests/a.yaml", &broken("a"));
    bed.next().await;
    fs::remove_file(bed.path("manifests/a.yaml")).unwrap();
    bed.until("").await;
}

#[tokio::test]
async fn thousand_files_are_read_together() {
    let mut bed = Bed::start(|_| ()).await;
    for n in 0..1000 {
        bed.write(&format!("manifests/{n:03}.yaml"), &pod(&format!("p{n:03}"), "1"));
    }
    let all: Vec<String> = (0..1000).map(|n| format!("p{n:03}=1")).collect();
    bed.until(&all.join(" ")).await;
    assert!(bed.seen.len() < 500, "{} looks for a burst", bed.seen.len());
}

#[tokio::test]
async fn an_unreadable_file_is_reported_and_read_once_permissions_allow() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("a", "1")).unwrap()).await;
    let path = bed.path("manifests/a.yaml");
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    mode(0);
    if fs::read(&path).is_ok() {
        // Root can read everything; in that case only check that the mode change has no effect.
        mode(0o644);
        bed.write("manifests/b.yaml", &pod("b", "1"));
        return bed.until("a=1 b=1").await;
    }
    bed.next().await;
    assert_eq!(bed.last(), "a=1");
    let expected = "manifests/a.yaml: it cannot be read: Permission denied (os error 13); give the user of the \
                    kubelet read permission (the last good version stays in use)";
    assert_eq!(bed.problems(), [expected]);
    mode(0o644);
    bed.next().await;
    assert!(bed.problems().is_empty());
}

#[tokio::test]
async fn a_rescan_finds_changes_without_an_event() {
    let every = Duration::from_millis(200);
    let mut bed = Bed::start_at("link", every, |folder| {
        fs::create_dir(folder.join("a")).unwrap();
        fs::create_dir_all(folder.join("deep/down")).unwrap();
        fs::write(folder.join("deep/down/a.yaml"), pod("a", "1")).unwrap();
        // Only the last component and symlinks are watched, so the removal of a parent causes no event.
        std::os::unix::fs::symlink("deep/down", folder.join("link")).unwrap();
    })
    .await;
    bed.until("a=1").await;
    fs::rename(bed.path("deep"), bed.path("gone")).unwrap();
    bed.next().await;
    assert_eq!((bed.last().as_str(), bed.problems().len()), ("a=1", 1));
    fs::rename(bed.path("gone"), bed.path("deep")).unwrap();
    bed.next().await;
    assert_eq!((bed.last().as_str(), bed.problems().len()), ("a=1", 0));
}

#[tokio::test]
async fn briefly_missing_file_keeps_its_pods() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/web.yaml"), pod("web", "1")).unwrap()).await;
    fs::remove_file(bed.path("manifests/web.yaml")).unwrap();
    // Another file ensures that a scan happens while the file is missing.
    bed.write("manifests/other.yaml", &pod("c", "1"));
    bed.until("c=1 web=1").await;
    bed.write("manifests/web.yaml", &pod("web", "2"));
    bed.until("c=1 web=2").await;
    assert!(bed.problems().is_empty());
    fs::remove_file(bed.path("manifests/web.yaml")).unwrap();
    bed.until("c=1").await;
}

#[tokio::test]
async fn a_broken_file_that_is_renamed_keeps_its_last_good_pods() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("web", "1")).unwrap()).await;
    bed.write("manifests/a.yaml", &broken("web"));
    bed.next().await;
    assert_eq!((bed.last().as_str(), bed.problems().len()), ("web=1", 1));
    fs::rename(bed.path("manifests/a.yaml"), bed.path("manifests/b.yaml")).unwrap();
    let is_renamed = |bed: &Bed| bed.problems().iter().all(|problem| problem.starts_with("manifests/b.yaml"));
    while !is_renamed(&bed) || bed.problems().is_empty() {
        bed.next().await;
    }
    assert!(bed.seen.iter().all(|snapshot| shown(snapshot) == "web=1"));
    assert!(bed.problems()[0].ends_with("(the last good version stays in use)"), "{:?}", bed.problems());
    bed.write("manifests/b.yaml", &pod("web", "2"));
    bed.until("web=2").await;
    fs::remove_file(bed.path("manifests/b.yaml")).unwrap();
    bed.until("").await;
}
