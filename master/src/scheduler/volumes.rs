//! Claims of pods, the volumes they are bound to, and when a class binds them.

use serde_json::Value;

use super::keyed::{Keyed, Place, Table};
use super::pod::{NodeTerm, Pod};
use super::read::{at, labels, list, text_at, texts};
use crate::controllers::Json;

/// What is read of a PersistentVolumeClaim.
pub const CLAIM_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.deletionTimestamp",
    "metadata.annotations",
    "spec.volumeName",
    "spec.storageClassName",
    "spec.accessModes",
    "status.phase",
];
/// What is read of a PersistentVolume.
pub const VOLUME_FIELDS: &[&str] =
    &["metadata.name", "metadata.labels", "metadata.resourceVersion", "spec.nodeAffinity"];
/// What is read of a StorageClass.
pub const CLASS_FIELDS: &[&str] = &["metadata.name", "metadata.resourceVersion", "volumeBindingMode"];

/// Labels that say where a volume or a node is, the newer ones first; the stock scheduler's.
pub const ZONES: &[&str] = &[
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// The label that says today what that one said.
pub fn newer(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        key => key,
    }
}

/// What stands between zones where a volume is in several.
const BETWEEN: &str = "__";

/// What whoever binds a claim writes on it when that is done.
const BOUND: &str = "pv.kubernetes.io/bind-completed";

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    key: Place,
    volume: String,
    class: String,
    is_bound: bool,
    is_lost: bool,
    is_ending: bool,
    /// One pod may use it at a time.
    is_one_pods: bool,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    name: String,
    /// Where it can be reached, unless that is everywhere.
    terms: Option<Vec<NodeTerm>>,
    /// In which zones and regions it is, as its labels say it.
    zones: Vec<(String, Vec<String>)>,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    name: String,
    /// It binds a claim once a pod that uses it has its node.
    waits: bool,
}

impl Claim {
    /// Reads one.
    pub fn of(object: &Json) -> Self {
        let phase = text_at(object, "status.phase");
        let volume = text_at(object, "spec.volumeName");
        let annotations = at(object, "metadata.annotations").and_then(Value::as_object);
        let is_bound = phase == "Bound" || annotations.is_some_and(|all| all.contains_key(BOUND));
        Self {
            key: (text_at(object, "metadata.namespace"), text_at(object, "metadata.name")),
            is_bound: is_bound && !volume.is_empty(),
            volume,
            class: text_at(object, "spec.storageClassName"),
            is_lost: phase == "Lost",
            is_ending: at(object, "metadata.deletionTimestamp").is_some_and(|time| !time.is_null()),
            is_one_pods: texts(at(object, "spec.accessModes")).iter().any(|mode| mode == "ReadWriteOncePod"),
        }
    }
}

impl Volume {
    /// Reads one.
    pub fn of(object: &Json) -> Self {
        let terms = at(object, "spec.nodeAffinity.required.nodeSelectorTerms");
        let terms = terms.map(|terms| list(Some(terms)).map(NodeTerm::of).collect());
        let labels = labels(at(object, "metadata.labels"));
        let zones = ZONES.iter().filter_map(|key| Some(((*key).to_owned(), labels.get(*key)?)));
        let zones =
            zones.map(|(key, all)| (key, all.split(BETWEEN).map(|zone| zone.trim().to_owned()).collect()));
        Self { name: text_at(object, "metadata.name"), terms, zones: zones.collect() }
    }
}

impl Class {
    /// Reads one.
    pub fn of(object: &Json) -> Self {
        let mode = object.get("volumeBindingMode").and_then(Value::as_str);
        Self { name: text_at(object, "metadata.name"), waits: mode == Some("WaitForFirstConsumer") }
    }
}

impl Keyed for Claim {
    type Key = Place;

    fn key(&self) -> &Place {
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

/// All claims, volumes and classes there are.
#[derive(Debug, Default)]
pub struct Volumes {
    /// Claims.
    pub claims: Table<Claim>,
    /// Volumes.
    pub volumes: Table<Volume>,
    /// Classes.
    pub classes: Table<Class>,
}

/// What the claims of a pod ask of nodes.
#[derive(Debug, Default)]
pub struct Asked<'a> {
    /// Where its volumes can be reached, of those that cannot be everywhere.
    pub terms: Vec<&'a [NodeTerm]>,
    /// In which zones and regions they are, of those that say so.
    pub zones: Vec<&'a [(String, Vec<String>)]>,
    /// One is bound to a volume that is not there.
    pub is_volume_gone: bool,
    /// One would be bound on the node, which nobody does.
    pub is_unbound: bool,
    /// Claims that one pod may use at a time.
    pub one_pods: Vec<&'a str>,
}

impl Volumes {
    /// What the claims of a pod ask of nodes.
    ///
    /// # Errors
    /// Why no node at all can have it, in the words of the stock scheduler.
    pub fn asked<'a>(&'a self, pod: &'a Pod) -> Result<Asked<'a>, String> {
        let mut asked = Asked::default();
        let mut is_immediate = false;
        for wanted in &pod.wants.claims {
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
            if claim.is_ending {
                return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            if claim.is_one_pods {
                asked.one_pods.push(name);
            }
            if claim.is_bound {
                match self.volumes.get(volume) {
                    Some(volume) => {
                        asked.terms.extend(volume.terms.as_deref());
                        asked.zones.extend((!volume.zones.is_empty()).then_some(volume.zones.as_slice()));
                    }
                    None => asked.is_volume_gone = true,
                }
            } else if volume.is_empty() && self.classes.get(&claim.class).is_some_and(|class| class.waits) {
                asked.is_unbound = true;
            } else {
                is_immediate = true;
            }
        }
        if is_immediate { Err(UNBOUND.to_owned()) } else { Ok(asked) }
    }
}

/// A claim that is to be bound before any pod uses it is not yet.
const UNBOUND: &str = "pod has unbound immediate PersistentVolumeClaims";

#[cfg(test)]
mod tests;
