//! The lifecycle of an object of any kind: discovery, create, get, watch, update, status update, delete, delete collection.

use serde_json::{Value, json};
use tests::{DEADLINE, wait_until};

use crate::cluster::Cluster;

/// A resource and the parameters of its lifecycle test.
pub struct Kind {
    pub group: &'static str,
    pub resource: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    pub names: [&'static str; 3],
    /// The object without its name.
    pub object: Value,
    /// The value for its status, if it has one.
    pub status: Option<Value>,
}

impl Kind {
    /// A cluster-scoped kind with arbitrary names and no status.
    pub fn new(group: &'static str, resource: &'static str, kind: &'static str, object: Value) -> Self {
        let names = ["life-a", "life-b", "life-c"];
        Self { group, resource, kind, namespaced: false, names, object, status: None }
    }

    /// The kind is namespaced.
    pub fn in_namespaces(mut self) -> Self {
        self.namespaced = true;
        self
    }

    /// The test sets this status.
    pub fn status(mut self, status: Value) -> Self {
        self.status = Some(status);
        self
    }

    /// The names of the test's objects.
    pub fn names(mut self, names: [&'static str; 3]) -> Self {
        self.names = names;
        self
    }

    fn version(&self) -> String {
        if self.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/v1", self.group) }
    }

    fn object(&self, name: &str) -> Value {
        let api_version = if self.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", self.group) };
        let mut object = self.object.clone();
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(self.kind);
        object["metadata"] = json!({"name": name, "labels": {"life": self.resource}});
        object
    }
}

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Resources for which a status update changes no metadata.
const BARE_STATUS: [&str; 6] = [
    "flowschemas",
    "prioritylevelconfigurations",
    "resourceclaims",
    "servicecidrs",
    "validatingadmissionpolicies",
    "volumeattachments",
];

/// Runs the lifecycle test for these kinds, in an existing namespace.
pub async fn live(cluster: &Cluster, namespace: &str, kinds: Vec<Kind>) {
    for kind in kinds {
        found(cluster, &kind).await;
        lives(cluster, namespace, &kind).await;
    }
}

/// Asserts that discovery has the group, the version, the resource with all its verbs, and its status subresource.
async fn found(cluster: &Cluster, kind: &Kind) {
    if !kind.group.is_empty() {
        let groups = cluster.get("/apis").await.is(200);
        let named = |group: &&Value| group["name"] == kind.group;
        let group = groups["groups"].as_array().unwrap().iter().find(named).expect(kind.group);
        let version = json!({"groupVersion": format!("{}/v1", kind.group), "version": "v1"});
        assert!(group["versions"].as_array().unwrap().contains(&version), "{group}");
        let alone = cluster.get(&format!("/apis/{}", kind.group)).await.is(200);
        assert!(
            alone["kind"] == "APIGroup" && alone["versions"].as_array().unwrap().contains(&version),
            "{alone}"
        );
    }
    let resources = cluster.get(&kind.version()).await.is(200);
    let resources = resources["resources"].as_array().unwrap();
    let named = |name: String| resources.iter().find(|resource| resource["name"] == name);
    let resource = named(kind.resource.to_owned()).expect(kind.resource);
    assert_eq!((&resource["kind"], &resource["namespaced"]), (&json!(kind.kind), &json!(kind.namespaced)));
    let verbs = resource["verbs"].as_array().unwrap();
    assert!(VERBS.iter().all(|verb| verbs.contains(&json!(verb))), "{resource}");
    assert!(
        kind.status.is_none() || named(format!("{}/status", kind.resource)).is_some(),
        "{}",
        kind.resource
    );
}

async fn lives(cluster: &Cluster, namespace: &str, kind: &Kind) {
    let version = kind.version();
    let all = format!("{version}/{}", kind.resource);
    let here = if kind.namespaced {
        format!("{version}/namespaces/{namespace}/{}", kind.resource)
    } else {
        all.clone()
    };
    let selected = format!("{here}?labelSelector=life={}", kind.resource);
    let mut watch =
        cluster.watch(&format!("{selected}&resourceVersion={}", cluster.revision(&here).await)).await;

    let [first, second, _] = kind.names;
    for name in kind.names {
        let made = cluster.post(&here, &kind.object(name)).await.is(201);
        assert!(
            made["metadata"]["uid"].is_string() && made["metadata"]["creationTimestamp"].is_string(),
            "{made}"
        );
        let path = format!("{here}/{name}");
        assert_eq!(cluster.get(&path).await.is(200)["metadata"]["uid"], made["metadata"]["uid"]);
        watch.comes_to("ADDED", name).await;
        cluster.post(&here, &kind.object(name)).await.refuses(409, "already exists");
    }
    assert_eq!(cluster.names(&selected).await, sorted(kind));
    assert_eq!(cluster.names(&format!("{all}?labelSelector=life={}", kind.resource)).await, sorted(kind));

    let path = format!("{here}/{first}");
    let patched =
        cluster.patch(&path, &json!({"metadata": {"annotations": {"patched": "true"}}})).await.is(200);
    assert_eq!(patched["metadata"]["annotations"]["patched"], "true");
    watch.until("MODIFIED", |object| object["metadata"]["annotations"]["patched"] == "true").await;
    cluster.update(&path, |object| object["metadata"]["annotations"]["updated"] = json!("true")).await;
    watch.until("MODIFIED", |object| object["metadata"]["annotations"]["updated"] == "true").await;
    let stale = cluster.put(&path, &patched).await;
    stale.refuses(409, "the object has been modified");

    if let Some(status) = &kind.status {
        changes_status(cluster, &path, status, !BARE_STATUS.contains(&kind.resource)).await;
    }

    cluster.delete(&path).await;
    cluster.gone(&path).await;
    assert_eq!(watch.comes_to("DELETED", first).await["metadata"]["uid"], patched["metadata"]["uid"]);
    cluster.send("DELETE", &selected, &[], "").await.is(200);
    cluster.gone(&format!("{here}/{second}")).await;
    watch.comes_to("DELETED", kind.names[2]).await;
    assert_eq!(cluster.names(&selected).await, [""; 0]);
}

/// Reads, patches and puts the status; such updates do not change the rest, and updates of the rest do not change the status.
async fn changes_status(cluster: &Cluster, path: &str, status: &Value, takes_annotations: bool) {
    let at = format!("{path}/status");
    // A controller may change the spec, such as the taints of a node, so the patch names the version that was read.
    let patch = async || {
        let before = cluster.get(&at).await.is(200);
        let version = &before["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        match cluster.patch(&at, &patch).await {
            answer if answer.code == 409 => Err(answer.text),
            answer => Ok((before, answer.is(200))),
        }
    };
    let (before, patched) = wait_until(DEADLINE, patch).await.unwrap();
    let (field, value) = status.as_object().unwrap().iter().next().unwrap();
    assert_eq!(&patched["status"][field], value, "{path}");
    assert_eq!(patched["spec"], before["spec"]);
    let put = cluster.update(&at, |object| object["metadata"]["annotations"]["status"] = json!("put")).await;
    assert!(has_value(&put["status"][field], value), "{path}: {put}");
    let taken = if takes_annotations { json!("put") } else { json!(null) };
    assert_eq!(cluster.get(path).await.is(200)["metadata"]["annotations"]["status"], taken, "{path}");
    let ignored = cluster.patch(path, &json!({"status": {field: null}})).await.is(200);
    assert!(has_value(&ignored["status"][field], value), "{path}: {ignored}");
}

/// Whether a value contains another one; a list may have more items, where a controller adds conditions to the same object.
fn has_value(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Array(found), Value::Array(wanted)) => wanted.iter().all(|one| found.contains(one)),
        _ => found == wanted,
    }
}

fn sorted(kind: &Kind) -> Vec<&'static str> {
    let mut names = kind.names.to_vec();
    names.sort_unstable();
    names
}
