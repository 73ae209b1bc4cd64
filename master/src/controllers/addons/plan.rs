//! Decides which objects the files want, in which order, and which objects of the inventory they no longer name. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use client::Kind;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::files::File;
use super::inventory::Inventory;
use super::manifests::Manifest;
use crate::controllers::discovery::Served;

/// The namespace of manifests that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// Group and kind of objects that others need, in the order in which they are applied.
const FIRST: [(&str, &str); 2] = [("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")];
/// A directory with less than this part of its former files, one third, is another one.
const KNOWN_PART: usize = 3;
/// Number of hexadecimal digits of a digest, enough to tell sets of objects apart.
const DIGEST_DIGITS: usize = 16;

/// What identifies an object. The version does not distinguish objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectKey {
    pub group: String,
    pub kind: String,
    /// Empty for cluster-scoped objects, never for others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// The key of a manifest. The scope of the kind decides about the namespace: a namespaced object without one is in
    /// `default`, and a cluster-scoped object has none. If the kind is not served, the scope is unknown.
    fn of(manifest: &Manifest, kind: Option<&Kind>) -> Self {
        let namespace = match kind.map(|kind| kind.namespaced) {
            Some(false) => "",
            Some(true) if manifest.namespace.is_empty() => DEFAULT_NAMESPACE,
            Some(true) | None => &manifest.namespace,
        };
        Self {
            group: manifest.group().to_owned(),
            kind: manifest.kind.clone(),
            namespace: namespace.to_owned(),
            name: manifest.name.clone(),
        }
    }

    /// The position in the order of creation.
    pub fn rank(&self) -> usize {
        let is_own = |(group, kind): &(&str, &str)| self.group == *group && self.kind == *kind;
        FIRST.iter().position(is_own).unwrap_or(FIRST.len())
    }

    /// Whether it is applied before the kinds of other objects are looked up.
    pub fn is_first(&self) -> bool {
        self.rank() < FIRST.len()
    }

    /// Whether it is a CustomResourceDefinition.
    pub fn is_definition(&self) -> bool {
        self.rank() == 1
    }

    /// Whether the deletion of this object, a Namespace or a definition, would delete the other one. A definition is
    /// named after its group, so every object of the group counts.
    pub fn contains(&self, other: &Self) -> bool {
        match self.rank() {
            0 => other.namespace == self.name,
            1 => self.name.split_once('.').is_some_and(|(_, group)| other.group == group),
            _ => false,
        }
    }

    /// Whether it is a Secret. No message may contain its values.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// Finds a kind among the served ones.
pub fn kind_of<'a>(served: &'a [Served], group: &str, kind: &str) -> Option<&'a Kind> {
    served.iter().map(|served| &served.kind).find(|of| of.group == group && of.kind == kind)
}

/// An object that a file names.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted<'a> {
    pub key: ObjectKey,
    /// The kind in the version of the manifest. `None` if it is not served.
    pub kind: Option<Kind>,
    pub file: &'a str,
    pub manifest: &'a Manifest,
    /// Whether it is not applied now, because another file may still name it.
    pub is_held: bool,
}

/// The objects that all files name.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// In the order in which they are applied.
    pub wanted: Vec<Wanted<'a>>,
    /// Objects that an earlier file has, too, and files that cannot be used.
    pub problems: Vec<String>,
    keys: BTreeSet<ObjectKey>,
    /// Whether the kind of a manifest is not served.
    has_unserved: bool,
}

impl<'a> Plan<'a> {
    pub fn new(files: &'a [File], served: &[Served]) -> Self {
        let mut plan = Self::default();
        let mut owners: BTreeMap<ObjectKey, &str> = BTreeMap::new();
        let mut kinds: BTreeMap<(&str, &str), &Kind> = BTreeMap::new();
        for Served { kind, .. } in served {
            kinds.entry((&kind.group, &kind.kind)).or_insert(kind);
        }
        for file in files {
            let manifests = match &file.content {
                Ok(manifests) => manifests,
                Err(why) => {
                    plan.problems.push(format!("{}: {why}", file.name));
                    continue;
                }
            };
            for manifest in manifests.iter() {
                let kind = kinds.get(&(manifest.group(), manifest.kind.as_str())).copied();
                let key = ObjectKey::of(manifest, kind);
                if let Some(earlier) = owners.get(&key) {
                    let why = format!("{}: {manifest}: {earlier} names it, too, and is applied", file.name);
                    plan.problems.push(why);
                    continue;
                }
                owners.insert(key.clone(), &file.name);
                plan.has_unserved |= kind.is_none();
                // The version of the manifest need not be the preferred one.
                let kind =
                    kind.map(|kind| Kind { version: manifest.version().to_owned().into(), ..kind.clone() });
                plan.wanted.push(Wanted { key, kind, file: &file.name, manifest, is_held: false });
            }
        }
        plan.wanted.sort_by_key(|wanted| wanted.key.rank());
        plan.keys = owners.into_keys().collect();
        plan
    }

    /// Holds back objects that another file applied if that file cannot be used, or is among the uncertain ones.
    pub fn hold(&mut self, files: &[File], uncertain: &BTreeSet<String>, inventory: &Inventory) {
        let broken = files.iter().filter(|file| file.content.is_err()).map(|file| file.name.as_str());
        let broken: BTreeSet<&str> = broken.collect();
        for wanted in &mut self.wanted {
            let Some(applied) = inventory.objects.get(&wanted.key) else { continue };
            let former = applied.file.as_str();
            if former == wanted.file {
                continue;
            }
            if broken.contains(former) {
                let Wanted { file, manifest, .. } = wanted;
                let why = format!("{file}: {manifest}: {former} applied it, and cannot be used now");
                self.problems.push(why);
                wanted.is_held = true;
            }
            wanted.is_held |= uncertain.contains(former);
        }
    }

    /// Whether a file names the object.
    pub fn names(&self, key: &ObjectKey) -> bool {
        self.keys.contains(key)
    }

    /// Whether the kind of an object is not served.
    pub fn has_unserved(&self) -> bool {
        self.has_unserved
    }

    /// The objects of the inventory that no file names, in the order in which they are deleted: an object before its
    /// kind and its namespace.
    pub fn absent(&self, inventory: &Inventory) -> Vec<ObjectKey> {
        let mut absent: Vec<ObjectKey> =
            inventory.objects.keys().filter(|key| !self.names(key)).cloned().collect();
        absent.sort_by_key(|key| Reverse(key.rank()));
        absent
    }

    /// Whether the directory is another one than that of the inventory, such as the mount point of a file system that
    /// is not mounted: it has less than a third of the former files, under the same names or by their objects.
    pub fn is_foreign(&self, names: &BTreeSet<&str>, inventory: &Inventory) -> bool {
        let (mut former, mut known) = (BTreeSet::new(), BTreeSet::new());
        for (key, applied) in &inventory.objects {
            former.insert(&applied.file);
            if names.contains(applied.file.as_str()) || self.names(key) {
                known.insert(&applied.file);
            }
        }
        known.len() * KNOWN_PART < former.len()
    }

    /// A digest of the names of the objects of each file. It depends on no values, which may be secret.
    pub fn sets(&self, files: &[File]) -> BTreeMap<String, String> {
        let mut hashers: BTreeMap<&str, Sha256> =
            files.iter().map(|file| (file.name.as_str(), Sha256::new())).collect();
        for wanted in &self.wanted {
            if let Some(hasher) = hashers.get_mut(wanted.file) {
                let ObjectKey { group, kind, namespace, name } = &wanted.key;
                hasher.update(format!("{group}/{kind}/{namespace}/{name}\n"));
            }
        }
        let digest = |hasher: Sha256| hex::encode(hasher.finalize()).chars().take(DIGEST_DIGITS).collect();
        hashers.into_iter().map(|(file, hasher)| (file.to_owned(), digest(hasher))).collect()
    }
}
