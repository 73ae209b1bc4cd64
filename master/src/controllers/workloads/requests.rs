//! Requests of workload controllers: adoption and release, and the meaning of responses.

use std::sync::Arc;

use client::{Client, Error, Kind};
use serde_json::{Value, json};

use super::claim::{Candidate, Claim, Owner, adoption, claim, controller_reference, release};
use super::expectations::Seen;
use crate::controllers::object::Object;
use crate::objects::{LabelSelector, ObjectMeta, PartialObject};

/// Returns the parts of an object that expectations check.
pub fn seen(object: &Object) -> Seen<'_> {
    Seen {
        uid: &object.uid,
        resource_version: &object.resource_version,
        is_terminating: object.is_terminating,
    }
}

/// Whether the API server rejected a write, so that it certainly did not happen.
pub fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Refused { code, .. } if *code < 500)
}

/// Returns the message for events and conditions: that of the API server, if it responded.
pub fn message(error: &Error) -> String {
    match error {
        Error::Refused { message, .. } => message.clone(),
        other => other.full_message(),
    }
}

/// Whether an owner exists and is not being deleted.
///
/// The owner is read after the objects that it adopts, because an owner that is being deleted may just have
/// orphaned them.
///
/// # Errors
/// If it is unknown whether the owner exists. The caller retries.
pub async fn may_adopt(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<bool, Error> {
    let found: Option<PartialObject> = client.find_as(kind, namespace, name).await?;
    Ok(found.is_some_and(|found| *found.metadata.uid == *uid && !found.metadata.is_terminating()))
}

/// Changes the owner references of an object. Returns false if the object no longer exists or was replaced.
///
/// # Errors
/// If the request fails. The caller retries.
pub async fn patch_owners(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    name: &str,
    patch: Value,
) -> Result<bool, Error> {
    match client.patch_strategic(kind, namespace, name, patch).await {
        Ok(_) => Ok(true),
        // Another UID is a conflict, or invalid.
        Err(error) if error.is_not_found() || error.is_conflict() || error.has_code(422) => Ok(false),
        Err(error) => Err(error),
    }
}

/// An owner that claims objects.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    pub kind: &'a Kind,
    pub namespace: &'a str,
    pub name: &'a str,
    pub owner: Owner<'a>,
    /// Whether to adopt and release active pods only: pods that have not ended and are not being deleted.
    pub only_active: bool,
    /// A finalizer that adopted objects get, and released ones lose.
    pub finalizer: Option<&'static str>,
}

/// The objects of an owner.
#[derive(Clone, Debug)]
pub struct Claimed<'o> {
    /// The objects, with those that were just adopted.
    pub own: Vec<&'o Arc<Object>>,
    /// Whether an object was or must be adopted or released. Its change causes another reconciliation.
    pub is_changed: bool,
}

impl Claimed<'_> {
    /// Returns the objects, or `None` if the owner must wait for a change of one.
    pub fn settled(self) -> Option<Vec<Arc<Object>>> {
        (!self.is_changed).then(|| self.own.into_iter().cloned().collect())
    }
}

impl<'a> Claimant<'a> {
    /// Returns an owner that claims objects in any state, without a finalizer.
    pub fn of<A>(kind: &'a Kind, metadata: &'a ObjectMeta<A>, selector: &'a LabelSelector) -> Self {
        let owner = Owner { uid: &metadata.uid, is_terminating: metadata.is_terminating(), selector };
        let (namespace, name) = (&*metadata.namespace, &*metadata.name);
        Self { kind, namespace, name, owner, only_active: false, finalizer: None }
    }

    /// Returns the patch that adopts an object. A patch that adds a finalizer includes the resource version. Otherwise
    /// a decision from an outdated cache could add the finalizer again after the owner has removed it.
    fn adoption(&self, object: &Object) -> Value {
        let mut patch = adoption(&object.uid, &controller_reference(self.kind, self.name, self.owner.uid));
        if let Some(finalizer) = self.finalizer {
            patch["metadata"]["finalizers"] = json!([finalizer]);
            patch["metadata"]["resourceVersion"] = object.resource_version.as_str().into();
        }
        patch
    }

    fn release(&self, object: &Object) -> Value {
        let mut patch = release(&object.uid, self.owner.uid);
        if let Some(finalizer) = self.finalizer {
            patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
        }
        patch
    }
}

/// Returns the objects of an owner. Adopts matching objects without an owner, and releases those that no longer match.
///
/// # Errors
/// If it is unknown whether the owner exists, or an owner reference cannot be changed. The caller retries.
pub async fn claim_all<'o>(
    client: &Client,
    claimant: &Claimant<'_>,
    kind: &Kind,
    objects: &'o [Arc<Object>],
) -> Result<Claimed<'o>, Error> {
    let Claimant { kind: owner_kind, namespace, name, owner, .. } = *claimant;
    let (mut own, mut is_changed, mut can_adopt) = (Vec::new(), false, None);
    for object in objects {
        let candidate = Candidate {
            controller: object.controller(),
            labels: &object.labels,
            is_terminating: object.is_terminating,
        };
        let claim = claim(owner, candidate);
        if claim == Claim::Keep {
            own.push(object);
            continue;
        }
        let is_active = !object.pod().is_terminal() && !object.is_terminating;
        if claim == Claim::Ignore || claimant.only_active && !is_active {
            continue;
        }
        is_changed = true;
        if claim == Claim::Release {
            patch_owners(client, kind, namespace, &object.name, claimant.release(object)).await?;
            continue;
        }
        let exists = match can_adopt {
            Some(exists) => exists,
            None => may_adopt(client, owner_kind, namespace, name, owner.uid).await?,
        };
        can_adopt = Some(exists);
        if exists && patch_owners(client, kind, namespace, &object.name, claimant.adoption(object)).await? {
            own.push(object);
        }
    }
    Ok(Claimed { own, is_changed })
}
