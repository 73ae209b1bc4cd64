//! The revisions of a pod template, as StatefulSets and DaemonSets keep them in ControllerRevisions. Pure.
//!
//! Data, hashes and names are those of the stock controllers, so either can continue with the revisions of the other.

use std::cmp::Ordering;
use std::collections::HashSet;

use client::Kind;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::names::safe_letters;
use crate::controllers::object::Object;
use crate::objects::StringMap;
use crate::objects::controller_revision::PATCH_DIRECTIVE;
use crate::objects::template::TemplateDigest;

/// The label of a ControllerRevision with the hash of its data.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The label of a pod with its revision: the name of the ControllerRevision in a StatefulSet, and its hash in a
/// DaemonSet. ControllerRevisions of DaemonSets also have it.
pub const POD_REVISION_LABEL: &str = "controller-revision-hash";
/// Maximum length of the owner's name in the name of a revision, as in stock Kubernetes.
const OWNER_LENGTH: usize = 223;

/// The fields of a ControllerRevision that controllers of workloads read.
#[derive(Clone, Copy, Debug)]
pub struct Revision<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub resource_version: &'a str,
    pub labels: &'a StringMap,
    pub created: Option<Timestamp>,
    /// The number of the revision. The highest one is the newest.
    pub number: i64,
    /// The digest of the pod template. `None` if the data is no template.
    pub template: Option<TemplateDigest>,
}

impl<'a> Revision<'a> {
    /// Reads a cached ControllerRevision. Returns `None` for another kind.
    pub fn of(object: &'a Object) -> Option<Self> {
        let fields = object.revision()?;
        Some(Self {
            name: &object.name,
            uid: &object.uid,
            resource_version: &object.resource_version,
            labels: &object.labels,
            created: object.creation_timestamp,
            number: fields.number,
            template: fields.template,
        })
    }

    /// Compares two revisions by number. Of two with the same number, the older one is less.
    pub fn compare(&self, other: &Self) -> Ordering {
        let order = |one: &Self| (one.number, one.created);
        order(self).cmp(&order(other)).then_with(|| self.name.cmp(other.name))
    }
}

/// How the present template becomes the newest revision.
#[derive(Clone, Copy, Debug)]
pub enum Update<'a> {
    /// The newest revision has the template.
    Current(Revision<'a>),
    /// An older revision has the template, because of a rollback. It gets the next number.
    Renumber { revision: Revision<'a>, number: i64 },
    /// No revision has the template.
    Create { number: i64 },
}

/// Decides how the template becomes the newest of an owner's revisions. The order of the revisions does not matter.
pub fn update<'a>(revisions: &[Revision<'a>], template: TemplateDigest) -> Update<'a> {
    let newest = |all: &mut dyn Iterator<Item = Revision<'a>>| all.max_by(Revision::compare);
    let last = newest(&mut revisions.iter().copied());
    let number = last.map_or(1, |last| last.number.saturating_add(1));
    match newest(&mut revisions.iter().copied().filter(|one| one.template == Some(template))) {
        None => Update::Create { number },
        Some(equal) if last.is_some_and(|last| last.template == Some(template)) => Update::Current(equal),
        Some(revision) => Update::Renumber { revision, number },
    }
}

/// Returns the revisions to delete: the oldest above the limit, without those whose names are in `live`. An owner
/// without a limit keeps all.
pub fn surplus<'a>(
    revisions: &[Revision<'a>],
    live: &HashSet<&str>,
    limit: Option<i64>,
) -> Vec<Revision<'a>> {
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return Vec::new() };
    let mut old: Vec<Revision<'a>> =
        revisions.iter().copied().filter(|one| !live.contains(one.name)).collect();
    old.sort_by(Revision::compare);
    old.truncate(old.len().saturating_sub(limit));
    old
}

/// Returns the data of a revision: the strategic merge patch that restores the template.
///
/// It is written as the stock controllers write it, with sorted fields and with the `resources` of every container,
/// so that they compute the same hash. Clients compare the data of DaemonSets byte by byte, and there every stock version
/// writes `creationTimestamp: null`. For StatefulSets, versions from 1.34 omit it.
pub fn data(template: &Value, owner: &Kind) -> Value {
    let mut template = template.clone();
    if owner.is(&Kind::DAEMON_SET)
        && let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("creationTimestamp".to_owned(), Value::Null);
    }
    for containers in ["/spec/containers", "/spec/initContainers"] {
        let containers = template.pointer_mut(containers).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.entry("resources").or_insert_with(|| Value::Object(Map::new()));
        }
    }
    template[PATCH_DIRECTIVE] = "replace".into();
    template.sort_all_objects();
    json!({"spec": {"template": template}})
}

/// Returns the hash of the data of a revision, as the stock controllers compute it: 32-bit FNV-1 of the JSON and the
/// decimal number of collisions, in letters that are safe in names.
pub fn hash(data: &Value, collisions: i64) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in format!("{data}{collisions}").bytes() {
        hash = hash.wrapping_mul(0x0100_0193) ^ u32::from(byte);
    }
    safe_letters(hash.to_string().as_bytes())
}

/// Returns the name of a revision. Shortens a long name of the owner.
pub fn revision_name(owner: &str, hash: &str) -> String {
    let end = owner.floor_char_boundary(OWNER_LENGTH);
    format!("{}-{hash}", owner.get(..end).unwrap_or(owner))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]
    use super::*;
    use crate::objects::controller_revision::RevisionData;

    fn digest(image: &str) -> TemplateDigest {
        TemplateDigest::of(&json!({"spec": {"containers": [{"name": "c", "image": image}]}}))
    }

    /// Revisions by name, number and image.
    fn revisions<'a>(all: &[(&'a str, i64, &str)], labels: &'a StringMap) -> Vec<Revision<'a>> {
        let revision = |(name, number, image): &(&'a str, i64, &str)| Revision {
            name,
            uid: name,
            resource_version: "1",
            labels,
            created: None,
            number: *number,
            template: Some(digest(image)),
        };
        all.iter().map(revision).collect()
    }

    #[test]
    fn the_template_becomes_the_newest_revision() {
        let labels = StringMap::default();
        let all = revisions(&[("c", 5, "c"), ("a", 2, "a"), ("b", 3, "b")], &labels);
        let decided = |all: &[Revision<'_>], image: &str| match update(all, digest(image)) {
            Update::Current(revision) => format!("current {}", revision.name),
            Update::Renumber { revision, number } => format!("renumber {} {number}", revision.name),
            Update::Create { number } => format!("create {number}"),
        };
        assert_eq!(decided(&[], "a"), "create 1");
        assert_eq!(decided(&all, "d"), "create 6");
        assert_eq!(decided(&all, "c"), "current c");
        assert_eq!(decided(&all, "a"), "renumber a 6");
        // Of revisions with the same template or number, the last one counts.
        let same = revisions(&[("x", 1, "a"), ("y", 2, "a"), ("z", 2, "b")], &labels);
        assert_eq!((decided(&same, "a"), decided(&same, "b")), ("renumber y 3".into(), "current z".into()));
        let other = [Revision { template: None, ..same[0] }];
        assert_eq!(decided(&other, "a"), "create 2");
    }

    #[test]
    fn the_oldest_revisions_above_the_limit_are_deleted() {
        let labels = StringMap::default();
        let all = revisions(&[("d", 4, "d"), ("a", 1, "a"), ("c", 3, "c"), ("b", 2, "b")], &labels);
        let live: HashSet<&str> = ["a", "d"].into();
        let names = |limit: Option<i64>| -> Vec<&str> {
            surplus(&all, &live, limit).iter().map(|one| one.name).collect()
        };
        assert_eq!((names(Some(0)), names(Some(1)), names(Some(2))), (vec!["b", "c"], vec!["b"], vec![]));
        assert_eq!((names(None), names(Some(-1))), (vec![], vec![]));
    }

    #[test]
    fn data_and_hash_are_those_of_the_stock_controllers() {
        // The template of the stock compatibility test, in the order of another client and without `resources`.
        let template = json!({
            "spec": {
                "containers": [{"name": "test", "image": "test", "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            },
            "metadata": {"labels": {"app": "foo"}, "annotations": {"test": "value"}},
        });
        let for_daemon_set = data(&template, &Kind::DAEMON_SET).to_string();
        let metadata =
            r#""metadata":{"annotations":{"test":"value"},"creationTimestamp":null,"labels":{"app":"foo"}}"#;
        assert!(for_daemon_set.contains(metadata), "{for_daemon_set}");
        let data = data(&template, &Kind::STATEFUL_SET);
        assert_eq!(hash(&data, 0), "776999688b");
        assert_ne!(hash(&data, 1), hash(&data, 0));
        assert_eq!(RevisionData::from(data).digest(), Some(TemplateDigest::of(&template)));
    }

    #[test]
    fn the_name_of_a_revision_has_a_limit() {
        assert_eq!(revision_name("web", "776999688b"), "web-776999688b");
        assert_eq!(revision_name(&"w".repeat(240), "776999688b").len(), 234);
    }
}
