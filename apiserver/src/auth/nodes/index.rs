//! Which objects a node reaches through its pods, kept by what changes. Pure.
//!
//! A node reaches what it holds: its pods, what they name, attachments and slices of its own, each counted, so that what two
//! pods name stays until both are gone; and through a claim the volume that is bound to it and that volume's secrets.
//! A decision looks at one node's table, at one place nearly always; a secret that no pod names costs a look a claim.
//! What is kept is about half a kilobyte a pod beside the pod itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::names::{self, Said};
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
}

impl Kind {
    /// The name in the store.
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
        }
    }
}

/// An object by its kind, its namespace, empty where it lies in none, and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

impl Object {
    /// That object.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

/// What nodes reach.
#[derive(Debug, Default)]
pub struct Index {
    nodes: HashMap<Arc<str>, Held>,
    /// Whatever is on a node: which node, and what it gives that node.
    given: HashMap<Arc<Object>, Given>,
    /// Volumes that are bound to a claim, by name.
    volumes: HashMap<Box<str>, Volume>,
    of_claims: HashMap<Object, BTreeSet<Box<str>>>,
}

/// What a node holds, and how often.
#[derive(Debug, Default)]
struct Held {
    claims: HashMap<Arc<Object>, u32>,
    others: HashMap<Arc<Object>, u32>,
}

#[derive(Debug)]
struct Given {
    node: Arc<str>,
    objects: Box<[Arc<Object>]>,
    /// What it said when it was read, where that is known.
    said: Option<Said>,
}

#[derive(Debug)]
struct Volume {
    claim: Object,
    secrets: Box<[Object]>,
}

/// How a question came out, and how many places were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Whether the node reaches the object.
    pub found: bool,
    /// Places in tables.
    pub steps: usize,
}

impl Index {
    /// Takes in an object, in place of what was there under its name.
    pub fn put(&mut self, kind: Kind, object: &Map<String, Value>) {
        let own = Object::new(kind, text(object, "namespace"), text(object, "name"));
        self.remove(&own);
        let node = || object.get("spec").and_then(|spec| spec.get("nodeName")?.as_str()).unwrap_or_default();
        match kind {
            // An image is made by its node, which could name in it whatever it likes to read.
            Kind::Pod if names::is_mirror(object) => self.give(node(), own, Vec::new()),
            Kind::Pod => self.give(node(), own, names::of_pod(object)),
            Kind::Attachment | Kind::Slice => self.give(node(), own, Vec::new()),
            Kind::Volume => self.bind(&own.name, object),
            Kind::Secret | Kind::ConfigMap | Kind::Claim | Kind::ServiceAccount | Kind::ResourceClaim => {}
        }
    }

    /// Whether an object that is on a node said that when it was taken in.
    pub fn has_heard(&self, object: &Object, said: Said) -> bool {
        self.given.get(object).is_some_and(|given| given.said == Some(said))
    }

    /// Remembers what an object on a node said when it was taken in.
    pub fn note(&mut self, object: &Object, said: Said) {
        if let Some(given) = self.given.get_mut(object) {
            given.said = Some(said);
        }
    }

    /// Forgets an object.
    pub fn remove(&mut self, object: &Object) {
        if object.kind == Kind::Volume {
            return self.unbind(&object.name);
        }
        let Some(Given { node, objects, .. }) = self.given.remove(object) else { return };
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
        self.look(node, object).found
    }

    /// The same, with what it took.
    pub fn look(&self, node: &str, object: &Object) -> Looked {
        let Some(held) = self.nodes.get(node) else { return Looked { found: false, steps: 1 } };
        match object.kind {
            Kind::Volume => {
                let volume = self.volumes.get(&object.name).filter(|_| object.namespace.is_empty());
                let found = volume.is_some_and(|volume| held.claims.contains_key(&volume.claim));
                Looked { found, steps: 3 }
            }
            Kind::Claim => Looked { found: held.claims.contains_key(object), steps: 2 },
            Kind::Secret if !held.others.contains_key(object) => self.look_in_volumes(held, object),
            _ => Looked { found: held.others.contains_key(object), steps: 2 },
        }
    }

    /// Whether a volume of a claim that the node holds names a secret.
    fn look_in_volumes(&self, held: &Held, secret: &Object) -> Looked {
        let mut steps = 2;
        for claim in held.claims.keys() {
            steps += 1;
            for volume in self.of_claims.get(claim.as_ref()).into_iter().flatten() {
                steps += 1;
                if self.volumes.get(volume).is_some_and(|volume| volume.secrets.contains(secret)) {
                    return Looked { found: true, steps };
                }
            }
        }
        Looked { found: false, steps }
    }

    /// Gives a node an object of its own, and what that names.
    fn give(&mut self, node: &str, own: Object, named: Vec<Object>) {
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
        self.given.insert(own, Given { node, objects: objects.into(), said: None });
    }

    fn bind(&mut self, name: &str, volume: &Map<String, Value>) {
        let Some(names::OfVolume { claim, secrets }) = names::of_volume(volume) else { return };
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

impl Held {
    fn table(&mut self, kind: Kind) -> &mut HashMap<Arc<Object>, u32> {
        if kind == Kind::Claim { &mut self.claims } else { &mut self.others }
    }

    /// Counts an object; the one that stands in the table, so that its name is kept once a node.
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
