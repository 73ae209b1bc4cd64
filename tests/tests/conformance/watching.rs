//! Watches: their events, the order of events, and where they start.

use serde_json::json;

use crate::cluster::{Cluster, revision};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn make(cluster: &Cluster, name: &str, label: &str) -> String {
    let made = json!({"metadata": {"name": name, "labels": {"watched": label}}, "data": {"n": "0"}});
    revision(&cluster.post(MAPS, &made).await.is(201))
}

async fn set(cluster: &Cluster, name: &str, n: &str) -> String {
    revision(&cluster.patch(&format!("{MAPS}/{name}"), &json!({"data": {"n": n}})).await.is(200))
}

#[tokio::test]
async fn watches_receive_only_matching_objects() {
    let cluster = Cluster::running().await;
    let from = cluster.revision(MAPS).await;
    let open = async |selector: &str| {
        cluster.watch(&format!("{MAPS}?labelSelector={selector}&resourceVersion={from}")).await
    };
    let mut a = open("watched%3Da").await;
    let mut b = open("watched%3Db").await;
    let mut both = open("watched%20in%20%28a%2Cb%29").await;
    make(&cluster, "a", "a").await;
    a.shows("ADDED", "a").await;
    both.shows("ADDED", "a").await;
    for n in ["1", "2"] {
        set(&cluster, "a", n).await;
        assert_eq!(a.shows("MODIFIED", "a").await["data"]["n"], n);
        assert_eq!(both.shows("MODIFIED", "a").await["data"]["n"], n);
    }
    cluster.delete(&format!("{MAPS}/a")).await.is(200);
    a.shows("DELETED", "a").await;
    both.shows("DELETED", "a").await;
    make(&cluster, "b", "b").await;
    b.shows("ADDED", "b").await;
    both.shows("ADDED", "b").await;
    cluster.delete(&format!("{MAPS}/b")).await.is(200);
    b.shows("DELETED", "b").await;
    both.shows("DELETED", "b").await;
    a.is_quiet().await;
}

#[tokio::test]
async fn watch_starts_and_resumes_at_its_resource_version() {
    let cluster = Cluster::running().await;
    make(&cluster, "from", "from").await;
    let first = set(&cluster, "from", "1").await;
    set(&cluster, "from", "2").await;
    let query = |revision: &str| format!("{MAPS}?labelSelector=watched%3Dfrom&resourceVersion={revision}");
    let mut watch = cluster.watch(&query(&first)).await;
    let seen = watch.shows("MODIFIED", "from").await;
    assert_eq!(seen["data"]["n"], "2");
    drop(watch);
    set(&cluster, "from", "3").await;
    cluster.delete(&format!("{MAPS}/from")).await.is(200);
    let mut again = cluster.watch(&query(&revision(&seen))).await;
    assert_eq!(again.shows("MODIFIED", "from").await["data"]["n"], "3");
    again.shows("DELETED", "from").await;
}

#[tokio::test]
async fn watch_reports_a_deletion_when_the_selector_no_longer_matches() {
    let cluster = Cluster::running().await;
    let from = make(&cluster, "moving", "in").await;
    let mut watch = cluster.watch(&format!("{MAPS}?labelSelector=watched%3Din&resourceVersion={from}")).await;
    set(&cluster, "moving", "1").await;
    watch.shows("MODIFIED", "moving").await;
    let label = async |label: &str| {
        cluster
            .patch(&format!("{MAPS}/moving"), &json!({"metadata": {"labels": {"watched": label}}}))
            .await
            .is(200);
    };
    label("out").await;
    watch.shows("DELETED", "moving").await;
    set(&cluster, "moving", "2").await;
    watch.is_quiet().await;
    label("in").await;
    assert_eq!(watch.shows("ADDED", "moving").await["data"]["n"], "2");
    set(&cluster, "moving", "3").await;
    watch.shows("MODIFIED", "moving").await;
    cluster.delete(&format!("{MAPS}/moving")).await.is(200);
    watch.shows("DELETED", "moving").await;
}

#[tokio::test]
async fn watches_from_different_versions_see_the_same_order() {
    const CHANGES: usize = 30;
    let cluster = Cluster::running().await;
    let query = |revision: &str| format!("{MAPS}?labelSelector=watched%3Dorder&resourceVersion={revision}");
    let mut all = cluster.watch(&query(&cluster.revision(MAPS).await)).await;
    for number in 0..CHANGES / 3 {
        let name = format!("order-{number}");
        make(&cluster, &name, "order").await;
        set(&cluster, &name, "1").await;
        cluster.delete(&format!("{MAPS}/{name}")).await.is(200);
    }
    let mut revisions = Vec::new();
    for _ in 0..CHANGES {
        revisions.push(revision(&all.next().await.1));
    }
    for start in 0..CHANGES - 1 {
        let mut later = cluster.watch(&query(&revisions[start])).await;
        for expected in &revisions[start + 1..] {
            assert_eq!(&revision(&later.next().await.1), expected, "from {start}");
        }
    }
}
