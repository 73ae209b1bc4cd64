//! PersistentVolumeClaims on a real node: static hostPath volumes, volumes of the class `local-path`, and protection.

use serde_json::{Value, json};
use tests::wait_until;

use crate::node::{Node, path, shell, with};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASS: &str = "/apis/storage.k8s.io/v1/storageclasses/local-path";

/// A pod that runs a script with the claim at `/data`, and then sleeps.
fn pod(claim: &str, script: &str) -> Value {
    let script = format!("{script}; trap 'exit 0' TERM; sleep 3600 & wait");
    let main = with(shell(&script), &json!({"volumeMounts": [{"name": "v", "mountPath": "/data"}]}));
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    json!({"spec": {"containers": [main], "volumes": [volume]}})
}

fn claim(name: &str, spec: &Value) -> Value {
    let size = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    json!({"metadata": {"name": name}, "spec": with(size, spec)})
}

async fn delete_pod(node: &Node, name: &str) {
    node.cluster.delete(&path(name)).await.is(200);
    node.cluster.gone(&path(name)).await;
}

#[tokio::test]
async fn a_static_volume_keeps_its_data_between_pods() {
    let node = Node::running("static-claims").await;
    let directory = tempfile::tempdir().unwrap();
    // The pod waits while the claim is not bound.
    node.cluster.post(CLAIMS, &claim("data", &json!({"storageClassName": ""}))).await.is(201);
    let write = "echo kept > /data/file; cat /data/file";
    node.make("writer", pod("data", write)).await;
    node.cluster.until_events("writer", |reasons| reasons.contains(&"FailedMount")).await;
    node.cluster.until_events("data", |reasons| reasons.contains(&"FailedBinding")).await;
    let volume = json!({
        "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "hostPath": {"path": directory.path()},
        },
    });
    node.cluster.post(VOLUMES, &volume).await.is(201);
    let bound =
        node.cluster.until(&format!("{CLAIMS}/data"), |claim| claim["status"]["phase"] == "Bound").await;
    assert_eq!(bound["spec"]["volumeName"], "disk");
    assert_eq!(bound["status"]["capacity"]["storage"], "2Gi");
    assert_eq!(bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(bound["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    node.log_until("writer", "main", "the data", |log| log == "kept\n").await;
    assert_eq!(std::fs::read_to_string(directory.path().join("file")).unwrap(), "kept\n");
    delete_pod(&node, "writer").await;

    let mut reader = pod("data", "cat /data/file; touch /data/file || echo read-only");
    reader["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = json!(true);
    node.make("reader", reader).await;
    node.log_until("reader", "main", "the data", |log| log.contains("kept\n") && log.contains("read-only"))
        .await;

    // A claim in use is not deleted, and a volume with reclaim policy Retain keeps its data.
    let own = format!("{CLAIMS}/data");
    node.cluster.delete(&own).await.is(200);
    node.cluster.until(&own, |claim| !claim["metadata"]["deletionTimestamp"].is_null()).await;
    node.make("late", pod("data", "true")).await;
    node.cluster.until_events("late", |reasons| reasons.contains(&"FailedMount")).await;
    assert_eq!(node.cluster.get(&own).await.code, 200);
    delete_pod(&node, "late").await;
    delete_pod(&node, "reader").await;
    node.cluster.gone(&own).await;
    let disk = format!("{VOLUMES}/disk");
    node.cluster.until(&disk, |volume| volume["status"]["phase"] == "Released").await;
    assert_eq!(std::fs::read_to_string(directory.path().join("file")).unwrap(), "kept\n");
    node.cluster.delete(&disk).await.is(200);
    node.cluster.gone(&disk).await;
}

#[tokio::test]
async fn a_local_path_volume_lives_as_long_as_its_claim() {
    let node = Node::scheduled("local-claims").await;
    let class = node.cluster.until(CLASS, |_| true).await;
    assert_eq!(class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"], "true");
    // A claim without a class gets the default class.
    let made = node.cluster.post(CLAIMS, &claim("data", &json!({}))).await.is(201);
    assert_eq!(made["spec"]["storageClassName"], "local-path");
    node.cluster.until_events("data", |reasons| reasons.contains(&"WaitForFirstConsumer")).await;
    let scheduled = |script: &str| {
        let mut pod = pod("data", script);
        pod["spec"]["nodeName"] = json!("");
        pod
    };
    node.make("writer", scheduled("echo kept > /data/file; cat /data/file")).await;
    node.log_until("writer", "main", "the data", |log| log == "kept\n").await;
    let own = format!("{CLAIMS}/data");
    let bound = node.cluster.until(&own, |claim| claim["status"]["phase"] == "Bound").await;
    let annotations = &bound["metadata"]["annotations"];
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], node.world.node.as_str());
    let volume = format!("{VOLUMES}/{}", bound["spec"]["volumeName"].as_str().unwrap());
    let object = node.cluster.until(&volume, |volume| volume["status"]["phase"] == "Bound").await;
    assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    let data = std::path::PathBuf::from(object["spec"]["local"]["path"].as_str().unwrap());
    assert!(data.starts_with(node.world.root_dir()), "{}", data.display());
    node.cluster.until_events("data", |reasons| reasons.contains(&"ProvisioningSucceeded")).await;
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    node.cluster.patch(&own, &larger).await.refuses(403, "only dynamically provisioned pvc can be resized");
    delete_pod(&node, "writer").await;

    // Another pod finds the data.
    node.make("reader", scheduled("cat /data/file")).await;
    node.log_until("reader", "main", "the data", |log| log == "kept\n").await;

    // The claim waits for the pod; then volume and data go.
    node.cluster.delete(&own).await.is(200);
    node.cluster.until(&own, |claim| !claim["metadata"]["deletionTimestamp"].is_null()).await;
    assert!(data.join("file").exists());
    delete_pod(&node, "reader").await;
    node.cluster.gone(&own).await;
    node.cluster.gone(&volume).await;
    let look = async || if data.exists() { Err(data.display().to_string()) } else { Ok(()) };
    wait_until(tests::DEADLINE, look).await.unwrap();

    // The class is created once.
    node.cluster.delete(CLASS).await.is(200);
    node.cluster.gone(CLASS).await;
    let namespace = node.cluster.get("/api/v1/namespaces/kube-system").await.is(200);
    assert_eq!(namespace["metadata"]["annotations"]["coracle.io/local-path-class-created"], "true");
}

#[tokio::test]
async fn a_pending_claim_gets_a_default_class_that_is_created_later() {
    let node = Node::running("default-class").await;
    let is_default = |value: Value| json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": value}}});
    node.cluster.until(CLASS, |_| true).await;
    node.cluster.patch(CLASS, &is_default(Value::Null)).await.is(200);
    node.cluster.post(CLAIMS, &claim("early", &json!({}))).await.is(201);
    node.cluster.until_events("early", |reasons| reasons.contains(&"FailedBinding")).await;
    node.cluster.patch(CLASS, &is_default("true".into())).await.is(200);
    node.cluster.until_events("early", |reasons| reasons.contains(&"WaitForFirstConsumer")).await;
    let found = node.cluster.get(&format!("{CLAIMS}/early")).await.is(200);
    assert_eq!(found["spec"]["storageClassName"], "local-path");
}

#[tokio::test]
async fn a_pod_is_scheduled_to_the_node_of_a_static_local_volume() {
    let node = Node::scheduled("waiting-claims").await;
    let directory = tempfile::tempdir().unwrap();
    let class = json!({
        "metadata": {"name": "disks"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    node.cluster.post("/apis/storage.k8s.io/v1/storageclasses", &class).await.is(201);
    node.cluster.post(CLAIMS, &claim("data", &json!({"storageClassName": "disks"}))).await.is(201);
    let mut waiting = pod("data", "echo here > /data/file; cat /data/file");
    waiting["spec"]["nodeName"] = json!("");
    node.make("waiting", waiting).await;
    node.cluster.until_events("waiting", |reasons| reasons.contains(&"FailedScheduling")).await;
    let of = |name: &str, hostname: &str, size: &str| {
        let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]});
        json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "disks",
                "local": {"path": directory.path()},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        })
    };
    let here =
        node.object().await["metadata"]["labels"]["kubernetes.io/hostname"].as_str().unwrap().to_owned();
    // The smaller one is on a node that does not exist.
    node.cluster.post(VOLUMES, &of("elsewhere", "elsewhere", "1Gi")).await.is(201);
    node.cluster.post(VOLUMES, &of("here", &here, "3Gi")).await.is(201);
    node.log_until("waiting", "main", "the data", |log| log == "here\n").await;
    let bound =
        node.cluster.until(&format!("{CLAIMS}/data"), |claim| claim["status"]["phase"] == "Bound").await;
    assert_eq!(bound["spec"]["volumeName"], "here");
    node.cluster
        .until(&format!("{VOLUMES}/elsewhere"), |volume| volume["status"]["phase"] == "Available")
        .await;
}
