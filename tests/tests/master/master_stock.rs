//! What a fresh cluster contains and how it treats workloads, compared with a stock server.
use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::{DEADLINE, Master, Output, wait_until};

async fn run(master: &Master, arguments: &[&str]) -> Output {
    master.kubectl(&master.data_dir().join("admin.kubeconfig"), arguments).await
}

async fn ok(master: &Master, arguments: &[&str]) -> String {
    let output = run(master, arguments).await;
    assert_eq!(output.code, 0, "{arguments:?}: {output:?}");
    output.stdout
}

async fn get(master: &Master, arguments: &[&str]) -> Value {
    let arguments = [&["get", "-o", "json"], arguments].concat();
    serde_json::from_str(&ok(master, &arguments).await).unwrap()
}

async fn create(master: &Master, object: &Value) -> Output {
    let file = master.data_dir().join("object.json");
    std::fs::write(&file, object.to_string()).unwrap();
    run(master, &["create", "--validate=false", "-f", file.to_str().unwrap()]).await
}

/// Objects of a kind as `namespace/name`, or as `name` if cluster-scoped.
async fn names(master: &Master, kind: &str) -> BTreeSet<String> {
    let list = get(master, &[kind, "--all-namespaces"]).await;
    let name = |item: &Value| {
        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        if namespace.is_empty() { name } else { format!("{namespace}/{name}") }
    };
    list["items"].as_array().unwrap().iter().map(name).collect()
}

/// By kind, the output of `kubectl get --all-namespaces` on a new stock cluster. Roles, bindings, flow control and
/// APIServices have separate unit tests.
const FRESH: &[(&str, &[&str])] = &[
    ("namespaces", &["default", "kube-node-lease", "kube-public", "kube-system"]),
    (
        "configmaps",
        &[
            "default/kube-root-ca.crt",
            "kube-node-lease/kube-root-ca.crt",
            "kube-public/kube-root-ca.crt",
            "kube-system/extension-apiserver-authentication",
            "kube-system/kube-apiserver-legacy-service-account-token-tracking",
            "kube-system/kube-root-ca.crt",
        ],
    ),
    (
        "serviceaccounts",
        &["default/default", "kube-node-lease/default", "kube-public/default", "kube-system/default"],
    ),
    ("priorityclasses", &["system-cluster-critical", "system-node-critical"]),
    (
        "flowschemas",
        &[
            "catch-all",
            "endpoint-controller",
            "exempt",
            "global-default",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-system-service-accounts",
            "probes",
            "service-accounts",
            "system-leader-election",
            "system-node-high",
            "system-nodes",
            "workload-leader-election",
        ],
    ),
    (
        "prioritylevelconfigurations",
        &[
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low",
        ],
    ),
    ("services", &["default/kubernetes"]),
    ("servicecidrs", &["kubernetes"]),
    ("ipaddresses", &["10.96.0.1"]),
    ("secrets", &[]),
    ("pods", &[]),
    ("persistentvolumes", &[]),
    // Our own class; a stock server has none.
    ("storageclasses", &["local-path"]),
    ("runtimeclasses", &[]),
    ("ingressclasses", &[]),
    ("customresourcedefinitions", &[]),
];

#[tokio::test]
async fn a_fresh_cluster_has_the_objects_of_a_stock_one() {
    let master = Master::running().await;
    for (kind, expected) in FRESH {
        let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        let are_there = async || match names(&master, kind).await {
            found if found == expected => Ok(()),
            found => Err(format!("{kind}: {found:?}, expected {expected:?}")),
        };
        wait_until(DEADLINE, are_there).await.unwrap();
    }
    // A lease of the API server and one of the controllers; masters of tests run without the scheduler.
    let leases = async || {
        let found = names(&master, "leases").await;
        let is_known = |name: &&String| {
            !["kube-system/kube-controller-manager", "kube-system/kube-scheduler"].contains(&name.as_str())
        };
        let others: Vec<&String> = found.iter().filter(is_known).collect();
        match &others[..] {
            [one] if one.starts_with("kube-system/apiserver-") && found.len() == 2 => Ok(()),
            _ => Err(format!("{found:?}")),
        }
    };
    wait_until(DEADLINE, leases).await.unwrap();
    let server = get(
        &master,
        &["leases", "-n", "kube-system", "-l", "apiserver.kubernetes.io/identity=kube-apiserver"],
    )
    .await;
    assert_eq!(server["items"][0]["spec"]["leaseDurationSeconds"], 3600, "{server}");

    let address = get(&master, &["ipaddress", "10.96.0.1"]).await;
    assert_eq!(
        (&address["spec"]["parentRef"]["resource"], &address["spec"]["parentRef"]["name"]),
        (&json!("services"), &json!("kubernetes")),
    );
}

#[tokio::test]
async fn ip_address_objects_follow_their_service() {
    let master = Master::running().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 80}]},
    });
    assert_eq!(create(&master, &service).await.code, 0);
    let there = async |expected: bool| {
        let look = async || match names(&master, "ipaddresses").await {
            found if found.contains("10.96.7.7") == expected => Ok(()),
            found => Err(format!("{found:?}")),
        };
        wait_until(DEADLINE, look).await.unwrap();
    };
    there(true).await;
    ok(&master, &["delete", "ipaddress", "10.96.7.7", "--wait=false"]).await;
    there(true).await;
    ok(&master, &["delete", "service", "web"]).await;
    there(false).await;
}

#[tokio::test]
async fn flow_schema_condition_reports_a_missing_priority_level() {
    const CONDITION: &str = "jsonpath={.status.conditions[?(@.type=='Dangling')].reason}";
    let master = Master::running().await;
    let shows = async |name: &str, expected: &str| {
        let look = async || match run(&master, &["get", "flowschema", name, "-o", CONDITION]).await {
            found if found.stdout == expected => Ok(()),
            found => Err(format!("{name}: {found:?}")),
        };
        wait_until(DEADLINE, look).await.unwrap();
    };
    for suggested in ["exempt", "service-accounts", "catch-all"] {
        shows(suggested, "Found").await;
    }
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "miners"},
        "spec": {"priorityLevelConfiguration": {"name": "gold"}},
    });
    assert_eq!(create(&master, &schema).await.code, 0);
    shows("miners", "NotFound").await;
    let table = ok(&master, &["get", "flowschema", "miners"]).await;
    assert!(table.lines().last().unwrap().trim_end().ends_with("True"), "{table}");
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "gold"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    });
    assert_eq!(create(&master, &level).await.code, 0);
    shows("miners", "Found").await;
    ok(&master, &["delete", "prioritylevelconfiguration", "gold"]).await;
    shows("miners", "NotFound").await;
}

#[tokio::test]
async fn authentication_config_map_contains_the_client_and_front_proxy_cas() {
    const MAP: [&str; 4] = ["configmap", "extension-apiserver-authentication", "-n", "kube-system"];
    let master = Master::running().await;
    let data = async || {
        let found = run(&master, &[&["get", "-o", "json"], &MAP[..]].concat()).await;
        if found.code != 0 {
            return Err(found.stderr);
        }
        Ok(serde_json::from_str::<Value>(&found.stdout).unwrap()["data"].clone())
    };
    let published = wait_until(DEADLINE, data).await.unwrap();
    for key in ["client-ca-file", "requestheader-client-ca-file"] {
        assert!(published[key].as_str().unwrap().starts_with("-----BEGIN CERTIFICATE-----"), "{published}");
    }
    assert_eq!(published["requestheader-username-headers"], "[\"X-Remote-User\"]");

    // After an edit or a deletion, the controller restores it.
    ok(&master, &[&["patch"], &MAP[..], &["-p", "{\"data\":{\"client-ca-file\":\"mine\"}}"]].concat()).await;
    let is_back = async || match data().await {
        Ok(found) if found == published => Ok(()),
        found => Err(format!("{found:?}")),
    };
    wait_until(DEADLINE, is_back).await.unwrap();
    ok(&master, &[&["delete"], &MAP[..]].concat()).await;
    wait_until(DEADLINE, async || {
        // The front-proxy CA is a different one then.
        match data().await {
            Ok(found) if found["client-ca-file"] == published["client-ca-file"] => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await
    .unwrap();

    // Only the Role permits reading it.
    for (user, expected) in [("system:kube-scheduler", 0), ("system:kube-controller-manager", 0), ("joe", 1)]
    {
        let read = [&["get", "--as", user], &MAP[..]].concat();
        let read = run(&master, &read).await;
        assert_eq!(read.code, expected, "{user}: {read:?}");
    }
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    })
}

fn controller() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "work", "namespace": "default"},
        "spec": {"selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    })
}

/// Creates an owner and a pod that it owns.
async fn owner_with_pod(master: &Master, kind: &str, owner: &Value, pod: &str) {
    assert_eq!(create(master, owner).await.code, 0);
    let uid = get(master, &[kind, "work"]).await["metadata"]["uid"].clone();
    let owner = json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "work", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": pod, "namespace": "default", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(create(master, &pod).await.code, 0);
}

#[tokio::test]
async fn pods_of_jobs_and_replication_controllers_are_orphaned_by_default() {
    // The ReplicationController controller would release pods that do not match the selector.
    let master = Master::without_workloads().await;
    master.until_account("default").await;
    for (kind, owner, path, warning) in [
        (
            "job",
            job(),
            "/apis/batch/v1/namespaces/default/jobs/work",
            "child pods are preserved by default when jobs",
        ),
        ("rc", controller(), "/api/v1/namespaces/default/replicationcontrollers/work", ""),
    ] {
        let pod = format!("{kind}-kept");
        owner_with_pod(&master, kind, &owner, &pod).await;
        let deleted = run(&master, &["delete", "--raw", path]).await;
        assert_eq!(deleted.code, 0, "{deleted:?}");
        assert!(deleted.stderr.contains(warning), "{deleted:?}");
        let orphaned = async || {
            let owner = run(&master, &["get", kind, "work"]).await;
            let pod = get(&master, &["pod", &pod]).await;
            let is_free = pod["metadata"].get("ownerReferences").is_none();
            if owner.code != 0 && is_free { Ok(()) } else { Err(format!("{owner:?} {pod}")) }
        };
        wait_until(DEADLINE, orphaned).await.unwrap();
        assert!(get(&master, &["pod", &pod]).await["metadata"].get("deletionTimestamp").is_none());

        // kubectl selects the deletion propagation.
        let pod = format!("{kind}-gone");
        owner_with_pod(&master, kind, &owner, &pod).await;
        let deleted = run(&master, &["delete", kind, "work"]).await;
        assert!(deleted.code == 0 && !deleted.stderr.contains("preserved"), "{deleted:?}");
        let gone = async || match run(&master, &["get", "pod", &pod]).await {
            found if found.code != 0 => Ok(()),
            found => Err(found.stdout),
        };
        wait_until(DEADLINE, gone).await.unwrap();
    }
}

#[tokio::test]
async fn workload_without_a_controller_gives_a_warning_until_a_stock_manager_leads() {
    const WARNING: &str = "no controller acts on this";
    let mut master = Master::new().with_flags(["--controllers", "*,-job-controller"]);
    master.start().await;
    let created = create(&master, &job()).await;
    assert!(created.code == 0 && created.stderr.contains(WARNING), "{created:?}");
    let deployment = ["create", "deployment", "web", "--image=i"];
    let created = run(&master, &deployment).await;
    assert!(created.code == 0 && !created.stderr.contains(WARNING), "{created:?}");
    drop(master);

    // A master that signs certificates only leaves the lease to a stock controller manager.
    let controllers = "certificatesigningrequest-approving-controller,certificatesigningrequest-signing-controller,\
                       certificatesigningrequest-cleaner-controller,node-trust-controller,node-ipam-controller,\
                       event-ttl-controller";
    let mut master = Master::new().with_flags(["--controllers", controllers]);
    master.start().await;
    let leads = async || match names(&master, "leases").await {
        found if found.contains("kube-system/coracle-master-controllers") => Ok(()),
        found => Err(format!("{found:?}")),
    };
    wait_until(DEADLINE, leads).await.unwrap();
    assert!(!names(&master, "leases").await.contains("kube-system/kube-controller-manager"));
    let now = jiff::Timestamp::now();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "host_5f0c", "leaseDurationSeconds": 15, "renewTime": format!("{now:.6}")},
    });
    assert_eq!(create(&master, &lease).await.code, 0);
    let created = run(&master, &deployment).await;
    assert!(created.code == 0 && !created.stderr.contains(WARNING), "{created:?}");
}
