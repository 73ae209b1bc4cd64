//! State that survives a restart of the kubelet.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::bed::{Bed, broken, pod};
use crate::desired::{Completeness, SourceObject};
use crate::sources::identity::SEEN;

#[tokio::test]
async fn last_valid_version_survives_a_kubelet_restart() {
    let mut bed = Bed::start(|folder| {
        let two = format!("{}---\n{}", pod("a", "1"), pod("b", "1"));
        fs::write(folder.join("manifests/two.yaml"), two).unwrap();
        fs::write(folder.join("manifests/gone.yaml"), pod("gone", "1")).unwrap();
    })
    .await;
    bed.until("gone=1 a=1 b=1").await;
    // The first version is saved by now, because the next scan starts after saving.
    bed.write("manifests/two.yaml", &format!("{}---\n{}", pod("a", "2"), broken("b")));
    bed.until("gone=1 a=2 b=1").await;
    bed.write("manifests/c.yaml", &pod("c", "1"));
    bed.until("c=1 gone=1 a=2 b=1").await;
    bed.restart(|folder| {
        fs::write(folder.join("manifests/two.yaml"), "{").unwrap();
        fs::remove_file(folder.join("manifests/gone.yaml")).unwrap();
    })
    .await;
    bed.until("c=1 a=2 b=1").await;
    assert_eq!(bed.completeness(), Completeness::Complete);
    assert_eq!(bed.problems().len(), 1);
    let state = bed.path("state/sources/file");
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    for file in fs::read_dir(state).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn restart_keeps_pods_unchanged() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("a", "1")).unwrap()).await;
    let pod_of = |bed: &Bed| match &bed.seen.last().unwrap().objects[0].object {
        SourceObject::Pod(pod) => (**pod).clone(),
        other => panic!("{other:?}"),
    };
    let before = pod_of(&bed);
    // Another scan ensures that the first one was saved.
    bed.write("manifests/b.yaml", &pod("b", "1"));
    bed.until("a=1 b=1").await;
    bed.restart(|_| ()).await;
    bed.until("a=1 b=1").await;
    assert_eq!(before, pod_of(&bed), "down to {SEEN}");
}

#[tokio::test]
async fn damaged_state_file_affects_only_its_own_source() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("a", "1")).unwrap()).await;
    bed.write("manifests/b.yaml", &pod("b", "1"));
    bed.until("a=1 b=1").await;
    bed.restart(|folder| {
        for file in fs::read_dir(folder.join("state/sources/file")).unwrap() {
            fs::write(file.unwrap().path(), "{\"origin\": 7").unwrap();
        }
    })
    .await;
    bed.until("a=1 b=1").await;
}

#[tokio::test]
async fn unreadable_directory_ends_no_pod() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/a.yaml"), pod("a", "1")).unwrap()).await;
    bed.write("manifests/b.yaml", &pod("b", "1"));
    bed.until("a=1 b=1").await;
    bed.until_saved(2).await;
    bed.restart(|folder| {
        fs::rename(folder.join("manifests"), folder.join("away")).unwrap();
        std::os::unix::fs::symlink("manifests", folder.join("manifests")).unwrap();
    })
    .await;
    assert_eq!(bed.last(), "a=1 b=1");
    assert_eq!(bed.completeness(), Completeness::Incomplete, "what is absent may be there");
}
