//! Decides which objects the files want, in which order, and which objects of the inventory they no longer name. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use client::Kind;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::{Duration, Instant};

use super::files::{File, Fingerprint, Scan};
use super::inventory::{Applied, Inventory};
use super::manifests::Manifest;
use crate::controllers::discovery::Served;

/// How long the files must stay as they are before something is pruned. Editors and `rsync` replace a file in less.
pub const CONFIRM: Duration = Duration::from_secs(5);
/// The namespace of manifests that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// Group and kind of objects that others need, in the order in which they are applied.
const FIRST: [(&str, &str); 2] = [("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")];
/// Number of hexadecimal digits of a digest, enough to tell sets of objects apart.
const DIGEST_DIGITS: usize = 16;

/// What identifies an object. The version does not distinguish objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
}

/// The objects that all files name.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// In the order in which they are applied.
    pub wanted: Vec<Wanted<'a>>,
    /// Objects that an earlier file has, too, and files that cannot be used.
    pub problems: Vec<String>,
    keys: BTreeSet<ObjectKey>,
    /// Group and kind of manifests that are not served.
    unserved: BTreeSet<(String, String)>,
}

impl<'a> Plan<'a> {
    pub fn new(files: &'a [File], served: &[Served]) -> Self {
        let mut plan = Self::default();
        let mut owners: BTreeMap<ObjectKey, &str> = BTreeMap::new();
        for file in files {
            let manifests = match &file.content {
                Ok(manifests) => manifests,
                Err(why) => {
                    plan.problems.push(format!("{}: {why}", file.name));
                    continue;
                }
            };
            for manifest in manifests.iter() {
                let kind = kind_of(served, manifest.group(), &manifest.kind);
                let key = ObjectKey::of(manifest, kind);
                if let Some(earlier) = owners.get(&key) {
                    let why = format!("{}: {manifest}: {earlier} names it, too, and is applied", file.name);
                    plan.problems.push(why);
                    continue;
                }
                owners.insert(key.clone(), &file.name);
                if kind.is_none() {
                    plan.unserved.insert((key.group.clone(), key.kind.clone()));
                }
                // The version of the manifest need not be the preferred one.
                let kind =
                    kind.map(|kind| Kind { version: manifest.version().to_owned().into(), ..kind.clone() });
                plan.wanted.push(Wanted { key, kind, file: &file.name, manifest });
            }
        }
        plan.wanted.sort_by_key(|wanted| wanted.key.rank());
        plan.keys = owners.into_keys().collect();
        plan
    }

    /// Whether a file names the object.
    pub fn names(&self, key: &ObjectKey) -> bool {
        self.keys.contains(key)
    }

    /// Whether the kind of an object is not served.
    pub fn has_unserved(&self) -> bool {
        !self.unserved.is_empty()
    }

    /// The objects of the inventory that no file names, in the order in which they are deleted: an object before its
    /// kind and its namespace. If a manifest of the same kind is not served, its scope is unknown, so it may be any.
    pub fn absent(&self, inventory: &Inventory) -> Vec<ObjectKey> {
        let is_unserved = |key: &ObjectKey| self.unserved.contains(&(key.group.clone(), key.kind.clone()));
        let keys = inventory.objects.keys().filter(|key| !self.names(key) && !is_unserved(key));
        let mut absent: Vec<ObjectKey> = keys.cloned().collect();
        absent.sort_by_key(|key| Reverse(key.rank()));
        absent
    }

    /// Whether the directory is another one than that of the inventory, such as the place of a file system that is not
    /// mounted: it has neither a file nor an object of it.
    pub fn is_foreign(&self, files: &[File], inventory: &Inventory) -> bool {
        let names: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let is_known =
            |(key, applied): (&ObjectKey, &Applied)| self.names(key) || names.contains(applied.file.as_str());
        !inventory.objects.is_empty() && !inventory.objects.iter().any(is_known)
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

/// Since when the files are as they are. Whatever is removed must still be absent in a scan after [`CONFIRM`].
#[derive(Debug, Default)]
pub struct Stability {
    last: Option<(Fingerprint, Instant)>,
}

impl Stability {
    /// Compares a scan with the one before. Returns when its removals are confirmed if a later scan is the same, or
    /// `None` if the scan is not complete.
    pub fn confirmed_at(&mut self, scan: &Scan, now: Instant) -> Option<Instant> {
        if !scan.is_complete() {
            self.last = None;
            return None;
        }
        let fingerprint = scan.fingerprint();
        match &self.last {
            Some((last, since)) if *last == fingerprint => Some(*since + CONFIRM),
            _ => {
                self.last = Some((fingerprint, now));
                Some(now + CONFIRM)
            }
        }
    }
}
