//! The cached part of an object: its metadata, and the few fields that controllers use.

use client::Json;
use serde_json::{Map, Value};

use super::projection::Projection;

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The group and version of the owner.
    pub api_version: String,
    /// The kind of the owner.
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// `blockOwnerDeletion`: foreground deletion of the owner waits for this object.
    pub blocks_deletion: bool,
    /// `controller`: the owner manages this object.
    pub is_controller: bool,
}

/// Partial object: metadata and selected fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.creationTimestamp` as text.
    pub creation_timestamp: String,
    /// Whether `metadata.deletionTimestamp` is set.
    pub is_terminating: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// `metadata.ownerReferences`.
    pub owners: Vec<Owner>,
    /// The node of a pod; empty while it is not bound.
    pub node: Box<str>,
    /// Whether this is a pod whose condition `Ready` is true.
    pub is_ready: bool,
    /// The cached fields of its kind, as a JSON tree.
    pub fields: Json,
}

/// Pod fields that are decoded and reduced to `node` and `is_ready`: a cluster has many pods with long conditions.
const POD_FIELDS: &[&str] = &["spec.nodeName", "status.conditions"];

/// Cached fields by resource; other resources keep only metadata.
const CACHED_FIELDS: &[(&str, &[&str])] = &[
    ("pods", &["status.phase", "metadata.labels"]),
    ("secrets", &["type"]),
    ("services", &["spec.selector"]),
    ("endpoints", &["metadata.labels"]),
    ("endpointslices.discovery.k8s.io", &["metadata.labels"]),
    // A node's labels give its zone, its addresses the names that it may serve under, its annotations its trust, and
    // its conditions its taints.
    (
        "nodes",
        &[
            "metadata.labels",
            "metadata.annotations",
            "spec.taints",
            "spec.unschedulable",
            "spec.podCIDR",
            "status.addresses",
            "status.conditions",
        ],
    ),
    ("poddisruptionbudgets.policy", &["spec.selector"]),
    ("certificatesigningrequests.certificates.k8s.io", &["spec.username", "status.conditions"]),
    ("events", &["eventTime", "lastTimestamp", "series.lastObservedTime"]),
    ("resourcequotas", &["spec.hard", "status.hard", "status.used"]),
    ("jobs.batch", &["spec.ttlSecondsAfterFinished", "status.conditions"]),
];

/// Metadata fields that are cached of every object.
const METADATA_FIELDS: &[&str] = &[
    "metadata.namespace",
    "metadata.name",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.finalizers",
    "metadata.ownerReferences",
];

impl Object {
    /// The projection that decodes all cached fields of a resource.
    pub fn projection(resource: &str) -> Projection {
        let of_pods = if is_pods(resource) { POD_FIELDS } else { &[] };
        let paths = METADATA_FIELDS.iter().chain(cached_fields(resource)).chain(of_pods);
        paths.copied().fold(Projection::empty(), Projection::with)
    }

    /// Extracts the cached part of an object of a resource (`pods`, `jobs.batch`).
    pub fn of(resource: &str, object: &Json) -> Self {
        let found = Self::with_fields(cached_fields(resource), object);
        if !is_pods(resource) {
            return found;
        }
        Self {
            node: text(at(object, "/spec/nodeName")).into(),
            is_ready: condition_is(object, "Ready", "True"),
            ..found
        }
    }

    /// Extracts the metadata and the fields at these paths (`status.phase`).
    pub fn with_fields(paths: &[&str], object: &Json) -> Self {
        let metadata = object.get("metadata").and_then(Value::as_object);
        let field = |name: &str| metadata.and_then(|metadata| metadata.get(name));
        let string = |name: &str| text(field(name));
        let list = |name: &str| field(name).and_then(Value::as_array).into_iter().flatten();
        Self {
            namespace: string("namespace"),
            name: string("name"),
            uid: string("uid"),
            resource_version: string("resourceVersion"),
            creation_timestamp: string("creationTimestamp"),
            is_terminating: field("deletionTimestamp").is_some_and(|time| !time.is_null()),
            finalizers: list("finalizers").map(|name| text(Some(name))).collect(),
            owners: list("ownerReferences").map(Owner::of).collect(),
            node: Box::default(),
            is_ready: false,
            fields: select_fields(object, paths),
        }
    }

    /// The work queue key, `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// A cached field by JSON pointer (`/status/phase`).
    pub fn field(&self, pointer: &str) -> Option<&Value> {
        at(&self.fields, pointer)
    }

    /// A label, if labels of this kind are cached; empty if it is not set.
    pub fn label(&self, name: &str) -> &str {
        let labels = self.field("/metadata/labels");
        labels.and_then(|labels| labels.get(name)).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the object has this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }
}

impl Owner {
    fn of(reference: &Value) -> Self {
        Self {
            api_version: text(reference.get("apiVersion")),
            kind: text(reference.get("kind")),
            name: text(reference.get("name")),
            uid: text(reference.get("uid")),
            blocks_deletion: reference.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false),
            is_controller: reference.get("controller").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// The API group of the owner.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// A field of an object by JSON pointer (`/status/phase`).
pub fn at<'a>(object: &'a Json, pointer: &str) -> Option<&'a Value> {
    let (first, rest) = pointer.strip_prefix('/')?.split_once('/').unwrap_or((&pointer[1..], ""));
    let value = object.get(first)?;
    if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
}

/// A string; empty if the value is missing.
pub fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The condition of that type in the status of an object.
pub fn condition<'a>(object: &'a Json, kind: &str) -> Option<&'a Value> {
    let all = at(object, "/status/conditions").and_then(Value::as_array);
    all.into_iter().flatten().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

/// Whether the condition of that type has that status.
pub fn condition_is(object: &Json, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|found| found.get("status").and_then(Value::as_str) == Some(status))
}

fn is_pods(resource: &str) -> bool {
    resource == "pods"
}

fn cached_fields(resource: &str) -> &'static [&'static str] {
    CACHED_FIELDS.iter().find(|(of, _)| *of == resource).map_or(&[][..], |(_, paths)| paths)
}

fn select_fields(object: &Json, paths: &[&str]) -> Json {
    let mut kept = Json::new();
    for path in paths {
        let Some(value) = at(object, &format!("/{}", path.replace('.', "/"))) else { continue };
        let mut into = &mut kept;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                into.insert(name.to_owned(), value.clone());
                break;
            }
            let entry = into.entry(name).or_insert_with(|| Value::Object(Map::new()));
            match entry.as_object_mut() {
                Some(inner) => into = inner,
                None => break,
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    //! Fields that are kept and dropped.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_and_a_few_fields_are_kept() {
        let json = json!({
            "metadata": {
                "name": "a", "namespace": "n", "uid": "1", "finalizers": ["x"], "labels": {"example.com/app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2", "blockOwnerDeletion": true}],
            },
            "spec": {"containers": [], "nodeName": "here"},
            "status": {"phase": "Failed", "message": "long", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let pod = Object::of("pods", json.as_object().unwrap());
        assert!(pod.is_terminating && pod.has_finalizer("x") && pod.owners[0].blocks_deletion);
        assert_eq!(pod.owners[0].group(), "apps");
        assert!(pod.is_ready && !pod.owners[0].is_controller);
        assert_eq!(&*pod.node, "here");
        let labels = json!({"example.com/app": "web"});
        assert_eq!(
            Value::from(pod.fields.clone()),
            json!({"status": {"phase": "Failed"}, "metadata": {"labels": labels}})
        );
        assert_eq!((pod.label("example.com/app"), pod.label("tier")), ("web", ""));
        assert_eq!(pod.field("/status/phase").unwrap(), "Failed");
        // The projection of a kind contains all fields that an object keeps.
        for resource in ["pods", "configmaps"] {
            let read = Object::projection(resource).read(json.to_string().as_bytes()).unwrap();
            assert!(read.to_string().len() < json.to_string().len());
            assert_eq!(
                Object::of(resource, read.as_object().unwrap()),
                Object::of(resource, json.as_object().unwrap())
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_panics(name in "(metadata|spec|status)", field in "[a-zA-Z]{1,16}", value in any::<Option<i64>>()) {
            let object = json!({&name: {field: value}});
            let _ = Object::of("jobs.batch", object.as_object().unwrap());
            let _ = Object::of("events", &json!({&name: value}).as_object().unwrap().clone());
        }
    }
}
