//! Creates and deletes pods of a ReplicaSet, and records events about it.

use client::{DeleteOptions, Error, Kind};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::plan::{Doomed, slow_start};
use super::status::Failure;
use super::{Live, ReplicaSetController, template};
use crate::controllers::event_recorder::{NewEvent, record_event};
use crate::controllers::workloads::claim::controller_reference;
use crate::controllers::workloads::expectations::Expected;
use crate::controllers::workloads::names;
use crate::controllers::workloads::requests::message;

/// Number of concurrent requests of one ReplicaSet.
const CONCURRENCY: usize = 32;

impl ReplicaSetController {
    /// Creates pods in batches that double in size while all creations succeed. Returns the first failure.
    pub(super) async fn create_pods(&self, live: &Live<'_>, count: usize) -> Option<Failure> {
        for batch in slow_start(count) {
            let mut left = batch;
            let mut failed = None;
            while left > 0 {
                let part = left.min(CONCURRENCY);
                left -= part;
                let results = join_all((0..part).map(|_| self.create_pod(live))).await;
                failed = failed.or(results.into_iter().find_map(Result::err));
            }
            if let Some(error) = failed {
                // Nothing can be created in a namespace that is being deleted.
                return (!self.is_namespace_ending(live.namespace))
                    .then(|| Failure { reason: "FailedCreate", message: message(&error) });
            }
        }
        None
    }

    async fn create_pod(&self, live: &Live<'_>) -> Result<(), Error> {
        let metadata = &live.set.metadata;
        let name = names::pod_name(&metadata.name, Uuid::new_v4().as_bytes());
        self.writes.expect(&metadata.uid, &name, Expected::Created);
        match self.client.create(&Kind::POD, live.namespace, self.pod(live, &name)).await {
            Ok(_) => {
                self.record(live, false, "SuccessfulCreate", &format!("Created pod: {name}")).await;
                Ok(())
            }
            Err(error) => {
                self.writes.failed(&metadata.uid, &name, &error);
                if !self.is_namespace_ending(live.namespace) {
                    let text = format!("Error creating: {}", message(&error));
                    self.record(live, true, "FailedCreate", &text).await;
                }
                Err(error)
            }
        }
    }

    /// Returns a pod of the template.
    fn pod(&self, live: &Live<'_>, name: &str) -> Value {
        let owner = &live.set.metadata;
        let field = |name: &str| template(live.json).and_then(|template| template.get(name)).cloned();
        let mut metadata = Map::new();
        let known = field("metadata");
        for field in ["labels", "annotations", "finalizers"] {
            if let Some(value) = known.as_ref().and_then(|metadata| metadata.get(field)) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        metadata.insert("generateName".to_owned(), names::prefix(&owner.name).into());
        metadata.insert("name".to_owned(), name.into());
        let reference = controller_reference(&self.variant.kind, &owner.name, &owner.uid);
        metadata.insert("ownerReferences".to_owned(), json!([reference]));
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": field("spec")})
    }

    /// Deletes pods. Returns the first failure.
    pub(super) async fn delete_pods(&self, live: &Live<'_>, doomed: &[Doomed<'_>]) -> Option<Failure> {
        let mut failed = None;
        for part in doomed.chunks(CONCURRENCY) {
            let results = join_all(part.iter().map(|pod| self.delete_pod(live, pod))).await;
            failed = failed.or(results.into_iter().find_map(Result::err));
        }
        failed.map(|error| Failure { reason: "FailedDelete", message: message(&error) })
    }

    async fn delete_pod(&self, live: &Live<'_>, pod: &Doomed<'_>) -> Result<(), Error> {
        let owner = &live.set.metadata.uid;
        let expected = Expected::Deleted { uid: pod.uid.into() };
        self.writes.expect(owner, pod.name, expected);
        let how = DeleteOptions { uid: Some(pod.uid), ..DeleteOptions::default() };
        match self.client.delete(&Kind::POD, live.namespace, pod.name, &how).await {
            Ok(()) => {
                let text = format!("Deleted pod: {}", pod.name);
                self.record(live, false, "SuccessfulDelete", &text).await;
                Ok(())
            }
            Err(error) => {
                self.writes.failed(owner, pod.name, &error);
                let text = format!("Error deleting: {}", message(&error));
                self.record(live, true, "FailedDelete", &text).await;
                Err(error)
            }
        }
    }

    fn is_namespace_ending(&self, namespace: &str) -> bool {
        let found = self.informers.get(&Kind::NAMESPACE, "", namespace);
        found.is_some_and(|namespace| namespace.is_terminating)
    }

    async fn record(&self, live: &Live<'_>, is_warning: bool, reason: &str, message: &str) {
        let event = NewEvent {
            kind: &self.variant.kind,
            namespace: live.namespace,
            name: &live.set.metadata.name,
            uid: &live.set.metadata.uid,
            is_warning,
            reason,
            message,
            component: self.variant.account,
        };
        record_event(&self.client, event).await;
    }
}
