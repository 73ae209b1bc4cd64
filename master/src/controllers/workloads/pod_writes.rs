//! Creates and deletes the pods of an owner, and records events about it.

use client::{DeleteOptions, Error, Json, Kind};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::claim::controller_reference;
use super::expectations::Expected;
use super::names;
use super::pod_control::{PodControl, PodOwner};
use super::requests::message;
use crate::controllers::event_recorder::{NewEvent, record_event};

/// Maximum number of pods that are created or deleted in one step, as in stock Kubernetes.
pub const BURST: usize = 500;
/// Number of concurrent requests of one owner.
pub const CONCURRENCY: usize = 32;

/// A pod to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodToDelete<'a> {
    pub name: &'a str,
    pub uid: &'a str,
}

/// The reason why pods could not be created or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason of the event and of the condition: `FailedCreate` or `FailedDelete`.
    pub reason: &'static str,
    pub message: String,
}

/// Returns the batch sizes of creations. They start small, because if the first pod is rejected, the others
/// probably are as well.
pub fn slow_start(count: usize) -> Vec<usize> {
    let (mut batches, mut left, mut size) = (Vec::new(), count, 1);
    while left > 0 {
        let batch = size.min(left);
        batches.push(batch);
        left -= batch;
        size *= 2;
    }
    batches
}

/// Returns a pod of a template, without name and owner.
pub fn pod_of(template: Option<&Json>) -> Value {
    let field = |name: &str| template.and_then(|template| template.get(name));
    let known = field("metadata");
    let copied = ["labels", "annotations", "finalizers"].into_iter().filter_map(|field| {
        let value = known.and_then(|metadata| metadata.get(field))?;
        Some((field.to_owned(), value.clone()))
    });
    let metadata: Map<String, Value> = copied.collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": field("spec")})
}

impl PodControl {
    /// Creates pods in batches that double in size while all creations succeed. `pod` returns the pod with an index
    /// below `count`, without name and owner. Without a `generateName`, it gets a name of its owner. Returns the first
    /// failure.
    pub async fn create(
        &self,
        owner: &PodOwner<'_>,
        count: usize,
        pod: impl Fn(usize) -> Value,
    ) -> Option<Failure> {
        let mut next = 0;
        for batch in slow_start(count) {
            let end = next + batch;
            let mut failed = None;
            while next < end {
                let part = next..end.min(next + CONCURRENCY);
                next = part.end;
                let results = join_all(part.map(|index| self.create_one(owner, pod(index)))).await;
                failed = failed.or(results.into_iter().find_map(Result::err));
            }
            if let Some(error) = failed {
                // Nothing can be created in a namespace that is being deleted.
                return (!self.is_namespace_ending(owner.namespace))
                    .then(|| Failure { reason: "FailedCreate", message: message(&error) });
            }
        }
        None
    }

    async fn create_one(&self, owner: &PodOwner<'_>, mut pod: Value) -> Result<(), Error> {
        let metadata = &mut pod["metadata"];
        let prefix =
            metadata["generateName"].as_str().map_or_else(|| names::prefix(owner.name), str::to_owned);
        let name = names::generate(&prefix, Uuid::new_v4().as_bytes());
        metadata["generateName"] = prefix.into();
        metadata["name"] = name.as_str().into();
        let reference = controller_reference(&self.kind, owner.name, owner.uid);
        metadata["ownerReferences"] = json!([reference]);
        self.writes.expect(owner.uid, &name, Expected::Created);
        match self.client.create(&Kind::POD, owner.namespace, pod).await {
            Ok(_) => {
                self.record(owner, false, "SuccessfulCreate", &format!("Created pod: {name}")).await;
                Ok(())
            }
            Err(error) => {
                self.writes.failed(owner.uid, &name, &error);
                if !self.is_namespace_ending(owner.namespace) {
                    let text = format!("Error creating: {}", message(&error));
                    self.record(owner, true, "FailedCreate", &text).await;
                }
                Err(error)
            }
        }
    }

    /// Deletes pods. Returns the first failure.
    pub async fn delete(&self, owner: &PodOwner<'_>, to_delete: &[PodToDelete<'_>]) -> Option<Failure> {
        let mut failed = None;
        for part in to_delete.chunks(CONCURRENCY) {
            let results = join_all(part.iter().map(|pod| self.delete_one(owner, pod))).await;
            failed = failed.or(results.into_iter().find_map(Result::err));
        }
        failed.map(|error| Failure { reason: "FailedDelete", message: message(&error) })
    }

    async fn delete_one(&self, owner: &PodOwner<'_>, pod: &PodToDelete<'_>) -> Result<(), Error> {
        self.writes.expect(owner.uid, pod.name, Expected::Deleted { uid: pod.uid.into() });
        let how = DeleteOptions { uid: Some(pod.uid), ..DeleteOptions::default() };
        match self.client.delete(&Kind::POD, owner.namespace, pod.name, &how).await {
            Ok(()) => {
                let text = format!("Deleted pod: {}", pod.name);
                self.record(owner, false, "SuccessfulDelete", &text).await;
                Ok(())
            }
            Err(error) => {
                self.writes.failed(owner.uid, pod.name, &error);
                let text = format!("Error deleting: {}", message(&error));
                self.record(owner, true, "FailedDelete", &text).await;
                Err(error)
            }
        }
    }

    fn is_namespace_ending(&self, namespace: &str) -> bool {
        let found = self.informers.get(&Kind::NAMESPACE, "", namespace);
        found.is_some_and(|namespace| namespace.is_terminating)
    }

    /// Records an event about the owner.
    pub async fn record(&self, owner: &PodOwner<'_>, is_warning: bool, reason: &str, message: &str) {
        let event = NewEvent {
            kind: &self.kind,
            namespace: owner.namespace,
            name: owner.name,
            uid: owner.uid,
            is_warning,
            reason,
            message,
            component: self.component,
        };
        record_event(&self.client, event).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn creations_start_slowly() {
        assert_eq!(slow_start(0), [] as [usize; 0]);
        assert_eq!(slow_start(10), [1, 2, 4, 3]);
        assert_eq!(slow_start(15), [1, 2, 4, 8]);
    }

    #[test]
    fn a_pod_has_the_labels_annotations_and_finalizers_of_its_template() {
        let template = json!({
            "metadata": {"name": "no", "labels": {"app": "web"}, "annotations": {"a": "b"}, "creationTimestamp": null},
            "spec": {"nodeName": "n"},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
            "spec": {"nodeName": "n"},
        });
        assert_eq!(pod_of(template.as_object()), expected);
    }
}
