//! The PV controller: binds claims and volumes, provisions `local-path` volumes, and reclaims released ones.
//!
//! A lock serializes reconciliations. A worker releases it before it sends a request to a kubelet. A reconciliation
//! reads the claim or volume from the API server, and candidates from the informers. A candidate that is outdated causes
//! a retry.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Json, Kind};
use http::Method;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;
use tokio::sync::MutexGuard;

use super::claim_plan::{self, ClaimInput, ClaimStep};
use super::volume_plan::{self, VolumeStep};
use super::{CLAIM, CLASS, Notice, VOLUME, local_path, writes};
use crate::controllers::event_recorder::{NewEvent, record_event};
use crate::controllers::fields::Fields;
use crate::controllers::informers::{Change, SharedInformers};
use crate::controllers::object::{Object, unreadable};
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::work_queue::{Controller, WorkQueue};
use crate::controllers::workloads::requests::message;
use crate::objects::AnnotatedObject;
use crate::objects::volume::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// The stock name.
pub const NAME: &str = "persistentvolume-binder-controller";
/// The service account of the controller.
pub const ACCOUNT: &str = "persistent-volume-binder";
/// The source of its events, as in stock Kubernetes.
const COMPONENT: &str = "persistentvolume-controller";
/// How long to wait for informers that lag behind a write.
const CACHE_DELAY: Duration = Duration::from_millis(100);
/// Pause while a watch of volumes, claims or classes is broken. A plan from an outdated cache could bind the wrong
/// volume.
const WATCH_PAUSE: Duration = Duration::from_secs(1);
/// Number of workers. One of them binds at a time; the others wait for the lock or for a kubelet.
const WORKERS: usize = 10;
/// The namespace with the record that the storage class was created.
const SYSTEM: &str = "kube-system";
/// The work queue key of the storage class.
const CLASS_KEY: &str = "class";

/// The PV controller.
#[derive(Debug)]
pub struct PersistentVolumeController {
    client: Client,
    /// The client of the master, which may create the storage class and ask kubelets.
    master: Client,
    informers: SharedInformers,
    /// The last event of each object by UID. A failure that repeats is reported once.
    reported: Mutex<HashMap<Box<str>, Notice>>,
    /// Serializes reconciliations, except their requests to kubelets.
    binding: tokio::sync::Mutex<()>,
}

/// A claim or volume that was read from the API server, not from the cache.
struct Live<T> {
    object: T,
    json: Json,
}

impl PersistentVolumeController {
    /// Creates the controller. It reads volumes, classes and nodes of the given informers.
    pub fn new(client: Client, master: Client, informers: SharedInformers) -> Self {
        Self { client, master, informers, reported: Mutex::default(), binding: tokio::sync::Mutex::default() }
    }

    async fn find<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Live<T>>, Error> {
        let Some(json) = self.client.find(kind, namespace, name).await? else { return Ok(None) };
        let object = T::deserialize(&json).map_err(|source| unreadable(&self.client, source))?;
        Ok(Some(Live { object, json }))
    }

    async fn reconcile_claim(&self, namespace: &str, name: &str) -> Result<Action, Error> {
        let Some(claim) = self.find::<PersistentVolumeClaim>(&CLAIM, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let named = match &*claim.object.spec.volume_name {
            "" => None,
            name => self.find::<PersistentVolume>(&VOLUME, "", name).await?,
        };
        let cached = self.informers.list(&VOLUME, "");
        let volumes: Vec<&PersistentVolume> = cached.iter().filter_map(|volume| volume.volume()).collect();
        let class = self.informers.get(&CLASS, "", claim.object.class());
        let classes = self.informers.list(&CLASS, "");
        let input = ClaimInput {
            claim: &claim.object,
            named: named.as_ref().map(|volume| &volume.object),
            volumes: &volumes,
            class: class.as_ref().and_then(|class| class.storage_class()),
            default_class: StorageClass::default_of(classes.iter().filter_map(|one| one.storage_class())),
        };
        match claim_plan::plan(&input) {
            ClaimStep::Bind(volume) => self.bind(&claim, volume).await,
            ClaimStep::Wait(notice) => {
                if let Some(notice) = notice {
                    self.report(&CLAIM, &claim.json, notice).await;
                }
                writes::set_claim_phase(&self.client, claim.json, "Pending").await?;
                Ok(Action::AwaitChange)
            }
            ClaimStep::Lost(notice) => {
                self.report(&CLAIM, &claim.json, notice).await;
                writes::set_claim_phase(&self.client, claim.json, "Lost").await?;
                Ok(Action::AwaitChange)
            }
            ClaimStep::Announce(provisioner) => {
                let text = format!(
                    "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
                     system administrator. If volume creation is delayed, please verify that the provisioner is running and \
                     correctly registered."
                );
                self.report(&CLAIM, &claim.json, Notice::normal("ExternalProvisioning", text)).await;
                let claim = writes::announce(&self.client, claim.json, provisioner).await?;
                writes::set_claim_phase(&self.client, claim, "Pending").await?;
                Ok(Action::AwaitChange)
            }
            ClaimStep::SetClass(class) => {
                writes::set_class(&self.client, claim.json, class).await?;
                Ok(Action::AwaitChange)
            }
            ClaimStep::Provision { node, class } => {
                let node_object = self.informers.get(&Kind::NODE, "", node);
                let volume = node_object.ok_or_else(|| format!("node \"{node}\" not found"));
                match volume.and_then(|node| local_path::volume(&claim.object, class, &node)) {
                    Ok(volume) => self.provision(&claim, volume).await,
                    Err(why) => {
                        self.report(&CLAIM, &claim.json, Notice::warning("ProvisioningFailed", why)).await;
                        writes::reschedule(&self.client, claim.json).await?;
                        Ok(Action::AwaitChange)
                    }
                }
            }
        }
    }

    /// Binds a claim to a volume of the informers, unless the volume has changed since.
    async fn bind(
        &self,
        claim: &Live<PersistentVolumeClaim>,
        volume: &PersistentVolume,
    ) -> Result<Action, Error> {
        let metadata = &volume.metadata;
        let Some(live) = self.find::<PersistentVolume>(&VOLUME, "", &metadata.name).await? else {
            return Ok(Action::RequeueAfter(CACHE_DELAY));
        };
        if live.object.metadata.resource_version != metadata.resource_version {
            return Ok(Action::RequeueAfter(CACHE_DELAY));
        }
        let (claim, volume) = ((&claim.object, claim.json.clone()), (&live.object, live.json.clone()));
        writes::bind(&self.client, claim, volume).await?;
        Ok(Action::AwaitChange)
    }

    async fn provision(
        &self,
        claim: &Live<PersistentVolumeClaim>,
        volume: serde_json::Value,
    ) -> Result<Action, Error> {
        let name = local_path::volume_name(&claim.object.metadata.uid);
        match self.client.create(&VOLUME, "", volume).await {
            Ok(_) => {
                let text =
                    format!("Successfully provisioned volume {name} using {}", local_path::PROVISIONER);
                self.report(&CLAIM, &claim.json, Notice::normal("ProvisioningSucceeded", text)).await;
                Ok(Action::AwaitChange)
            }
            // The informers do not have it yet.
            Err(error) if error.exists() => Ok(Action::RequeueAfter(CACHE_DELAY)),
            Err(error) => {
                let text = format!("Error saving provisioned volume {name}: {}", message(&error));
                self.report(&CLAIM, &claim.json, Notice::warning("ProvisioningFailed", text)).await;
                Err(error)
            }
        }
    }

    async fn reconcile_volume(
        &self,
        name: &str,
        queue: &WorkQueue,
        binding: MutexGuard<'_, ()>,
    ) -> Result<Action, Error> {
        let Some(volume) = self.find::<PersistentVolume>(&VOLUME, "", name).await? else {
            return Ok(Action::AwaitChange);
        };
        let reference = volume.object.spec.claim_ref.as_ref();
        let claim = match reference {
            Some(of) => self.find::<PersistentVolumeClaim>(&CLAIM, &of.namespace, &of.name).await?,
            None => None,
        };
        match volume_plan::plan(&volume.object, claim.as_ref().map(|claim| &claim.object)) {
            VolumeStep::Nothing => {}
            VolumeStep::Phase(phase) => writes::set_phase(&self.client, volume.json, phase, None).await?,
            VolumeStep::ReconcileClaim => {
                if let Some(of) = reference {
                    queue.add(&claim_key(&of.namespace, &of.name));
                }
            }
            VolumeStep::Unbind { keeps_name } => {
                writes::unbind(&self.client, volume.json, keeps_name).await?;
            }
            VolumeStep::Fail(notice) => {
                writes::set_phase(&self.client, volume.json.clone(), "Failed", Some(&notice.message)).await?;
                self.report(&VOLUME, &volume.json, notice).await;
            }
            VolumeStep::DeleteLocal => {
                // A kubelet that does not respond must not delay bindings.
                drop(binding);
                return self.delete_local(volume).await;
            }
            VolumeStep::Abandon => {
                writes::remove_finalizer(&self.client, &VOLUME, volume.json, local_path::FINALIZER).await?;
            }
        }
        Ok(Action::AwaitChange)
    }

    /// Asks the kubelet of the node to delete the data, and then deletes the volume.
    async fn delete_local(&self, volume: Live<PersistentVolume>) -> Result<Action, Error> {
        let metadata = &volume.object.metadata;
        let Some(node) = local_path::node_of(&volume.json).filter(|node| !node.is_empty()) else {
            let text = format!("cannot delete the data: the annotation {} names no node", local_path::NODE);
            self.report(&VOLUME, &volume.json, Notice::warning("VolumeFailedDelete", text.as_str())).await;
            writes::set_phase(&self.client, volume.json, "Failed", Some(&text)).await?;
            return Ok(Action::AwaitChange);
        };
        let path = local_path::data_path(node, &metadata.name);
        if let Err(error) = self.master.request::<IgnoredAny>(Method::DELETE, &path, None).await {
            // The last pod of the claim is still being removed on its node.
            if error.is_conflict() {
                return Ok(Action::Retry);
            }
            let text = format!("cannot delete the data on the node \"{node}\": {}", message(&error));
            self.report(&VOLUME, &volume.json, Notice::warning("VolumeFailedDelete", text.as_str())).await;
            writes::set_phase(&self.client, volume.json, "Failed", Some(&text)).await?;
            return Ok(Action::Retry);
        }
        let how = DeleteOptions { uid: Some(&metadata.uid), ..DeleteOptions::default() };
        self.client.delete(&VOLUME, "", &metadata.name, &how).await?;
        // The deletion has changed the object.
        if let Some(live) = self.client.find(&VOLUME, "", &metadata.name).await? {
            writes::remove_finalizer(&self.client, &VOLUME, live, local_path::FINALIZER).await?;
        }
        Ok(Action::AwaitChange)
    }

    /// Creates the storage class `local-path` once in the life of a cluster.
    async fn create_class(&self) -> Result<Action, Error> {
        let found: Option<AnnotatedObject> = self.master.find_as(&Kind::NAMESPACE, "", SYSTEM).await?;
        let Some(AnnotatedObject { metadata }) = found else { return Ok(Action::AwaitChange) };
        if metadata.annotations.contains_key(local_path::CLASS_CREATED) {
            return Ok(Action::AwaitChange);
        }
        let classes = self.informers.list(&CLASS, "");
        let mut classes = classes.iter().filter_map(|class| class.storage_class());
        // In a cluster with volumes, claims without a class may be meant for volumes without a class.
        let has_volumes = !self.informers.list(&VOLUME, "").is_empty();
        let class = local_path::class(!has_volumes && !classes.any(|class| class.is_default()));
        match self.master.create(&CLASS, "", class).await {
            Err(error) if !error.exists() => return Err(error),
            _ => {}
        }
        let record = json!({"metadata": {"annotations": {local_path::CLASS_CREATED: "true"}}});
        self.master.patch(&Kind::NAMESPACE, "", SYSTEM, record).await?;
        Ok(Action::AwaitChange)
    }

    /// Records an event, unless it is the same as the last one of the object.
    async fn report(&self, kind: &Kind, object: &Json, notice: Notice) {
        let metadata = crate::objects::read::<AnnotatedObject>(object).metadata;
        let last = {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            reported.insert(metadata.uid.clone(), notice.clone())
        };
        if last.as_ref() == Some(&notice) {
            return;
        }
        let event = NewEvent {
            kind,
            namespace: &metadata.namespace,
            name: &metadata.name,
            uid: &metadata.uid,
            is_warning: notice.is_warning,
            reason: notice.reason,
            message: &notice.message,
            component: COMPONENT,
        };
        record_event(&self.client, event).await;
    }

    /// Adds the claims for which this is true.
    fn add_claims(&self, queue: &WorkQueue, is_concerned: impl Fn(&PersistentVolumeClaim) -> bool) {
        for claim in self.informers.list(&CLAIM, "") {
            if claim.claim().is_some_and(&is_concerned) {
                queue.add(&claim_key(&claim.namespace, &claim.name));
            }
        }
    }

    fn on_claim(&self, change: &Change, queue: &WorkQueue) {
        if let (Some(gone), None) = (&change.before, &change.now) {
            self.forget(gone);
        } else if let Some(now) = &change.now {
            queue.add(&claim_key(&now.namespace, &now.name));
        }
        for claim in change.before.iter().chain(&change.now).filter_map(|claim| claim.claim()) {
            if !claim.spec.volume_name.is_empty() {
                queue.add(&volume_key(&claim.spec.volume_name));
            }
        }
        // A volume may be reserved for a claim that does not name it yet.
        if let (Some(gone), None) = (&change.before, &change.now) {
            let is_for = |volume: &PersistentVolume| {
                let reference = volume.spec.claim_ref.as_ref();
                reference.is_some_and(|of| *of.namespace == *gone.namespace && *of.name == *gone.name)
            };
            for volume in self.informers.list(&VOLUME, "") {
                if volume.volume().is_some_and(is_for) {
                    queue.add(&volume_key(&volume.name));
                }
            }
        }
    }

    fn on_volume(&self, change: &Change, queue: &WorkQueue) {
        match (&change.before, &change.now) {
            (Some(gone), None) => self.forget(gone),
            (_, Some(now)) => queue.add(&volume_key(&now.name)),
            (None, None) => {}
        }
        for volume in change.before.iter().chain(&change.now).filter_map(|volume| volume.volume()) {
            if let Some(of) = &volume.spec.claim_ref {
                queue.add(&claim_key(&of.namespace, &of.name));
            }
        }
        if let Some(volume) = change.now.as_ref().and_then(|volume| volume.volume()) {
            let (name, class) = (&volume.metadata.name, volume.class());
            self.add_claims(queue, |claim| {
                is_unbound(claim) && (claim.class() == class || claim.spec.volume_name == *name)
            });
        }
    }

    fn forget(&self, gone: &Object) {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).remove(&*gone.uid);
    }
}

/// Whether the claim still waits for a volume.
fn is_unbound(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.annotations.bind_completed.is_none()
}

fn claim_key(namespace: &str, name: &str) -> String {
    format!("claim/{namespace}/{name}")
}

fn volume_key(name: &str) -> String {
    format!("volume/{name}")
}

#[async_trait]
impl Controller for PersistentVolumeController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(object) = change.object() else { return };
        match &object.fields {
            Fields::Claim(_) => self.on_claim(change, queue),
            Fields::Volume(_) => self.on_volume(change, queue),
            Fields::StorageClass(class) => self.add_claims(queue, |claim| {
                let may_get_it = class.is_default() && claim.wants_default_class();
                is_unbound(claim) && (*claim.class() == *object.name || may_get_it)
            }),
            Fields::Node(_) if change.before.is_none() || change.now.is_none() => {
                let is_selected = |claim: &PersistentVolumeClaim| {
                    claim.metadata.annotations.selected_node.as_deref() == Some(&object.name)
                };
                self.add_claims(queue, |claim| is_unbound(claim) && is_selected(claim));
            }
            _ if change.kind.is(&Kind::NAMESPACE) && object.name == SYSTEM && change.before.is_none() => {
                queue.add(CLASS_KEY);
            }
            _ => {}
        }
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    async fn reconcile(&self, key: &str, queue: &WorkQueue) -> Result<Action, Error> {
        let is_watched = |kind: &Kind| self.informers.synced_since(kind).is_some();
        if ![CLAIM, VOLUME, CLASS].iter().all(is_watched) {
            return Ok(Action::RequeueAfter(WATCH_PAUSE));
        }
        let binding = self.binding.lock().await;
        match key.split('/').collect::<Vec<_>>()[..] {
            ["claim", namespace, name] => self.reconcile_claim(namespace, name).await,
            ["volume", name] => self.reconcile_volume(name, queue, binding).await,
            [CLASS_KEY] => self.create_class().await,
            _ => Ok(Action::AwaitChange),
        }
    }
}
