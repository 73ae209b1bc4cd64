//! PersistentVolumeClaims, the volumes to which they are bound, and the binding modes of their storage classes.

mod binding;

use std::collections::HashMap;

pub use self::binding::{ClaimBinding, ClaimTarget, ClaimWait, UnboundClaim, WaitState};
use super::pod::Pod;
use super::store::{Keyed, NamespacedName, Store};
use crate::objects::node_affinity::NodeSelectorTerm;
use crate::objects::volume::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// Zone and region labels of volumes and nodes, as in the stock scheduler. GA labels come first.
pub const ZONES: &[&str] = &[
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Returns the GA label that replaced a beta label.
pub fn ga_label(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        key => key,
    }
}

/// Separator between several zones in a label value.
const ZONE_DELIMITER: &str = "__";

/// The fields of a PersistentVolumeClaim that scheduling reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    key: NamespacedName,
    volume: String,
    class: String,
    is_bound: bool,
    is_lost: bool,
    is_terminating: bool,
    /// Whether the access mode is ReadWriteOncePod.
    is_read_write_once_pod: bool,
    /// The whole claim, until it is bound.
    unbound: Option<Box<PersistentVolumeClaim>>,
}

/// The fields of a PersistentVolume that scheduling reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    name: String,
    /// Required node affinity of the volume. `None` if every node can access the volume.
    terms: Option<Vec<NodeSelectorTerm>>,
    /// Zones and regions from the labels of the volume, by label key.
    zones: Vec<(String, Vec<String>)>,
    /// The whole volume, while it is not bound to a claim.
    free: Option<Box<PersistentVolume>>,
}

/// The fields of a StorageClass that scheduling reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    name: String,
    object: StorageClass,
}

impl Claim {
    /// Parses a PersistentVolumeClaim.
    pub fn of(object: PersistentVolumeClaim) -> Self {
        let is_bound =
            &*object.status.phase == "Bound" || object.metadata.annotations.bind_completed.is_some();
        let is_bound = is_bound && !object.spec.volume_name.is_empty();
        let unbound = (!is_bound).then(|| Box::new(object.clone()));
        let class = object.class().to_owned();
        let PersistentVolumeClaim { metadata, spec, status } = object;
        Self {
            is_terminating: metadata.is_terminating(),
            key: (metadata.namespace.into(), metadata.name.into()),
            is_bound,
            unbound,
            volume: spec.volume_name.into(),
            class,
            is_lost: &*status.phase == "Lost",
            is_read_write_once_pod: spec.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod"),
        }
    }
}

impl Volume {
    /// Parses a PersistentVolume.
    pub fn of(object: PersistentVolume) -> Self {
        let free = object.spec.claim_ref.is_none().then(|| Box::new(object.clone()));
        let PersistentVolume { metadata, spec, .. } = object;
        let required = spec.node_affinity.and_then(|affinity| affinity.required);
        let zones = ZONES.iter().filter_map(|key| Some(((*key).to_owned(), metadata.labels.get(key)?)));
        let zones = zones
            .map(|(key, all)| (key, all.split(ZONE_DELIMITER).map(|zone| zone.trim().to_owned()).collect()));
        Self {
            free,
            zones: zones.collect(),
            name: metadata.name.into(),
            terms: required.as_ref().map(NodeSelectorTerm::all_of),
        }
    }
}

impl Class {
    /// Parses a StorageClass.
    pub fn of(object: StorageClass) -> Self {
        Self { name: object.metadata.name.to_string(), object }
    }
}

impl Keyed for Claim {
    type Key = NamespacedName;

    fn key(&self) -> &NamespacedName {
        &self.key
    }
}

impl Keyed for Volume {
    type Key = String;

    fn key(&self) -> &String {
        &self.name
    }
}

impl Keyed for Class {
    type Key = String;

    fn key(&self) -> &String {
        &self.name
    }
}

/// All claims, volumes and storage classes.
#[derive(Debug, Default)]
pub struct Volumes {
    /// PersistentVolumeClaims.
    pub claims: Store<Claim>,
    /// PersistentVolumes.
    pub volumes: Store<Volume>,
    /// StorageClasses.
    pub classes: Store<Class>,
    /// Nodes and volumes of claims that are being bound for an assumed pod.
    assumed: HashMap<NamespacedName, ClaimBinding>,
}

/// What the claims of a pod require of a node.
#[derive(Debug, Default)]
pub struct VolumeRequirements<'a> {
    /// Node affinity of each volume that has one.
    pub terms: Vec<&'a [NodeSelectorTerm]>,
    /// Zones and regions of each volume that has some.
    pub zones: Vec<&'a [(String, Vec<String>)]>,
    /// Whether a claim is bound to a volume that does not exist.
    pub is_volume_missing: bool,
    /// Claims that are bound to a volume of the chosen node.
    pub unbound: Vec<UnboundClaim<'a>>,
    /// Names of ReadWriteOncePod claims.
    pub read_write_once_pod: Vec<&'a str>,
}

impl Volumes {
    /// Computes the requirements of a pod's claims.
    ///
    /// # Errors
    /// If the pod fits no node. The error is the message of the stock scheduler.
    pub fn requirements_of<'a>(&'a self, pod: &'a Pod) -> Result<VolumeRequirements<'a>, String> {
        let mut requirements = VolumeRequirements::default();
        let mut is_immediate = false;
        for wanted in &pod.spec.claims {
            let name = &wanted.name;
            let claim = self.claims.get(&(pod.namespace.clone(), name.clone())).ok_or_else(|| {
                if wanted.is_ephemeral {
                    return format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                    );
                }
                format!("persistentvolumeclaim \"{name}\" not found")
            })?;
            let volume = &claim.volume;
            if claim.is_lost {
                return Err(format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            }
            if claim.is_terminating {
                return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            if claim.is_read_write_once_pod {
                requirements.read_write_once_pod.push(name);
            }
            if claim.is_bound {
                match self.volumes.get(volume) {
                    Some(volume) => {
                        requirements.terms.extend(volume.terms.as_deref());
                        requirements
                            .zones
                            .extend((!volume.zones.is_empty()).then_some(volume.zones.as_slice()));
                    }
                    None => requirements.is_volume_missing = true,
                }
            } else if let Some(unbound) = self.unbound(claim) {
                requirements.unbound.push(unbound);
            } else {
                is_immediate = true;
            }
        }
        // Small claims first, so that each gets the smallest volume.
        requirements.unbound.sort_by_key(UnboundClaim::requested);
        if is_immediate { Err(UNBOUND.to_owned()) } else { Ok(requirements) }
    }
}

/// The message if a claim with immediate binding is not bound yet.
const UNBOUND: &str = "pod has unbound immediate PersistentVolumeClaims";

#[cfg(test)]
mod tests;
