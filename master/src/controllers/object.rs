//! An object as the informers cache it: its metadata, and the fields of its kind that controllers read.

use client::{Client, Error, Json, Kind};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::fields::{
    DaemonSetFields, DeploymentFields, Fields, JobFields, NodeFields, PodFields, RevisionFields,
};
use crate::objects::volume::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use crate::objects::{LabelSelector, List, ObjectMeta, OwnerReference, PartialObject, ReplicaSet, StringMap};

/// A cached object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// The namespace. Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    pub creation_timestamp: Option<Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub is_terminating: bool,
    pub labels: StringMap,
    /// `metadata.finalizers`.
    pub finalizers: List<Box<str>>,
    /// `metadata.ownerReferences`.
    pub owners: List<OwnerReference>,
    /// The fields of the object's kind.
    pub fields: Fields,
}

impl Object {
    /// Decodes an object of a resource (`pods`, `jobs.batch`). Other fields are skipped.
    ///
    /// # Errors
    /// If a field has another type.
    pub fn decode(resource: &str, object: &(impl Source + ?Sized)) -> Result<Self, serde_json::Error> {
        let PartialObject { metadata } = object.read()?;
        Ok(Self { fields: Fields::decode(resource, object)?, ..Self::from(metadata) })
    }

    /// Gets the live object. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// If it is unknown whether the object exists, or the object cannot be decoded. The caller retries.
    pub async fn find(
        client: &Client,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Self>, Error> {
        let found: Option<Box<RawValue>> = client.find_as(kind, namespace, name).await?;
        let decode = |found: Box<RawValue>| Self::decode(&kind.qualified(), &*found);
        found.map(decode).transpose().map_err(|source| unreadable(client, source))
    }

    /// Decodes an object that is also kept as JSON, to write it back.
    ///
    /// # Errors
    /// If a field has another type.
    pub fn of(client: &Client, kind: &Kind, object: &Json) -> Result<Self, Error> {
        Self::decode(&kind.qualified(), object).map_err(|source| unreadable(client, source))
    }

    /// The work queue key, `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns a label, or an empty text if it is not set.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).unwrap_or_default()
    }

    /// Whether the object has the finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| **own == *finalizer)
    }

    /// The owner that manages this object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// Returns the fields of a ReplicaSet or ReplicationController, `None` for other kinds.
    pub fn replica_set(&self) -> Option<&ReplicaSet> {
        if let Fields::ReplicaSet(set) = &self.fields { Some(set) } else { None }
    }

    /// The fields of a DaemonSet.
    pub fn daemon_set(&self) -> Option<&DaemonSetFields> {
        if let Fields::DaemonSet(fields) = &self.fields { Some(fields) } else { None }
    }

    /// Returns the fields of a Deployment, `None` for other kinds.
    pub fn deployment(&self) -> Option<&DeploymentFields> {
        if let Fields::Deployment(fields) = &self.fields { Some(fields) } else { None }
    }

    /// The fields of a ControllerRevision.
    pub fn revision(&self) -> Option<RevisionFields> {
        if let Fields::ControllerRevision(fields) = self.fields { Some(fields) } else { None }
    }

    /// The pod selector of a StatefulSet.
    pub fn stateful_set_selector(&self) -> Option<&LabelSelector> {
        if let Fields::StatefulSet { selector } = &self.fields { Some(selector) } else { None }
    }

    /// A PersistentVolumeClaim.
    pub fn claim(&self) -> Option<&PersistentVolumeClaim> {
        if let Fields::Claim(claim) = &self.fields { Some(claim) } else { None }
    }

    /// A PersistentVolume.
    pub fn volume(&self) -> Option<&PersistentVolume> {
        if let Fields::Volume(volume) = &self.fields { Some(volume) } else { None }
    }

    /// A StorageClass.
    pub fn storage_class(&self) -> Option<&StorageClass> {
        if let Fields::StorageClass(class) = &self.fields { Some(class) } else { None }
    }

    /// The fields of a Job.
    pub fn job(&self) -> Option<&JobFields> {
        if let Fields::Job(fields) = &self.fields { Some(fields) } else { None }
    }

    /// Returns the fields of a pod, which are empty for other kinds.
    pub fn pod(&self) -> &PodFields {
        self.fields.pod()
    }

    /// Returns the fields of a Node, which are empty for other kinds.
    pub fn node(&self) -> &NodeFields {
        self.fields.node()
    }
}

impl From<ObjectMeta> for Object {
    fn from(metadata: ObjectMeta) -> Self {
        Self {
            is_terminating: metadata.is_terminating(),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            creation_timestamp: metadata.creation_timestamp,
            labels: metadata.labels,
            finalizers: metadata.finalizers,
            owners: metadata.owner_references,
            fields: Fields::None,
        }
    }
}

/// Returns the error for an object that cannot be decoded.
pub fn unreadable(client: &Client, source: serde_json::Error) -> Error {
    Error::Unreadable { server: client.server().into(), source }
}

/// The source from which an object is decoded: the text of a list or watch, or a JSON object.
pub trait Source {
    /// Decodes the fields of `T` and skips all other fields.
    ///
    /// # Errors
    /// If a field has another type.
    fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error>;
}

impl Source for RawValue {
    fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }
}

impl Source for Json {
    fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(self)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of fields that are kept and skipped.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn decoded(resource: &str, object: &Value) -> Object {
        let text: Box<RawValue> = serde_json::from_str(&object.to_string()).unwrap();
        let read = Object::decode(resource, &*text).unwrap();
        assert_eq!(read, Object::decode(resource, object.as_object().unwrap()).unwrap());
        read
    }

    #[test]
    fn the_cache_keeps_metadata_and_the_fields_of_a_pod() {
        let pod = decoded(
            "pods",
            &json!({
                "metadata": {
                    "name": "a", "namespace": "n", "uid": "1", "finalizers": ["x"], "labels": {"example.com/app": "web"},
                    "creationTimestamp": null, "deletionTimestamp": "2026-01-01T00:00:00Z",
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2", "blockOwnerDeletion": true}],
                },
                "spec": {"containers": [], "nodeName": "here"},
                "status": {"phase": "Failed", "message": "long", "conditions": [{"type": "Ready", "status": "True"}]},
            }),
        );
        assert!(pod.is_terminating && pod.has_finalizer("x") && pod.owners[0].block_owner_deletion);
        assert_eq!((pod.owners[0].group(), pod.owners[0].controller), ("apps", false));
        assert_eq!((pod.label("example.com/app"), pod.label("tier")), ("web", ""));
        let fields =
            PodFields { node: "here".into(), phase: "Failed".into(), is_ready: true, ..PodFields::default() };
        assert_eq!(pod.fields, Fields::Pod(fields));
        assert_eq!(pod.node(), &NodeFields::default());
    }

    #[test]
    fn the_cache_keeps_the_facts_by_which_pods_are_chosen_for_deletion() {
        let pod = decoded(
            "pods",
            &json!({
                "metadata": {"name": "a", "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}},
                "spec": {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]},
                "status": {
                    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                    "containerStatuses": [{"name": "a", "restartCount": 2}, {"name": "b", "restartCount": 1}],
                    "initContainerStatuses": [{"name": "init", "restartCount": 9}, {"name": "side", "restartCount": 3}],
                },
            }),
        );
        let fields = pod.pod();
        assert_eq!((fields.deletion_cost, fields.restarts, fields.is_ready), (-5, (2, 3), false));
        assert_eq!(fields.ready_changed, Some("2026-01-01T00:00:00Z".parse().unwrap()));
    }

    #[test]
    fn the_cache_keeps_the_node_that_a_pending_pod_names() {
        let term = |operator: &str, names: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": names}]});
        let pod = |node: &str, terms: Value| {
            let required =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            let spec = json!({"nodeName": node, "affinity": {"nodeAffinity": required}});
            decoded("pods", &json!({"metadata": {"name": "a"}, "spec": spec})).pod().named_node.to_string()
        };
        assert_eq!(pod("", json!([term("In", &["n"])])), "n");
        assert_eq!(pod("", json!([{"matchExpressions": []}, term("In", &["n"])])), "n");
        assert_eq!(pod("n", json!([term("In", &["n"])])), "", "a bound pod");
        for terms in [json!([term("In", &["m", "n"])]), json!([term("NotIn", &["n"])]), json!([])] {
            assert_eq!(pod("", terms.clone()), "", "{terms}");
        }
    }

    #[test]
    fn every_kind_is_decoded_without_any_field() {
        for resource in [
            "certificatesigningrequests.certificates.k8s.io",
            "configmaps",
            "controllerrevisions.apps",
            "daemonsets.apps",
            "deployments.apps",
            "events",
            "jobs.batch",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "poddisruptionbudgets.policy",
            "pods",
            "replicasets.apps",
            "replicationcontrollers",
            "resourcequotas",
            "secrets",
            "services",
            "statefulsets.apps",
            "storageclasses.storage.k8s.io",
        ] {
            let bare = decoded(resource, &json!({"metadata": {"name": "a"}}));
            assert_eq!(bare.name, "a", "{resource}");
        }
    }

    proptest! {
        #[test]
        fn a_field_of_another_type_is_an_error_and_no_panic(name in "(metadata|spec|status)", field in "[a-zA-Z]{1,16}", value in any::<Option<i64>>()) {
            let object = json!({&name: {field: value}});
            let _ = Object::decode("jobs.batch", object.as_object().unwrap());
            let event = json!({&name: 7});
            let is_ok = Object::decode("events", event.as_object().unwrap()).is_ok();
            prop_assert_eq!(is_ok, name != "metadata");
        }
    }
}
