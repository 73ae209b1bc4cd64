//! Carries out the plan of a StatefulSet, and records events about it.

use client::{DeleteOptions, Error, Kind};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use super::claims::{Ownership, User, ownership};
use super::plan::{NewClaim, NewPod, RevisionNames, Write};
use super::{Live, NAME, StatefulSetController, identity};
use crate::controllers::event_recorder::{NewEvent, record_event};
use crate::controllers::workloads::claim::controller_reference;
use crate::controllers::workloads::expectations::Expected;
use crate::controllers::workloads::pod_writes::slow_start;
use crate::controllers::workloads::requests::message;
use crate::objects::PartialObject;
use crate::objects::stateful_set::StatefulSetStatus;

/// Number of concurrent requests of one `Parallel` StatefulSet.
const CONCURRENCY: usize = 32;

/// A write has failed. The failure is an event, and the reconciliation is retried.
#[derive(Debug)]
struct Failed;

/// What an event is about, in the words of its reason and message.
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Update,
    Delete,
}

impl StatefulSetController {
    /// Carries out the phases in order. Returns false if a write failed; then the writes after it are not done.
    pub(super) async fn apply(
        &self,
        live: &Live<'_>,
        revisions: RevisionNames<'_>,
        phases: &[Vec<Write<'_>>],
    ) -> bool {
        for phase in phases {
            let mut rest = phase.as_slice();
            let batches = if live.set.is_parallel() { slow_start(phase.len()) } else { vec![1; phase.len()] };
            for batch in batches {
                let (now, later) = rest.split_at(batch.min(rest.len()));
                rest = later;
                for part in now.chunks(CONCURRENCY) {
                    let results = join_all(part.iter().map(|write| self.write(live, revisions, write))).await;
                    if results.iter().any(Result::is_err) {
                        return false;
                    }
                }
            }
        }
        true
    }

    async fn write(
        &self,
        live: &Live<'_>,
        revisions: RevisionNames<'_>,
        write: &Write<'_>,
    ) -> Result<(), Failed> {
        match write {
            Write::Create(new) => self.create_pod(live, revisions, new).await,
            Write::CreateClaims { pod, claims } => {
                self.create_claims(live, pod, claims).await.map_err(|_| Failed)
            }
            Write::Relabel { name, uid, ordinal } => {
                let labels = identity::labels(name, *ordinal);
                let labels: Map<String, Value> =
                    labels.into_iter().map(|(label, value)| (label.to_owned(), value.into())).collect();
                let patch = json!({"metadata": {"uid": uid, "labels": labels}});
                let result = self.client.patch(&Kind::POD, live.namespace, name, patch).await.map(drop);
                self.record_pod(live, Verb::Update, name, result).await
            }
            Write::OwnClaim { claim, user } => {
                let result = self.own_claim(live, claim, *user).await;
                if result.is_ok() {
                    Ok(())
                } else {
                    self.record_pod(live, Verb::Update, user.name, result).await
                }
            }
            Write::Delete { name, uid } => {
                let owner = &live.set.metadata.uid;
                self.writes.expect(owner, name, Expected::Deleted { uid: (*uid).into() });
                let how = DeleteOptions { uid: Some(*uid), ..DeleteOptions::default() };
                let result = self.client.delete(&Kind::POD, live.namespace, name, &how).await;
                if let Err(error) = &result {
                    self.writes.failed(owner, name, error);
                }
                self.record_pod(live, Verb::Delete, name, result).await
            }
        }
    }

    async fn create_pod(
        &self,
        live: &Live<'_>,
        revisions: RevisionNames<'_>,
        new: &NewPod,
    ) -> Result<(), Failed> {
        if let Some(claim) = &new.terminating_claim {
            let text = format!("pvc {claim} is being deleted");
            self.record_failure(live, Verb::Create, &new.name, &text).await;
            return Err(Failed);
        }
        if let Err(text) = self.create_claims(live, &new.name, &new.claims).await {
            self.record_failure(live, Verb::Create, &new.name, &text).await;
            return Err(Failed);
        }
        let pod = match self.pod(live, revisions, new).await {
            Ok(pod) => pod,
            Err(error) => return self.record_pod(live, Verb::Create, &new.name, Err(error)).await,
        };
        let owner = &live.set.metadata.uid;
        self.writes.expect(owner, &new.name, Expected::Created);
        let result = self.client.create(&Kind::POD, live.namespace, pod).await.map(drop);
        if let Err(error) = &result {
            self.writes.failed(owner, &new.name, error);
            // Another controller or user has created a pod of this name.
            if error.exists() {
                return Err(Failed);
            }
        }
        self.record_pod(live, Verb::Create, &new.name, result).await
    }

    /// Returns a new pod from the template of its revision. Reads the current revision from the API server if the pod
    /// is not to be updated yet.
    async fn pod(&self, live: &Live<'_>, revisions: RevisionNames<'_>, new: &NewPod) -> Result<Value, Error> {
        let (set, ordinal) = (live.set, new.ordinal);
        if !new.is_current || revisions.current == revisions.update {
            return Ok(identity::pod(set, live.spec("template"), ordinal, revisions.update));
        }
        let revision = self.revisions.get(live.namespace, revisions.current).await?;
        let template = revision.data.template.unwrap_or_default();
        Ok(identity::pod(set, &template, ordinal, revisions.current))
    }

    /// Creates claims. Returns the message of the first failure.
    async fn create_claims(&self, live: &Live<'_>, pod: &str, claims: &[NewClaim]) -> Result<(), String> {
        let set = &live.set.metadata;
        for new in claims {
            let Some(claim) = claim(live, pod, new) else { continue };
            let name = &new.name;
            match self.client.create(&Kind::PERSISTENT_VOLUME_CLAIM, live.namespace, claim).await {
                Ok(_) => {
                    let text = format!("create Claim {name} Pod {pod} in StatefulSet {} success", set.name);
                    self.record(live, false, "SuccessfulCreate", &text).await;
                }
                Err(error) if error.exists() => {}
                Err(error) => {
                    let error = message(&error);
                    let text = format!(
                        "create Claim {name} for Pod {pod} in StatefulSet {} failed error: {error}",
                        set.name
                    );
                    self.record(live, true, "FailedCreate", &text).await;
                    return Err(format!("failed to create PVC {name}: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Changes the owner references of a claim, as the retention policy demands for its present state.
    async fn own_claim(&self, live: &Live<'_>, name: &str, user: User<'_>) -> Result<(), Error> {
        let kind = &Kind::PERSISTENT_VOLUME_CLAIM;
        let Some(mut claim) = self.client.find(kind, live.namespace, name).await? else { return Ok(()) };
        let known: PartialObject = serde::Deserialize::deserialize(&claim)
            .map_err(|source| crate::controllers::object::unreadable(&self.client, source))?;
        let set = &live.set.metadata;
        let owner = match ownership(live.set, user, &known.metadata.owner_references) {
            Ownership::Keep => return Ok(()),
            Ownership::Release => None,
            Ownership::Set => Some(controller_reference(&Kind::STATEFUL_SET, &set.name, &set.uid)),
            Ownership::Pod => Some(controller_reference(&Kind::POD, user.name, user.uid)),
        };
        let Some(metadata) = claim.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(()) };
        let owners = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
        if let Some(owners) = owners.as_array_mut() {
            let is_ours = |uid: &str| *uid == *set.uid || uid == user.uid;
            owners.retain(|owner| !owner.get("uid").and_then(Value::as_str).is_some_and(is_ours));
            owners.extend(owner);
        }
        self.client.update(kind, "", claim).await.map(drop)
    }

    /// Increments the number of collisions, so that the next revision has another name.
    pub(super) async fn count_collision(&self, live: &Live<'_>) -> Result<(), Error> {
        let mut status = live.set.status.clone();
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        self.update_status(live, &status).await
    }

    /// Updates the status, if it has changed.
    ///
    /// # Errors
    /// If the StatefulSet was changed meanwhile. The caller retries.
    pub(super) async fn update_status(
        &self,
        live: &Live<'_>,
        status: &StatefulSetStatus,
    ) -> Result<(), Error> {
        if *status == live.set.status {
            return Ok(());
        }
        let mut object = live.json.clone();
        let fields = object.entry("status").or_insert_with(|| Value::Object(Map::new()));
        if let Some(fields) = fields.as_object_mut() {
            status.write(fields);
        }
        self.client.update(&Kind::STATEFUL_SET, "status", object).await.map(drop)
    }

    /// Records the result of a write of a pod.
    async fn record_pod(
        &self,
        live: &Live<'_>,
        verb: Verb,
        pod: &str,
        result: Result<(), Error>,
    ) -> Result<(), Failed> {
        if let Err(error) = result {
            self.record_failure(live, verb, pod, &message(&error)).await;
            return Err(Failed);
        }
        let (reason, verb) = match verb {
            Verb::Create => ("SuccessfulCreate", "create"),
            Verb::Update => ("SuccessfulUpdate", "update"),
            Verb::Delete => ("SuccessfulDelete", "delete"),
        };
        let text = format!("{verb} Pod {pod} in StatefulSet {} successful", live.set.metadata.name);
        self.record(live, false, reason, &text).await;
        Ok(())
    }

    async fn record_failure(&self, live: &Live<'_>, verb: Verb, pod: &str, error: &str) {
        let (reason, verb) = match verb {
            Verb::Create => ("FailedCreate", "create"),
            Verb::Update => ("FailedUpdate", "update"),
            Verb::Delete => ("FailedDelete", "delete"),
        };
        let text =
            format!("{verb} Pod {pod} in StatefulSet {} failed error: {error}", live.set.metadata.name);
        self.record(live, true, reason, &text).await;
    }

    async fn record(&self, live: &Live<'_>, is_warning: bool, reason: &str, message: &str) {
        // Nothing can be created in a namespace that is being deleted, events included.
        let namespace = self.informers.get(&Kind::NAMESPACE, "", live.namespace);
        if is_warning && namespace.is_some_and(|namespace| namespace.is_terminating) {
            return;
        }
        let event = NewEvent {
            kind: &Kind::STATEFUL_SET,
            namespace: live.namespace,
            name: &live.set.metadata.name,
            uid: &live.set.metadata.uid,
            is_warning,
            reason,
            message,
            component: NAME,
        };
        record_event(&self.client, event).await;
    }
}

/// Returns a claim of a template, with the owner that the retention policy demands.
fn claim(live: &Live<'_>, pod: &str, new: &NewClaim) -> Option<Value> {
    let templates = live.spec("volumeClaimTemplates").as_array()?;
    let is_it = |template: &&Value| {
        template.pointer("/metadata/name").and_then(Value::as_str) == Some(&*new.template)
    };
    let mut claim = identity::claim(live.set, templates.iter().find(is_it)?, pod);
    let set = &live.set.metadata;
    let user = User { name: pod, uid: "", is_condemned: false };
    if ownership(live.set, user, &[]) == Ownership::Set {
        let owner = controller_reference(&Kind::STATEFUL_SET, &set.name, &set.uid);
        claim["metadata"]["ownerReferences"] = json!([owner]);
    }
    Some(claim)
}
