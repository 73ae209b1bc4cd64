//! The same object name in several files.

use std::fs;

use super::bed::{Bed, broken, pod};
use crate::desired::{Merge, SourceKind};

/// The image of the pod in use, and the files whose pod is rejected.
fn counts(bed: &Bed) -> (String, Vec<String>) {
    let desired = Merge::new([SourceKind::File]).put(bed.seen.last().unwrap().clone());
    let pod = &desired.pods[&desired.order[0]].pod;
    let refused = desired.problems.iter().map(|problem| {
        problem.origin.rsplit('/').next().unwrap().to_owned()
            + " "
            + problem.problem.what.rsplit('/').next().unwrap()
    });
    (pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap(), refused.collect())
}

#[tokio::test]
async fn new_file_cannot_take_the_pod_name_of_an_older_file() {
    let mut bed =
        Bed::start(|folder| fs::write(folder.join("manifests/web.yaml"), pod("web", "1")).unwrap()).await;
    bed.until("web=1").await;
    let refused = vec!["a.yaml web.yaml".to_owned()];
    bed.write("manifests/a.yaml", &pod("web", "2"));
    bed.until("web=1 web=2").await;
    assert_eq!(counts(&bed), ("v1".to_owned(), refused.clone()));

    bed.restart(|_| ()).await;
    bed.until("web=1 web=2").await;
    assert_eq!(counts(&bed), ("v1".to_owned(), refused.clone()), "the next kubelet knows whose it was");

    bed.write("manifests/web.yaml", &broken("web"));
    bed.write("manifests/b.yaml", &pod("b", "1"));
    bed.until("b=1 web=1 web=2").await;
    assert_eq!(counts(&bed).0, "v1", "a broken edit gives nothing away");

    bed.write("manifests/web.yaml", &pod("web", "3"));
    bed.until("b=1 web=3 web=2").await;
    fs::remove_file(bed.path("manifests/web.yaml")).unwrap();
    bed.until("web=2 b=1").await;
}

#[tokio::test]
async fn file_keeps_an_adopted_pod_name_after_a_restart() {
    let mut bed = Bed::start(|folder| {
        fs::write(folder.join("manifests/a.yaml"), pod("web", "1")).unwrap();
        fs::write(folder.join("manifests/b.yaml"), pod("web", "2")).unwrap();
    })
    .await;
    bed.until("web=1 web=2").await;
    fs::remove_file(bed.path("manifests/a.yaml")).unwrap();
    bed.until("web=2").await;
    // Another scan ensures that this was saved.
    bed.write("manifests/c.yaml", &pod("c", "1"));
    bed.until("web=2 c=1").await;
    bed.restart(|folder| fs::write(folder.join("manifests/a.yaml"), pod("web", "3")).unwrap()).await;
    bed.until("web=2 c=1 web=3").await;
}
