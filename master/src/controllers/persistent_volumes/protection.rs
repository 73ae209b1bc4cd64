//! The protection controllers: they remove the finalizers of claims and volumes that are being deleted and no longer
//! used. The admission plugin `StorageObjectInUseProtection` adds these finalizers to new objects, and these
//! controllers to older ones.

use async_trait::async_trait;
use client::{Client, Error, Kind, Scope, Typed};
use serde_json::value::RawValue;

use super::{CLAIM, CLAIM_PROTECTION, VOLUME, VOLUME_PROTECTION, writes};
use crate::controllers::informers::{Change, SharedInformers};
use crate::controllers::object::{Object, unreadable};
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::work_queue::{Controller, WorkQueue};

/// The stock name and the service account of the claim protection controller.
pub const CLAIMS: &str = "persistentvolumeclaim-protection-controller";
pub const CLAIMS_ACCOUNT: &str = "pvc-protection-controller";
/// The stock name and the service account of the volume protection controller.
pub const VOLUMES: &str = "persistentvolume-protection-controller";
pub const VOLUMES_ACCOUNT: &str = "pv-protection-controller";

/// Removes the finalizer of claims that no pod uses.
#[derive(Debug)]
pub struct ClaimProtectionController {
    client: Client,
    informers: SharedInformers,
}

impl ClaimProtectionController {
    /// Creates the controller. It reads claims and pods of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }

    /// Whether a live pod of the namespace uses the claim. The informers may lag behind.
    async fn is_used(&self, namespace: &str, claim: &str) -> Result<bool, Error> {
        let cached = self.informers.list(&Kind::POD, namespace);
        if cached.iter().any(|pod| uses(pod, claim)) {
            return Ok(true);
        }
        let (mut is_used, mut failed) = (false, None);
        let scope = Scope::namespace(namespace);
        self.client
            .list_with(&Kind::POD, &scope, Typed::<Box<RawValue>>::default(), |pod| {
                match Object::decode(&Kind::POD.qualified(), &*pod) {
                    Ok(pod) => is_used |= uses(&pod, claim),
                    Err(error) => failed = Some(error),
                }
            })
            .await?;
        match failed {
            Some(error) => Err(unreadable(&self.client, error)),
            None => Ok(is_used),
        }
    }
}

/// Whether a pod uses the claim. A pod without a node does not: the kubelet starts no pod whose claim is being
/// deleted.
fn uses(pod: &Object, claim: &str) -> bool {
    let fields = pod.pod();
    !fields.node.is_empty() && fields.claims.iter().any(|own| **own == *claim)
}

/// Whether the finalizer has to be added, or removed once the object is not used.
fn is_concerned(object: &Object, finalizer: &str) -> bool {
    object.is_terminating == object.has_finalizer(finalizer)
}

#[async_trait]
impl Controller for ClaimProtectionController {
    fn name(&self) -> &'static str {
        CLAIMS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&CLAIM) {
            if let Some(now) = change.now.as_ref().filter(|now| is_concerned(now, CLAIM_PROTECTION)) {
                queue.add(&now.key());
            }
        } else if let (Some(gone), None) = (&change.before, &change.now) {
            for claim in &gone.pod().claims {
                queue.add(&format!("{}/{claim}", gone.namespace));
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(json) = self.client.find(&CLAIM, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let claim = Object::of(&self.client, &CLAIM, &json)?;
        if !is_concerned(&claim, CLAIM_PROTECTION) {
            return Ok(Action::AwaitChange);
        }
        if !claim.is_terminating {
            writes::add_finalizer(&self.client, &CLAIM, json, CLAIM_PROTECTION).await?;
        } else if !self.is_used(namespace, name).await? {
            writes::remove_finalizer(&self.client, &CLAIM, json, CLAIM_PROTECTION).await?;
        }
        Ok(Action::AwaitChange)
    }
}

/// Removes the finalizer of volumes that are not bound.
#[derive(Debug)]
pub struct VolumeProtectionController {
    client: Client,
}

impl VolumeProtectionController {
    /// Creates the controller.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Controller for VolumeProtectionController {
    fn name(&self) -> &'static str {
        VOLUMES
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let now = change.now.as_ref().filter(|_| change.kind.is(&VOLUME));
        if let Some(now) = now.filter(|now| is_concerned(now, VOLUME_PROTECTION)) {
            queue.add(&now.name);
        }
    }

    async fn reconcile(&self, name: &str, _: &WorkQueue) -> Result<Action, Error> {
        let Some(json) = self.client.find(&VOLUME, "", name).await? else { return Ok(Action::AwaitChange) };
        let volume = Object::of(&self.client, &VOLUME, &json)?;
        let is_bound = volume.volume().is_some_and(|volume| &*volume.status.phase == "Bound");
        if !is_concerned(&volume, VOLUME_PROTECTION) {
            return Ok(Action::AwaitChange);
        }
        if !volume.is_terminating {
            writes::add_finalizer(&self.client, &VOLUME, json, VOLUME_PROTECTION).await?;
        } else if !is_bound {
            writes::remove_finalizer(&self.client, &VOLUME, json, VOLUME_PROTECTION).await?;
        }
        Ok(Action::AwaitChange)
    }
}
