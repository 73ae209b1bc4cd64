//! Copy-on-write snapshots of the objects of a resource. Taking a snapshot is O(1).

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::{Object, Scope};
use crate::object::NODE_NAME;

/// Maximum number of snapshots per resource that are kept for paged lists. Further lists reconstruct their
/// snapshots from the history.
const SNAPSHOTS: usize = 8;
/// Maximum bytes of superseded objects that the kept snapshots of a resource may retain.
const SNAPSHOT_BYTES: usize = 8 * 1024 * 1024;

/// Sort key: namespace and name.
type Place = Arc<str>;

fn place(namespace: &str, name: &str) -> Place {
    // NUL sorts before all characters of names.
    format!("{namespace}\0{name}").into()
}

/// Objects by namespace and name, and by node, namespace and name. Clones share their structure.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    all: RedBlackTreeMapSync<Place, Object>,
    of_nodes: RedBlackTreeMapSync<Place, Object>,
    /// Number of objects per namespace.
    counts: RedBlackTreeMapSync<Arc<str>, usize>,
}

/// The prefix of a node's keys in the node index.
fn within(node: &str) -> String {
    format!("{node}\0")
}

/// The key of an object in the node index, or `None` if it has no node.
fn place_at_node(object: &Object, place: &str) -> Option<Place> {
    let node = object.field(NODE_NAME).filter(|node| !node.is_empty())?;
    Some((within(node) + place).into())
}

impl Objects {
    /// Returns an object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Object> {
        self.all.get(&*place(namespace, name))
    }

    /// Adds an object, and returns the one that it replaces.
    pub fn insert(&mut self, object: Object) -> Option<Object> {
        let place = place(object.namespace(), object.name());
        let before = self.all.get(&*place).cloned();
        let at_node = place_at_node(&object, &place);
        let was_at = before.as_ref().and_then(|before| place_at_node(before, &place));
        if let Some(was_at) = was_at.filter(|was_at| Some(was_at) != at_node.as_ref()) {
            self.of_nodes.remove_mut(&*was_at);
        }
        if let Some(at_node) = at_node {
            self.of_nodes.insert_mut(at_node, object.clone());
        }
        if before.is_none() {
            self.count_in(object.namespace(), |count| count + 1);
        }
        self.all.insert_mut(place, object);
        before
    }

    /// Removes and returns an object.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<Object> {
        let place = place(namespace, name);
        let before = self.all.get(&*place).cloned()?;
        if let Some(was_at) = place_at_node(&before, &place) {
            self.of_nodes.remove_mut(&*was_at);
        }
        self.all.remove_mut(&*place);
        self.count_in(namespace, |count| count.saturating_sub(1));
        Some(before)
    }

    /// Number of objects in a scope, in O(log n).
    pub fn count(&self, scope: &Scope) -> usize {
        match scope {
            Scope::All => self.all.size(),
            Scope::Namespace(one) => self.counts.get(one.as_str()).copied().unwrap_or(0),
        }
    }

    fn count_in(&mut self, namespace: &str, changed: impl Fn(usize) -> usize) {
        let count = changed(self.counts.get(namespace).copied().unwrap_or(0));
        if count == 0 {
            self.counts.remove_mut(namespace);
        } else {
            self.counts.insert_mut(namespace.into(), count);
        }
    }

    /// Returns the objects in a scope after a namespace and name, in order.
    pub fn after(&self, scope: &Scope, after: Option<(&str, &str)>) -> impl Iterator<Item = &Object> {
        range(&self.all, "", scope, after)
    }

    /// Returns the objects of a node in a scope after a namespace and name, in order.
    pub fn of_node(
        &self,
        node: &str,
        scope: &Scope,
        after: Option<(&str, &str)>,
    ) -> impl Iterator<Item = &Object> {
        range(&self.of_nodes, &within(node), scope, after)
    }
}

/// Returns the objects whose keys start with `within`, limited to a scope. With `after`, returns only objects after
/// that namespace and name.
fn range<'a>(
    objects: &'a RedBlackTreeMapSync<Place, Object>,
    within: &str,
    scope: &Scope,
    after: Option<(&str, &str)>,
) -> impl Iterator<Item = &'a Object> + use<'a> {
    let inside = |rest: &str| Place::from(format!("{within}{rest}"));
    let after = after.map(|(namespace, name)| inside(&place(namespace, name)));
    let (first, end) = match scope {
        Scope::All => {
            let end = within.strip_suffix('\0').map(|node| Place::from(format!("{node}\u{1}")));
            (inside(""), end.map_or(Bound::Unbounded, Bound::Excluded))
        }
        Scope::Namespace(one) => (inside(&place(one, "")), Bound::Excluded(inside(&format!("{one}\u{1}")))),
    };
    let begin = match after {
        Some(after) if after >= first => Bound::Excluded(after),
        _ => Bound::Included(first),
    };
    let is_over = matches!((&begin, &end), (Bound::Excluded(after), Bound::Excluded(end)) if after >= end);
    let found = (!is_over).then(|| objects.range((begin, end)));
    found.into_iter().flatten().map(|(_, object)| object)
}

impl FromIterator<Object> for Objects {
    fn from_iter<T: IntoIterator<Item = Object>>(objects: T) -> Self {
        let mut all = Self::default();
        for object in objects {
            all.insert(object);
        }
        all
    }
}

/// A snapshot of the objects of a resource.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The revision of the snapshot.
    pub revision: u64,
    pub(super) objects: Objects,
}

impl Snapshot {
    /// Returns the objects in a scope after a namespace and name, in order.
    pub fn after(&self, scope: &Scope, after: Option<(&str, &str)>) -> impl Iterator<Item = &Object> {
        self.objects.after(scope, after)
    }

    /// Returns the objects of a node in a scope after a namespace and name, in order.
    pub fn of_node(
        &self,
        node: &str,
        scope: &Scope,
        after: Option<(&str, &str)>,
    ) -> impl Iterator<Item = &Object> {
        self.objects.of_node(node, scope, after)
    }

    /// Number of objects in a scope.
    pub fn count(&self, scope: &Scope) -> usize {
        self.objects.count(scope)
    }
}

/// The snapshots that are kept for paged lists, oldest first.
#[derive(Debug, Default)]
pub(super) struct SnapshotCache {
    kept: VecDeque<(Snapshot, usize)>,
    /// Total bytes of the objects that have been superseded.
    superseded: usize,
}

impl SnapshotCache {
    /// Retains the snapshot, so that later pages of a list can use it.
    pub fn keep(&mut self, snapshot: &Snapshot) {
        if self.find(snapshot.revision).is_some() {
            return;
        }
        self.kept.push_back((snapshot.clone(), self.superseded));
        if self.kept.len() > SNAPSHOTS {
            self.kept.pop_front();
        }
    }

    /// The snapshot of a revision, if it is kept.
    pub fn find(&self, revision: u64) -> Option<&Snapshot> {
        self.kept.iter().map(|(snapshot, _)| snapshot).find(|snapshot| snapshot.revision == revision)
    }

    /// Counts a superseded object, and drops the snapshots that retain too much.
    pub fn superseded(&mut self, bytes: usize) {
        self.superseded = self.superseded.wrapping_add(bytes);
        let now = self.superseded;
        while self.kept.pop_front_if(|(_, then)| now.wrapping_sub(*then) > SNAPSHOT_BYTES).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    //! Tests of ranges and retention.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::object::{Field, Fields};
    use crate::watch_cache::Draft;

    fn object(namespace: &str, name: &str, revision: u64) -> Object {
        let object = json!({"metadata": {"namespace": namespace, "name": name}});
        Draft::new(object.as_object().unwrap(), &Fields::from([])).at(revision)
    }

    #[test]
    fn scope_can_be_listed_from_any_key() {
        let all = [("a", "x"), ("a", "y"), ("a-b", "x"), ("b", "a"), ("", "n")];
        let objects: Objects = all.iter().map(|(namespace, name)| object(namespace, name, 1)).collect();
        let of = |scope: &str| match scope {
            "*" => Scope::All,
            one => Scope::Namespace(one.to_owned()),
        };
        for (scope, after, expected) in [
            ("*", None, "/n a/x a/y a-b/x b/a"),
            ("*", Some(("a", "x")), "a/y a-b/x b/a"),
            ("*", Some(("b", "a")), ""),
            ("a", None, "a/x a/y"),
            ("a", Some(("a", "x")), "a/y"),
            ("a", Some(("a", "y")), ""),
            // A continue token used in another scope.
            ("a", Some(("b", "a")), ""),
            ("b", Some(("a", "y")), "b/a"),
            ("c", None, ""),
        ] {
            let found: Vec<String> =
                objects.after(&of(scope), after).map(|o| format!("{}/{}", o.namespace(), o.name())).collect();
            assert_eq!(found.join(" "), expected, "{scope} {after:?}");
        }
        let mut objects = objects;
        let counts = |objects: &Objects| ["*", "a", "a-b", ""].map(|scope| objects.count(&of(scope)));
        assert_eq!(counts(&objects), [5, 2, 1, 1]);
        let before = objects.clone();
        objects.insert(object("a", "x", 2));
        objects.remove("a", "y");
        objects.remove("a", "y");
        objects.remove("a-b", "x");
        assert_eq!((counts(&objects), counts(&before)), ([3, 1, 0, 1], [5, 2, 1, 1]));
    }

    #[test]
    fn field_index_finds_objects_of_a_node() {
        let of = |namespace: &str, name: &str, node: &str| {
            let object =
                json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"nodeName": node}});
            Draft::new(object.as_object().unwrap(), &Fields::from([Field::path(NODE_NAME)])).at(1)
        };
        let mut objects = Objects::default();
        for (namespace, name, node) in [
            ("a", "x", "m"),
            ("a", "y", "n"),
            ("b", "x", "m"),
            ("b", "y", ""),
            ("b", "z", "m-1"),
            ("a", "x", "n"),
        ] {
            objects.insert(of(namespace, name, node));
        }
        objects.insert(of("b", "x", "m"));
        objects.insert(of("c", "gone", "m"));
        objects.remove("c", "gone");
        let a = Scope::Namespace("a".to_owned());
        for (node, scope, after, expected) in [
            ("m", &Scope::All, None, "b/x"),
            ("n", &Scope::All, None, "a/x a/y"),
            ("n", &a, Some(("a", "x")), "a/y"),
            ("m", &a, None, ""),
            ("n", &Scope::All, Some(("a", "y")), ""),
            ("m-1", &Scope::All, Some(("b", "x")), "b/z"),
            ("nobody", &Scope::All, None, ""),
        ] {
            let found = objects.of_node(node, scope, after);
            let found: Vec<String> = found.map(|it| format!("{}/{}", it.namespace(), it.name())).collect();
            assert_eq!(found.join(" "), expected, "{node} {scope:?} {after:?}");
        }
    }

    #[test]
    fn old_snapshots_are_evicted_by_count_and_size() {
        let mut snapshots = SnapshotCache::default();
        let mut objects = Objects::default();
        for revision in 1..=SNAPSHOTS as u64 + 1 {
            objects.insert(object("a", "x", revision));
            snapshots.keep(&Snapshot { revision, objects: objects.clone() });
            snapshots.superseded(SNAPSHOT_BYTES / 4);
        }
        assert!(snapshots.find(1).is_none() && snapshots.find(SNAPSHOTS as u64 - 3).is_none());
        let kept = snapshots.find(SNAPSHOTS as u64 - 2).unwrap();
        let seen: Vec<u64> = kept.after(&Scope::All, None).map(Object::revision).collect();
        assert_eq!(seen, [SNAPSHOTS as u64 - 2]);
    }
}
