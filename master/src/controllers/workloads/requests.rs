//! Requests of workload controllers: adoption and release, and the meaning of responses.

use std::sync::Arc;

use client::{Client, Error, Kind};
use serde_json::Value;

use super::claim::{Candidate, Claim, Owner, adoption, claim, controller_reference, release};
use super::expectations::Seen;
use crate::controllers::object::Object;
use crate::objects::PartialObject;

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
}

/// Returns the objects of an owner. Returns `None` if one had to be adopted or released first; its change causes another
/// reconciliation.
///
/// # Errors
/// If a request fails. The caller retries.
pub async fn claim_all(
    client: &Client,
    claimant: &Claimant<'_>,
    kind: &Kind,
    objects: &[Arc<Object>],
) -> Result<Option<Vec<Arc<Object>>>, Error> {
    let Claimant { kind: owner_kind, namespace, name, owner } = *claimant;
    let (mut own, mut is_final) = (Vec::new(), true);
    for object in objects {
        let candidate = Candidate {
            controller: object.controller(),
            labels: &object.labels,
            is_terminating: object.is_terminating,
        };
        let patch = match claim(owner, candidate) {
            Claim::Keep => {
                own.push(object.clone());
                continue;
            }
            Claim::Ignore => continue,
            Claim::Adopt => {
                if !may_adopt(client, owner_kind, namespace, name, owner.uid).await? {
                    return Ok(None);
                }
                adoption(&object.uid, &controller_reference(owner_kind, name, owner.uid))
            }
            Claim::Release => release(&object.uid, owner.uid),
        };
        is_final = false;
        patch_owners(client, kind, namespace, &object.name, patch).await?;
    }
    Ok(is_final.then_some(own))
}
