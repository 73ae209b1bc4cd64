//! Index of the objects that a node may reach through its pods. Pure.
//!
//! A node references its pods, the objects that these name, and its own attachments and slices. The index counts
//! references, so an object that two pods name stays reachable until both pods are gone. A claim also gives access
//! to its bound volume and to the Secrets of that volume.
//!
//! A decision usually needs one lookup. A Secret that no pod names needs one lookup per claim. The index takes
//! about 0.5 KiB per pod.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::references::{self, ReferenceHash};
use crate::auth::rbac::index::text;

/// Kinds of objects that a node may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `pods`.
    Pod,
    /// `secrets`.
    Secret,
    /// `configmaps`.
    ConfigMap,
    /// `persistentvolumeclaims`.
    Claim,
    /// `persistentvolumes`.
    Volume,
    /// `serviceaccounts`.
    ServiceAccount,
    /// `resourceclaims`.
    ResourceClaim,
    /// `volumeattachments`.
    Attachment,
    /// `resourceslices`.
    Slice,
    /// `networkpolicies`.
    Policy,
}

impl Kind {
    /// Name of the resource in the storage, with its group.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Claim => "persistentvolumeclaims",
            Self::Volume => "persistentvolumes",
            Self::ServiceAccount => "serviceaccounts",
            Self::ResourceClaim => "resourceclaims.resource.k8s.io",
            Self::Attachment => "volumeattachments.storage.k8s.io",
            Self::Slice => "resourceslices.resource.k8s.io",
            Self::Policy => "networkpolicies.networking.k8s.io",
        }
    }
}

/// An object key: kind, namespace (empty if cluster-scoped) and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace, empty if cluster-scoped.
    pub namespace: Box<str>,
    /// Name of the object.
    pub name: Box<str>,
}

impl Object {
    /// Creates the key of an object.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

/// The references of all nodes.
#[derive(Debug, Default)]
pub struct Index {
    nodes: HashMap<Arc<str>, NodeReferences>,
    /// Objects bound to a node (pods, attachments, slices), and the references they contribute.
    pinned: HashMap<Arc<Object>, Pinned>,
    /// Bound volumes by name.
    volumes: HashMap<Box<str>, Volume>,
    of_claims: HashMap<Object, BTreeSet<Box<str>>>,
    /// The names of the NetworkPolicies of each namespace that has some.
    policies: HashMap<Box<str>, BTreeSet<Box<str>>>,
    /// The mirror pods. Nodes write these, so they give no access to other objects.
    mirrors: HashSet<Object>,
}

/// Reference counts of one node.
#[derive(Debug, Default)]
struct NodeReferences {
    claims: HashMap<Arc<Object>, u32>,
    others: HashMap<Arc<Object>, u32>,
}

#[derive(Debug)]
struct Pinned {
    node: Arc<str>,
    objects: Box<[Arc<Object>]>,
    /// Hash of the pod's references, if known.
    reference_hash: Option<ReferenceHash>,
}

#[derive(Debug)]
struct Volume {
    claim: Object,
    secrets: Box<[Object]>,
}

/// Result and cost of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Whether the node reaches the object.
    pub found: bool,
    /// Number of table lookups that were needed.
    pub steps: usize,
}

impl Index {
    /// Adds or replaces an object.
    pub fn put(&mut self, kind: Kind, object: &Map<String, Value>) {
        let own = Object::new(kind, text(object, "namespace"), text(object, "name"));
        self.remove(&own);
        let node = || object.get("spec").and_then(|spec| spec.get("nodeName")?.as_str()).unwrap_or_default();
        match kind {
            // The node writes its mirror pods and could name any object in them.
            Kind::Pod if references::is_mirror(object) => {
                self.mirrors.insert(own.clone());
                self.pin(node(), own, Vec::new());
            }
            Kind::Pod => self.pin(node(), own, references::of_pod(object)),
            Kind::Attachment | Kind::Slice => self.pin(node(), own, Vec::new()),
            Kind::Volume => self.bind(&own.name, object),
            Kind::Policy => drop(self.policies.entry(own.namespace).or_default().insert(own.name)),
            Kind::Secret | Kind::ConfigMap | Kind::Claim | Kind::ServiceAccount | Kind::ResourceClaim => {}
        }
    }

    /// Whether the indexed pod has the same reference hash.
    pub fn is_unchanged(&self, object: &Object, reference_hash: ReferenceHash) -> bool {
        self.pinned.get(object).is_some_and(|pinned| pinned.reference_hash == Some(reference_hash))
    }

    /// Stores the reference hash of a pod.
    pub fn set_hash(&mut self, object: &Object, reference_hash: ReferenceHash) {
        if let Some(pinned) = self.pinned.get_mut(object) {
            pinned.reference_hash = Some(reference_hash);
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, object: &Object) {
        if object.kind == Kind::Volume {
            return self.unbind(&object.name);
        }
        if object.kind == Kind::Policy {
            if let Some(names) = self.policies.get_mut(&object.namespace) {
                names.remove(&object.name);
                if names.is_empty() {
                    self.policies.remove(&object.namespace);
                }
            }
            return;
        }
        self.mirrors.remove(object);
        let Some(Pinned { node, objects, .. }) = self.pinned.remove(object) else { return };
        let Some(held) = self.nodes.get_mut(&node) else { return };
        for object in &objects {
            held.drop_one(object);
        }
        if held.is_empty() {
            self.nodes.remove(&node);
        }
    }

    /// Whether a node reaches an object.
    pub fn reaches(&self, node: &str, object: &Object) -> bool {
        self.lookup(node, object).found
    }

    /// Whether a NetworkPolicy exists in a namespace in which the node has a pod that is no mirror pod. The cost is one
    /// lookup per pod of the node.
    pub fn has_policies(&self, node: &str) -> bool {
        let held = self.nodes.get(node).filter(|_| !self.policies.is_empty());
        let mut objects = held.into_iter().flat_map(|held| held.others.keys());
        objects.any(|object| {
            object.kind == Kind::Pod
                && self.policies.contains_key(&object.namespace)
                && !self.mirrors.contains(&**object)
        })
    }

    /// Does the same as [`Self::reaches`], and counts the table lookups.
    pub fn lookup(&self, node: &str, object: &Object) -> Lookup {
        let Some(held) = self.nodes.get(node) else { return Lookup { found: false, steps: 1 } };
        match object.kind {
            Kind::Volume => {
                let volume = self.volumes.get(&object.name).filter(|_| object.namespace.is_empty());
                let found = volume.is_some_and(|volume| held.claims.contains_key(&volume.claim));
                Lookup { found, steps: 3 }
            }
            Kind::Claim => Lookup { found: held.claims.contains_key(object), steps: 2 },
            Kind::Secret if !held.others.contains_key(object) => self.lookup_in_volumes(held, object),
            _ => Lookup { found: held.others.contains_key(object), steps: 2 },
        }
    }

    /// Whether a volume that is bound to a claim of the node names a Secret.
    fn lookup_in_volumes(&self, held: &NodeReferences, secret: &Object) -> Lookup {
        let mut steps = 2;
        for claim in held.claims.keys() {
            steps += 1;
            for volume in self.of_claims.get(claim.as_ref()).into_iter().flatten() {
                steps += 1;
                if self.volumes.get(volume).is_some_and(|volume| volume.secrets.contains(secret)) {
                    return Lookup { found: true, steps };
                }
            }
        }
        Lookup { found: false, steps }
    }

    /// Adds an object that is bound to a node, and its references.
    fn pin(&mut self, node: &str, own: Object, named: Vec<Object>) {
        if node.is_empty() {
            return;
        }
        let node = match self.nodes.get_key_value(node) {
            Some((node, _)) => node.clone(),
            None => Arc::from(node),
        };
        let held = self.nodes.entry(node.clone()).or_default();
        let own = Arc::new(own);
        let mut objects = vec![held.add_one(own.clone())];
        objects.extend(named.into_iter().map(|object| held.add_one(Arc::new(object))));
        self.pinned.insert(own, Pinned { node, objects: objects.into(), reference_hash: None });
    }

    fn bind(&mut self, name: &str, volume: &Map<String, Value>) {
        let Some(references::VolumeReferences { claim, secrets }) = references::of_volume(volume) else {
            return;
        };
        self.of_claims.entry(claim.clone()).or_default().insert(name.into());
        self.volumes.insert(name.into(), Volume { claim, secrets: secrets.into() });
    }

    fn unbind(&mut self, name: &str) {
        let Some(Volume { claim, .. }) = self.volumes.remove(name) else { return };
        if let Some(volumes) = self.of_claims.get_mut(&claim) {
            volumes.remove(name);
            if volumes.is_empty() {
                self.of_claims.remove(&claim);
            }
        }
    }
}

impl NodeReferences {
    fn table(&mut self, kind: Kind) -> &mut HashMap<Arc<Object>, u32> {
        if kind == Kind::Claim { &mut self.claims } else { &mut self.others }
    }

    /// Increments a reference count and returns the stored key, so that each key is stored once per node.
    fn add_one(&mut self, object: Arc<Object>) -> Arc<Object> {
        let table = self.table(object.kind);
        let object = table.get_key_value(&object).map_or(object, |(known, _)| known.clone());
        *table.entry(object.clone()).or_default() += 1;
        object
    }

    fn drop_one(&mut self, object: &Arc<Object>) {
        let table = self.table(object.kind);
        if let Some(count) = table.get_mut(object) {
            *count -= 1;
            if *count == 0 {
                table.remove(object);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.others.is_empty()
    }
}

#[cfg(test)]
mod tests;
