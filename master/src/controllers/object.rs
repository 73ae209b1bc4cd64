//! What the controllers remember of an object: its metadata, and the few fields they decide by.

use serde_json::{Map, Value};

use super::client::{Json, Sieve};

/// Who owns an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Identity.
    pub uid: String,
    /// The owner waits for this object when it is deleted in the foreground.
    pub blocks: bool,
    /// The owner is the one that keeps this object.
    pub controls: bool,
}

/// An object, as far as it is remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// Empty for what lies in none.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Identity.
    pub uid: String,
    /// The version of it.
    pub revision: String,
    /// When it was made, as it is written.
    pub created: String,
    /// It is being deleted.
    pub is_ending: bool,
    /// What has to be done before it goes.
    pub finalizers: Vec<String>,
    /// Who owns it.
    pub owners: Vec<Owner>,
    /// The node of a pod, empty while it has none.
    pub node: Box<str>,
    /// It is a pod that is ready.
    pub is_ready: bool,
    /// The fields that are kept of its kind, by their names at the top.
    pub kept: Json,
}

/// What is read of pods and kept in two fields: a cluster has many, and their conditions are long.
const OF_PODS: &[&str] = &["spec.nodeName", "status.conditions"];

/// Fields that are kept, by resource; nothing but metadata of any other.
const KEPT: &[(&str, &[&str])] = &[
    ("pods", &["status.phase", "metadata.labels"]),
    ("secrets", &["type"]),
    ("services", &["spec.selector"]),
    ("endpoints", &["metadata.labels"]),
    ("endpointslices.discovery.k8s.io", &["metadata.labels"]),
    // The labels of a node tell its zone, its addresses what it may serve under, what is noted of it whether it is trusted, and
    // its conditions what keeps pods off it.
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

/// The metadata that is remembered of every object.
const METADATA: &[&str] = &[
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
    /// What has to be read of an object of that resource for all that is remembered of it.
    pub fn sieve(resource: &str) -> Sieve {
        let of_pods = if is_pods(resource) { OF_PODS } else { &[] };
        let paths = METADATA.iter().chain(kept_of(resource)).chain(of_pods);
        paths.copied().fold(Sieve::nothing(), Sieve::with)
    }

    /// Takes what is remembered out of an object of that resource (`pods`, `jobs.batch`).
    pub fn of(resource: &str, object: &Json) -> Self {
        let found = Self::keeping(kept_of(resource), object);
        if !is_pods(resource) {
            return found;
        }
        Self {
            node: text(at(object, "/spec/nodeName")).into(),
            is_ready: condition_is(object, "Ready", "True"),
            ..found
        }
    }

    /// Takes the metadata and the fields of those paths (`status.phase`) out of an object.
    pub fn keeping(paths: &[&str], object: &Json) -> Self {
        let metadata = object.get("metadata").and_then(Value::as_object);
        let field = |name: &str| metadata.and_then(|metadata| metadata.get(name));
        let string = |name: &str| text(field(name));
        let list = |name: &str| field(name).and_then(Value::as_array).into_iter().flatten();
        Self {
            namespace: string("namespace"),
            name: string("name"),
            uid: string("uid"),
            revision: string("resourceVersion"),
            created: string("creationTimestamp"),
            is_ending: field("deletionTimestamp").is_some_and(|time| !time.is_null()),
            finalizers: list("finalizers").map(|name| text(Some(name))).collect(),
            owners: list("ownerReferences").map(Owner::of).collect(),
            node: Box::default(),
            is_ready: false,
            kept: keep(object, paths),
        }
    }

    /// Namespace and name, as queues have them of what lies in a namespace.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// A kept field by its path (`/status/phase`).
    pub fn kept(&self, pointer: &str) -> Option<&Value> {
        at(&self.kept, pointer)
    }

    /// A label, where labels are kept of its kind; empty when it has none.
    pub fn label(&self, name: &str) -> &str {
        let labels = self.kept("/metadata/labels");
        labels.and_then(|labels| labels.get(name)).and_then(Value::as_str).unwrap_or_default()
    }

    /// True when it has that finalizer.
    pub fn awaits(&self, finalizer: &str) -> bool {
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
            blocks: reference.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false),
            controls: reference.get("controller").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// The group of its kind.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// A field of an object by its path (`/status/phase`).
pub fn at<'a>(object: &'a Json, pointer: &str) -> Option<&'a Value> {
    let (first, rest) = pointer.strip_prefix('/')?.split_once('/').unwrap_or((&pointer[1..], ""));
    let value = object.get(first)?;
    if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
}

/// A text, empty when there is none.
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

fn kept_of(resource: &str) -> &'static [&'static str] {
    KEPT.iter().find(|(of, _)| *of == resource).map_or(&[][..], |(_, paths)| paths)
}

fn keep(object: &Json, paths: &[&str]) -> Json {
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
    //! What is kept, and what is not.
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
        assert!(pod.is_ending && pod.awaits("x") && pod.owners[0].blocks);
        assert_eq!(pod.owners[0].group(), "apps");
        assert!(pod.is_ready && !pod.owners[0].controls);
        assert_eq!(&*pod.node, "here");
        let labels = json!({"example.com/app": "web"});
        assert_eq!(
            Value::from(pod.kept.clone()),
            json!({"status": {"phase": "Failed"}, "metadata": {"labels": labels}})
        );
        assert_eq!((pod.label("example.com/app"), pod.label("tier")), ("web", ""));
        assert_eq!(pod.kept("/status/phase").unwrap(), "Failed");
        // What the sieve of a kind lets through is all that is remembered.
        for resource in ["pods", "configmaps"] {
            let read = Object::sieve(resource).read(json.to_string().as_bytes()).unwrap();
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
