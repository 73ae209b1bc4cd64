//! An upgrade: both programs take over the state and the running pods of an earlier version.
//!
//! `tests/fixtures/upgrade/README.md` explains the recorded state.

mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::manifest::sleeper;
use tests::{DEADLINE, Master, World, wait_until};

use fixture::Fixture;

/// The recorded CSRs and events are older than their TTL, so the controllers that delete them are off.
const CONTROLLERS: &str =
    "--controllers=*,-event-ttl-controller,-certificatesigningrequest-cleaner-controller";

#[tokio::test]
async fn upgrade_keeps_state_in_a_file() {
    let fixture = Fixture::unpack("embedded").await;
    let master = fixture.master(&[CONTROLLERS]);
    takes_over(fixture, master).await;
}

#[tokio::test]
async fn upgrade_keeps_state_in_etcd() {
    let fixture = Fixture::unpack("etcd").await;
    let etcd = tests::Etcd::on_data(&fixture.world.path("etcd")).await;
    let master = fixture.master(&[CONTROLLERS, "--storage", "etcd", "--etcd-servers", &etcd.url()]);
    takes_over(fixture, master).await;
}

/// Starts both programs on the recorded state, and asserts that nothing restarts, is lost or joins again.
async fn takes_over(mut fixture: Fixture, mut master: Master) {
    let data_dir = master.data_dir();
    let keys = ["root.crt", "root.key", "intermediate.crt", "intermediate.key", "service-account.key"];
    let master_keys = || keys.map(|name| fs::read(data_dir.join("pki").join(name)).unwrap());
    let keys_before = master_keys();
    fixture.create_containers(&master.port.to_string()).await;
    let identity_before = identity(&fixture.world);
    assert!(identity_before.len() >= 3, "{:?}", identity_before.keys());
    let containers_before = fixture.world.containers().await;
    assert!(containers_before.iter().filter(|container| container.is_running()).count() >= 7);

    master.start().await;
    let line = master.join_line().await;
    let cluster = ["--node-ip", "127.0.0.1", "--pod-network", "native", "--bootstrap", line.as_str()];
    fixture.world.set_flags(cluster);
    fixture.world.start().await;
    for name in ["web", "restarted"] {
        fixture.world.wait_ready(name).await;
    }
    fixture.world.wait_for_pod("job", "to be done", |pod| pod.phase() == "Succeeded").await;
    // A pod that is added later shows that the new kubelet works and could have changed the old pods by now.
    fixture.world.write("later.yaml", &sleeper("later"));
    fixture.world.wait_ready("later").await;

    let later = fixture.world.pod_name("later");
    let mut containers = fixture.world.containers().await;
    containers.retain(|container| container.pod != later);
    assert_eq!(containers, containers_before, "no container is restarted, replaced or removed");
    pods_are_the_same(&fixture, &master.port.to_string()).await;
    objects_are_the_same(&fixture, &master, &later).await;
    assert_eq!(identity(&fixture.world), identity_before, "the node keeps its key and certificate");
    assert_eq!(master_keys(), keys_before, "the master keeps its keys");

    // The same holds when both are stopped and started with the state that they have written.
    fixture.world.stop().await;
    master.stop(Signal::TERM).await;
    master.start().await;
    fixture.world.start().await;
    fixture.world.wait_ready("web").await;
    objects_are_the_same(&fixture, &master, &later).await;
    let mut containers = fixture.world.containers().await;
    containers.retain(|container| container.pod != later);
    assert_eq!(containers, containers_before);
}

/// The files with which a node proves its identity to the cluster, by name. The serving certificate is not among them.
fn identity(world: &World) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in ["kubeconfig", "node", "pki/kubelet-client-current.pem"] {
        found.insert(name.to_owned(), fs::read(world.root_dir().join(name)).unwrap());
    }
    found
}

/// Asserts that the node serves the recorded pods and events, with the same start times, addresses and restart counts.
async fn pods_are_the_same(fixture: &Fixture, master_port: &str) {
    let facts = |pod: &Value| {
        let statuses = ["initContainerStatuses", "containerStatuses"].map(|of| pod["status"][of].as_array());
        let restarts: BTreeMap<String, i64> = statuses
            .into_iter()
            .flatten()
            .flatten()
            .map(|status| (status["name"].to_string(), status["restartCount"].as_i64().unwrap()))
            .collect();
        let of = |pointer: &str| pod.pointer(pointer).cloned().unwrap_or_default();
        let start = of("/status/startTime");
        (of("/metadata/uid"), of("/status/phase"), start, of("/status/podIP"), restarts)
    };
    let recorded = fixture.list("pods.json", master_port);
    assert!(recorded.len() >= 4);
    let look = async || {
        let pods = fixture.world.pods().await?;
        for pod in &recorded {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let found =
                pods.iter().find(|found| found.name() == name).ok_or_else(|| format!("{name} is lost"))?;
            if facts(&found.0) != facts(pod) {
                return Err(format!("{name} was {:?} and is {:?}", facts(pod), facts(&found.0)));
            }
        }
        Ok(())
    };
    fixture.world.wait_for("the pods to be as before", look).await;

    let seen = |events: &[Value]| -> BTreeSet<String> {
        let key =
            |event: &Value| format!("{} {} {}", event["metadata"]["name"], event["reason"], event["message"]);
        events.iter().map(key).collect()
    };
    let (before, after) =
        (fixture.list("events.json", master_port), fixture.world.get("events").await.unwrap());
    let (before, after) = (seen(&before), seen(&after));
    assert!(before.len() >= 10 && after.is_superset(&before), "{:#?}", before.difference(&after));
}

/// Waits until the master serves the recorded objects again, apart from status and bookkeeping.
async fn objects_are_the_same(fixture: &Fixture, master: &Master, later: &str) {
    let resources = fixture.text("resources");
    let admin = master.data_dir().join("admin.kubeconfig");
    let recorded = by_key(&fixture.list("served.json", &master.port.to_string()));
    assert!(recorded.len() > 100, "{} objects", recorded.len());
    let look = async || {
        let arguments = ["get", resources.trim(), "--all-namespaces", "--output", "json"];
        let output = master.kubectl(&admin, &arguments).await;
        if output.code != 0 {
            return Err(output.stderr);
        }
        let list: Value = serde_json::from_str(&output.stdout).unwrap();
        let now = by_key(list["items"].as_array().unwrap());
        for (key, before) in &recorded {
            let after = now.get(key).ok_or_else(|| format!("{key} is lost"))?;
            if after != before {
                return Err(format!("{key} was {before:#} and is {after:#}"));
            }
        }
        // A node that joins again requests a certificate, and a pod that is replaced has another name or UID.
        let is_new = |key: &&String| !recorded.contains_key(*key) && !key.contains(later);
        let of_node = |key: &&String| {
            ["CertificateSigningRequest ", "Node ", "Pod "].iter().any(|kind| key.starts_with(kind))
        };
        let new: Vec<&String> = now.keys().filter(is_new).filter(of_node).collect();
        if new.is_empty() { Ok(()) } else { Err(format!("{new:?} are new")) }
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", master.log()));
}

/// The objects by kind, namespace and name, without what a running cluster keeps changing.
fn by_key(objects: &[Value]) -> BTreeMap<String, Value> {
    let reduced = objects.iter().map(|object| {
        let mut object = object.clone();
        let (kind, metadata) = (object["kind"].as_str().unwrap().to_owned(), &mut object["metadata"]);
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let key = format!("{kind} {}/{}", text("namespace"), text("name"));
        let is_default = metadata["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults";
        let uid = json!({"uid": metadata["uid"]});
        // The generation changes with the port of the master in the Service `kubernetes`.
        for field in ["resourceVersion", "managedFields", "generation"] {
            metadata.as_object_mut().unwrap().remove(field);
        }
        // The earlier version had neither a Deployment controller nor `local-path` volumes.
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            for new in [
                "deployment.kubernetes.io/revision",
                "coracle.io/local-path-class-created",
                "kubelet.coracle.io/local-path-directory",
            ] {
                annotations.remove(new);
            }
            if annotations.is_empty() {
                metadata.as_object_mut().unwrap().remove("annotations");
            }
        }
        object.as_object_mut().unwrap().remove("status");
        let object = match kind.as_str() {
            // Leases are renewed, and repeated events are counted. New versions add permissions to default roles.
            "Lease" | "Event" => uid,
            // Pod CIDRs that are reserved for a minute.
            "ConfigMap" if key.ends_with("/pod-ranges-promised") => uid,
            _ if is_default => uid,
            _ => object,
        };
        (key, object)
    });
    reduced.collect()
}
