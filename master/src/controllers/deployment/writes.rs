//! Carries out the plan of a Deployment, and records events about it.

use client::{DeleteOptions, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::plan::{Annotations, Change, NewReplicaSet, Write};
use super::revision::REVISION;
use super::{DeploymentController, Live, NAME, status};
use crate::controllers::event_recorder::{NewEvent, record_event};
use crate::controllers::object::unreadable;
use crate::controllers::workloads::claim::controller_reference;
use crate::controllers::workloads::expectations::Expected;
use crate::controllers::workloads::requests::message;
use crate::objects::ReplicaSet;
use crate::objects::deployment::DeploymentStatus;
use crate::objects::template::POD_TEMPLATE_HASH;

impl DeploymentController {
    /// Carries out the writes in order. Returns false if a ReplicaSet could not be created.
    ///
    /// # Errors
    /// If another write fails. The writes before it are done.
    pub(super) async fn apply(&self, live: &Live<'_>, writes: &[Write]) -> Result<bool, Error> {
        for write in writes {
            match write {
                Write::Create(new) => {
                    if !self.create_set(live, new).await? {
                        return Ok(false);
                    }
                }
                Write::Change(change) => self.change_set(live, change).await?,
                Write::Delete { name, uid, resource_version } => {
                    let how = DeleteOptions {
                        uid: Some(uid),
                        resource_version: Some(resource_version),
                        ..DeleteOptions::default()
                    };
                    self.client.delete(&Kind::REPLICA_SET, live.namespace, name, &how).await?;
                }
            }
        }
        Ok(true)
    }

    async fn create_set(&self, live: &Live<'_>, new: &NewReplicaSet) -> Result<bool, Error> {
        let owner = &live.deployment.metadata.uid;
        self.writes.expect(owner, &new.name, Expected::Created);
        let created = self.client.create(&Kind::REPLICA_SET, live.namespace, replica_set(live, new)).await;
        let Err(error) = created else {
            if new.replicas > 0 {
                self.record_scaling(live, &new.name, 0, new.replicas).await;
            }
            return Ok(true);
        };
        self.writes.failed(owner, &new.name, &error);
        if error.exists() {
            return self.resolve_collision(live, new).await;
        }
        let namespace = self.informers.get(&Kind::NAMESPACE, "", live.namespace);
        if !namespace.is_some_and(|namespace| namespace.is_terminating) {
            let text = format!("Failed to create new replica set {:?}: {}", new.name, message(&error));
            self.record(live, true, "ReplicaSetCreateError", &text).await;
            let status = status::creation_failed(live.deployment, &text, Timestamp::now());
            self.update_status(live, &status, None).await?;
        }
        Ok(false)
    }

    /// Handles an existing ReplicaSet with the name of the new one.
    ///
    /// Either the cache does not show this ReplicaSet yet, or it has another owner or another template. In the
    /// second case, the next attempt uses another hash.
    async fn resolve_collision(&self, live: &Live<'_>, new: &NewReplicaSet) -> Result<bool, Error> {
        let deployment = live.deployment;
        if let Some(found) = self.client.find(&Kind::REPLICA_SET, live.namespace, &new.name).await? {
            let found: ReplicaSet =
                serde::Deserialize::deserialize(&found).map_err(|source| unreadable(&self.client, source))?;
            let is_own =
                found.metadata.controller().is_some_and(|owner| owner.uid == deployment.metadata.uid);
            if !is_own || found.spec.template.digest != deployment.spec.template.digest {
                let mut status: DeploymentStatus = deployment.status.clone();
                status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
                self.update_status(live, &status, None).await?;
            }
        }
        Ok(false)
    }

    async fn change_set(&self, live: &Live<'_>, change: &Change) -> Result<(), Error> {
        let (owner, name) = (&live.deployment.metadata.uid, &change.name);
        let expected =
            Expected::Changed { uid: change.uid.clone(), resource_version: change.resource_version.clone() };
        self.writes.expect(owner, name, expected);
        let changed = self.client.patch(&Kind::REPLICA_SET, live.namespace, name, patch(change)).await;
        if let Err(error) = changed {
            self.writes.failed(owner, name, &error);
            return Err(error);
        }
        if let Some((from, to)) = change.scale {
            self.record_scaling(live, name, from, to).await;
        }
        Ok(())
    }

    /// Updates the status and the revision annotation, if one of them has changed.
    ///
    /// # Errors
    /// If the Deployment was changed meanwhile. The caller retries.
    pub(super) async fn update_status(
        &self,
        live: &Live<'_>,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<(), Error> {
        if *status == live.deployment.status && revision.is_none() {
            return Ok(());
        }
        let mut object = live.json.clone();
        object.insert("status".to_owned(), status.to_json());
        if let Some(revision) = revision
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(REVISION.to_owned(), revision.into());
            }
        }
        self.client.update(&Kind::DEPLOYMENT, "status", object).await?;
        Ok(())
    }

    async fn record_scaling(&self, live: &Live<'_>, name: &str, from: i64, to: i64) {
        let direction = if from < to { "up" } else { "down" };
        let text = format!("Scaled {direction} replica set {name} from {from} to {to}");
        self.record(live, false, "ScalingReplicaSet", &text).await;
    }

    pub(super) async fn record(&self, live: &Live<'_>, is_warning: bool, reason: &str, message: &str) {
        let event = NewEvent {
            kind: &Kind::DEPLOYMENT,
            namespace: live.namespace,
            name: &live.deployment.metadata.name,
            uid: &live.deployment.metadata.uid,
            is_warning,
            reason,
            message,
            component: NAME,
        };
        record_event(&self.client, event).await;
    }
}

/// Returns the ReplicaSet of the Deployment's template, with the hash in its labels and selector.
fn replica_set(live: &Live<'_>, new: &NewReplicaSet) -> Value {
    let (owner, spec) = (&live.deployment.metadata, live.json.get("spec"));
    let field = |name: &str| spec.and_then(|spec| spec.get(name)).cloned().unwrap_or_else(|| json!({}));
    let (mut template, mut selector) = (field("template"), field("selector"));
    set(&mut template, &["metadata", "labels"], POD_TEMPLATE_HASH, &new.hash);
    set(&mut selector, &["matchLabels"], POD_TEMPLATE_HASH, &new.hash);
    let labels = template.pointer("/metadata/labels").cloned();
    json!({
        "apiVersion": Kind::REPLICA_SET.api_version(),
        "kind": Kind::REPLICA_SET.kind,
        "metadata": {
            "name": new.name,
            "labels": labels,
            "annotations": annotations(&new.annotations),
            "ownerReferences": [controller_reference(&Kind::DEPLOYMENT, &owner.name, &owner.uid)],
        },
        "spec": {
            "replicas": new.replicas,
            "minReadySeconds": live.deployment.spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    })
}

/// Sets a text in the object at a path. Creates the object if it is absent.
fn set(object: &mut Value, path: &[&str], key: &str, value: &str) {
    let mut into = object.as_object_mut();
    for name in path {
        into = into.and_then(|object| {
            object.entry(*name).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
        });
    }
    if let Some(object) = into {
        object.insert(key.to_owned(), value.into());
    }
}

/// Returns the merge patch of a change. It is rejected if the ReplicaSet has changed meanwhile.
fn patch(change: &Change) -> Value {
    let mut metadata = json!({"uid": change.uid, "resourceVersion": change.resource_version});
    if !change.annotations.is_empty() {
        metadata["annotations"] = annotations(&change.annotations);
    }
    let mut patch = json!({"metadata": metadata});
    if let Some((_, replicas)) = change.scale {
        patch["spec"]["replicas"] = replicas.into();
    }
    if let Some(seconds) = change.min_ready_seconds {
        patch["spec"]["minReadySeconds"] = seconds.into();
    }
    patch
}

fn annotations(all: &Annotations) -> Value {
    let entries = all.iter().map(|(key, value)| (key.to_string(), Value::from(&**value)));
    Value::Object(entries.collect::<Json>())
}
