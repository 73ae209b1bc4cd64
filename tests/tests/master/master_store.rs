//! Storage backends of a master: etcd instead of the file, backups, and restore.

use rustix::process::Signal;
use tests::{DEADLINE, Etcd, Master, wait_until};

/// The ConfigMaps of the tests, without the one in every namespace.
const MINE: [&str; 6] =
    ["get", "configmaps", "-o", "name", "--field-selector", "metadata.name!=kube-root-ca.crt"];

/// Output of a kubectl command that must succeed.
async fn kubectl(master: &Master, arguments: &[&str]) -> String {
    let admin = master.data_dir().join("admin.kubeconfig");
    let output = master.kubectl(&admin, arguments).await;
    assert!(output.code == 0, "kubectl {}: {output:?}\n{}", arguments.join(" "), master.log());
    output.stdout
}

/// Current resource version of the store.
async fn revision(master: &Master) -> u64 {
    let version = kubectl(master, &["get", "--raw", "/api/v1/configmaps?limit=1"]).await;
    let list: serde_json::Value = serde_json::from_str(&version).unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn master_with_another_ca_refuses_a_used_etcd() {
    let etcd = Etcd::running().await;
    let mut first = etcd.master();
    first.start().await;
    let mut stranger = etcd.master();
    stranger.launch();
    assert_eq!(stranger.ended().await.code(), Some(1));
    let (printed, pki) = (stranger.log(), stranger.data_dir().join("pki"));
    assert!(printed.contains("another root authority and key of service accounts"), "{printed}");
    assert!(
        printed.contains(&format!("copy `pki` of one of these masters to {}", pki.display())),
        "{printed}"
    );
    let admin = first.data_dir().join("admin.kubeconfig");
    let token = async || match first.kubectl(&admin, &["create", "token", "default"]).await {
        made if made.code == 0 => Ok(made.stdout),
        early => Err(early.stderr),
    };
    let token = wait_until(DEADLINE, token).await.unwrap();
    // The steps in the error message are sufficient.
    for name in ["root.crt", "root.key", "intermediate.crt", "intermediate.key", "service-account.key"] {
        std::fs::copy(first.data_dir().join("pki").join(name), pki.join(name)).unwrap();
    }
    stranger.start().await;
    let review = stranger
        .client()
        .post(format!("https://127.0.0.1:{}/apis/authentication.k8s.io/v1/tokenreviews", stranger.port))
        .json(&serde_json::json!({"spec": {"token": token.trim()}}));
    let review: serde_json::Value = review.send().await.unwrap().json().await.unwrap();
    assert_eq!(review["status"]["authenticated"], true, "{review}");
}

#[tokio::test]
async fn master_that_waits_for_etcd_stops_on_a_signal() {
    let mut etcd = Etcd::running().await;
    etcd.kill();
    let (mut stays, mut stops) = (etcd.master(), etcd.master());
    for master in [&mut stays, &mut stops] {
        master.launch();
    }
    for master in [&stays, &stops] {
        let waits = async || match master.log() {
            log if log.contains("waiting for the etcd") => Ok(()),
            log => Err(log),
        };
        wait_until(DEADLINE, waits).await.unwrap();
    }
    assert!(stops.stop(Signal::TERM).await.success(), "{}", stops.log());
    etcd.start().await;
    let ready = async || match stays.send_request(&stays.client(), "/readyz").await? {
        (200, _) => Ok(()),
        (code, text) => Err(format!("{code} {text}")),
    };
    wait_until(DEADLINE, ready).await.unwrap_or_else(|seen| panic!("{seen}\n{}", stays.log()));
}

#[tokio::test]
async fn deleted_store_file_of_a_running_master_is_reported_and_recovered() {
    let mut master = Master::running().await;
    kubectl(&master, &["create", "configmap", "kept"]).await;
    std::fs::remove_dir_all(master.data_dir().join("store")).unwrap();
    let (code, text) = master.get_as_admin("/readyz").await;
    assert!(code == 500 && text.contains("[-]store-file failed"), "{code} {text}");
    assert_eq!(master.get_as_admin("/livez").await.0, 200);
    let check = master.verb(&["check"]).await;
    assert!(check.code == 1 && check.stdout.contains("run `master backup FILE` now"), "{check:?}");
    assert!(master.log().contains("was removed or replaced while it is in use"), "{}", master.log());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup").display().to_string();
    assert_eq!(master.verb(&["backup", &file]).await.code, 0);
    master.kill();
    assert_eq!(master.verb(&["restore", "--replace", &file]).await.code, 0);
    master.start().await;
    assert_eq!(kubectl(&master, &MINE).await, "configmap/kept\n");
}

#[tokio::test]
async fn missing_store_is_not_replaced_by_an_empty_one() {
    let mut master = Master::running().await;
    kubectl(&master, &["create", "configmap", "kept"]).await;
    master.kill();
    let (store, aside) = (master.data_dir().join("store"), master.data_dir().join("aside"));
    std::fs::rename(&store, &aside).unwrap();
    master.launch();
    assert!(!master.ended().await.success());
    let log = master.log();
    assert!(log.contains("store.redb is missing") && log.contains("master restore FILE"), "{log}");
    assert!(!store.join("store.redb").exists());
    // The file is restored.
    std::fs::rename(&aside, &store).unwrap();
    master.start().await;
    assert_eq!(kubectl(&master, &MINE).await, "configmap/kept\n");
    // The administrator allows an empty cluster.
    master.kill();
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::remove_file(master.data_dir().join("store.created")).unwrap();
    master.start().await;
    assert_eq!(kubectl(&master, &MINE).await, "");
    assert!(master.log().contains("the cluster starts empty"), "{}", master.log());
}

#[tokio::test]
async fn store_with_missing_service_account_keys_is_reported() {
    let mut master = Master::running().await;
    let expected_message = "the store was last served with another key of service accounts";
    master.kill();
    master.start().await;
    assert!(!master.log().contains(expected_message), "{}", master.log());
    master.kill();
    std::fs::remove_file(master.data_dir().join("pki/service-account.key")).unwrap();
    master.start().await;
    assert!(master.log().contains("WARN") && master.log().contains(expected_message), "{}", master.log());
    assert!(master.log().contains("file=\"service-account.key\""), "{}", master.log());
}

#[tokio::test]
async fn master_stores_its_objects_in_etcd() {
    let mut etcd = Etcd::running().await;
    let mut master = etcd.master();
    master.start().await;
    kubectl(&master, &["create", "configmap", "a", "--from-literal=k=v"]).await;
    kubectl(&master, &["label", "configmap", "a", "tier=one"]).await;
    let version = ["get", "configmap", "a", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"];
    let before = kubectl(&master, &version).await;
    assert!(!master.data_dir().join("store").exists(), "nothing lies in two places");
    // A second master on the same etcd serves the same objects, and the first serves its writes.
    let mut second = etcd.master_beside(&master);
    second.start().await;
    assert_eq!(kubectl(&second, &version).await, before);
    kubectl(&second, &["create", "configmap", "b"]).await;
    let look = async || {
        let names = kubectl(&master, &MINE).await;
        if names.contains("configmap/b") { Ok(()) } else { Err(names) }
    };
    wait_until(DEADLINE, look).await.unwrap();
    // Without etcd the master is unready; it reconnects when etcd is back.
    etcd.kill();
    let unready = async || {
        let (code, text) = master.get_as_admin("/readyz").await;
        if code == 500 && text.contains("[-]etcd failed") { Ok(()) } else { Err(text) }
    };
    wait_until(DEADLINE, unready).await.unwrap();
    assert_eq!(master.get_as_admin("/livez").await.0, 200, "a restart would mend nothing");
    etcd.start().await;
    let ready = async || match master.get_as_admin("/readyz").await {
        (200, _) => Ok(()),
        (_, text) => Err(text),
    };
    wait_until(DEADLINE, ready).await.unwrap();
    kubectl(&master, &["delete", "configmap", "b"]).await;
    master.kill();
    master.start().await;
    assert_eq!(kubectl(&master, &version).await, before);
}

#[tokio::test]
async fn namespace_created_on_one_master_is_visible_on_the_other_at_once() {
    let etcd = Etcd::running().await;
    let mut first = etcd.master();
    first.start().await;
    let mut second = etcd.master_beside(&first);
    second.start().await;
    let (at_first, at_second) = (first.client(), second.client());
    let url =
        |master: &Master, path: &str| format!("https://127.0.0.1:{}/api/v1/namespaces{path}", master.port);
    for number in 0..50 {
        let named = |name: String| serde_json::json!({"metadata": {"name": name}});
        let made = at_first.post(url(&first, "")).json(&named(format!("n{number}"))).send().await.unwrap();
        assert_eq!(made.status(), 201);
        let within = url(&second, &format!("/n{number}/configmaps"));
        let made = at_second.post(within).json(&named("a".to_owned())).send().await.unwrap();
        assert_eq!(made.status(), 201, "{}", made.text().await.unwrap());
    }
}

#[tokio::test]
async fn restore_recovers_the_objects_and_continues_the_revisions() {
    let mut master = Master::running().await;
    kubectl(&master, &["create", "configmap", "first", "--from-literal=k=v"]).await;
    kubectl(&master, &["create", "secret", "generic", "hidden", "--from-literal=p=q"]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup").display().to_string();
    let printed = master.verb(&["backup", &file]).await;
    assert!(printed.code == 0 && printed.stdout.contains("all objects of revision"), "{printed:?}");
    kubectl(&master, &["create", "configmap", "second"]).await;
    let newest = revision(&master).await;
    let running = master.verb(&["restore", &file]).await;
    assert!(running.code == 1 && running.stderr.contains("another master is running on"), "{running:?}");
    // Restore into a new directory.
    let mut fresh = Master::new();
    let restored = fresh.verb(&["restore", &file]).await;
    assert!(restored.code == 0, "{restored:?}");
    fresh.start().await;
    assert_eq!(kubectl(&fresh, &MINE).await, "configmap/first\n");
    let secret = ["get", "secret", "hidden", "-o", "jsonpath={.data.p}"];
    assert_eq!(kubectl(&fresh, &secret).await, "cQ==");
    assert!(revision(&fresh).await > newest, "resource versions never go back");
    kubectl(&fresh, &["label", "configmap", "first", "after=restore"]).await;
    // Restore over the old store, which is kept as a copy.
    assert!(master.stop(Signal::TERM).await.success());
    let there = master.verb(&["restore", &file]).await;
    assert!(there.code == 1 && there.stderr.contains("--replace"), "{there:?}");
    let replaced = master.verb(&["restore", "--replace", &file]).await;
    assert!(replaced.code == 0 && replaced.stdout.contains("The previous store is"), "{replaced:?}");
    master.start().await;
    assert_eq!(kubectl(&master, &MINE).await, "configmap/first\n");
    assert!(revision(&master).await > newest);
    let no_master = Master::new().verb(&["backup", &file]).await;
    assert!(no_master.code == 1 && no_master.stderr.contains("not overwritten"), "{no_master:?}");
}

#[tokio::test]
async fn backup_of_etcd_is_restored_into_a_store_file() {
    let etcd = Etcd::running().await;
    let mut master = etcd.master();
    master.start().await;
    kubectl(&master, &["create", "configmap", "moved"]).await;
    let newest = revision(&master).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup").display().to_string();
    let printed = master.verb(&["backup", &file]).await;
    assert!(printed.code == 0, "{printed:?}");
    let mut fresh = Master::new();
    assert_eq!(fresh.verb(&["restore", &file]).await.code, 0);
    fresh.start().await;
    assert_eq!(kubectl(&fresh, &MINE).await, "configmap/moved\n");
    assert!(revision(&fresh).await > newest);
}

#[tokio::test]
async fn damaged_store_is_rejected_with_a_remedy_and_not_changed() {
    let mut master = Master::running().await;
    kubectl(&master, &["create", "configmap", "a"]).await;
    assert!(master.stop(Signal::TERM).await.success());
    let file = master.data_dir().join("store/store.redb");
    let good = std::fs::read(&file).unwrap();
    let mut scribbled = good.clone();
    scribbled[..4096].fill(7);
    let text = b"apiVersion: v1\nkind: Pod\n".to_vec();
    for bytes in [good[..good.len() / 2].to_vec(), scribbled, text, Vec::new()] {
        std::fs::write(&file, &bytes).unwrap();
        let log_length = master.log().len();
        master.launch();
        assert_eq!(master.ended().await.code(), Some(1));
        let printed = master.log().split_off(log_length);
        let remedy = "is damaged or not a store";
        assert!(printed.contains(remedy) && printed.contains("restore a backup"), "{printed}");
        assert!(printed.contains(&file.display().to_string()), "{printed}");
        assert!(std::fs::read(&file).unwrap() == bytes, "it was touched");
    }
    std::fs::write(&file, &good).unwrap();
    master.start().await;
    assert_eq!(kubectl(&master, &MINE).await, "configmap/a\n");
}

#[tokio::test]
async fn heartbeats_are_visible_at_once_and_persisted_later() {
    let mut master = Master::running().await;
    let client = master.client();
    let url = format!(
        "https://127.0.0.1:{}/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        master.port
    );
    let lease = |number: u32| {
        serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n"},
            "spec": {"holderIdentity": "n", "renewTime": format!("2026-01-01T00:00:00.{number:06}Z")},
        })
    };
    assert_eq!(client.post(&url).json(&lease(0)).send().await.unwrap().status(), 201);
    let mut number = 0;
    let renew = async |number: &mut u32| {
        *number += 1;
        let answer = client.put(format!("{url}/n")).json(&lease(*number)).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let answer: serde_json::Value = answer.json().await.unwrap();
        answer["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let shown = async |master: &Master| {
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n";
        let (_, text) = master.get_as_admin(path).await;
        let lease: serde_json::Value = serde_json::from_str(&text).unwrap();
        lease["spec"]["renewTime"].as_str().unwrap().to_owned()
    };
    let time = |number: u32| format!("2026-01-01T00:00:00.{number:06}Z");
    let file = master.data_dir().join("store/store.redb");
    // Heartbeats are written together with the next other write. The leader election writes every two seconds, so
    // the file is compared around each heartbeat.
    let mut deferred = 0;
    while deferred < 20 {
        let before = std::fs::read(&file).unwrap();
        renew(&mut number).await;
        deferred += u32::from(std::fs::read(&file).unwrap() == before);
        assert_eq!(shown(&master).await, time(number));
        assert!(number < 200, "only {deferred} of {number} heartbeats are not written at once");
    }
    assert!(master.stop(Signal::TERM).await.success());
    master.start().await;
    assert_eq!(shown(&master).await, time(number), "a master that is stopped loses nothing");
    let newest = renew(&mut number).await;
    master.kill();
    master.start().await;
    assert!(revision(&master).await >= newest, "resource versions never go back");
    assert!(shown(&master).await <= time(number));
    assert!(renew(&mut number).await > newest);
}

#[tokio::test]
async fn metrics_count_requests_and_objects() {
    let master = Master::running().await;
    kubectl(&master, &["create", "configmap", "a"]).await;
    let metrics = kubectl(&master, &["get", "--raw", "/metrics"]).await;
    for expected in [
        "apiserver_request_total{code=\"201\"",
        "apiserver_request_duration_seconds_bucket{",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1",
        "apiserver_storage_objects{resource=\"configmaps\"} ",
        "etcd_request_duration_seconds_count{operation=\"create\",group=\"\",resource=\"configmaps\"} ",
        "process_resident_memory_bytes ",
    ] {
        assert!(metrics.contains(expected), "{expected}\n{metrics}");
    }
    let ready = kubectl(&master, &["get", "--raw", "/readyz?verbose"]).await;
    assert!(ready.contains("[+]etcd ok"), "{ready}");
}
