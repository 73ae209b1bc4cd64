//! The objects of one resource as they stand at a moment: taking a picture of them costs nothing, however many there are.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::{Object, Scope};

/// Pictures of one resource that lists in pieces go on with; more clients at once read what is remembered otherwise.
const KEPT: usize = 8;
/// Bytes of superseded objects that the pictures of one resource may keep alive.
const KEPT_BYTES: usize = 8 * 1024 * 1024;

/// Where an object lies: namespace and name, in the order of both.
type Place = Arc<str>;

fn place(namespace: &str, name: &str) -> Place {
    // No name holds a zero byte, and none is smaller.
    format!("{namespace}\0{name}").into()
}

/// The one field by which there are lists of a few objects out of very many: every node asks for its pods.
pub(crate) const NODE: &str = "spec.nodeName";

/// Objects by namespace and name, and those of nodes by node before both. Clones share all of them and go their own ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    all: RedBlackTreeMapSync<Place, Object>,
    of_nodes: RedBlackTreeMapSync<Place, Object>,
    /// How many there are of each namespace that has any.
    counts: RedBlackTreeMapSync<Arc<str>, usize>,
}

/// What places of a node begin with.
fn within(node: &str) -> String {
    format!("{node}\0")
}

/// The place among those of its node, where the object is of one.
fn place_at_node(object: &Object, place: &str) -> Option<Place> {
    let node = object.field(NODE).filter(|node| !node.is_empty())?;
    Some((within(node) + place).into())
}

impl Objects {
    /// One of them.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Object> {
        self.all.get(&*place(namespace, name))
    }

    /// Takes one in; the one that was in its place.
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

    /// Takes one out, and returns it.
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

    /// How many there are, which is known without looking at them.
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

    /// Those of a scope that come after that namespace and name, in order.
    pub fn after(&self, scope: &Scope, after: Option<(&str, &str)>) -> impl Iterator<Item = &Object> {
        range(&self.all, "", scope, after)
    }

    /// The same of those of a node.
    pub fn of_node(
        &self,
        node: &str,
        scope: &Scope,
        after: Option<(&str, &str)>,
    ) -> impl Iterator<Item = &Object> {
        range(&self.of_nodes, &within(node), scope, after)
    }
}

/// Those of a scope that come after that namespace and name, in order, of objects whose places begin so.
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

/// Objects of one resource as they were at one revision.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The revision.
    pub revision: u64,
    pub(super) objects: Objects,
}

impl Picture {
    /// The objects of a scope that come after that namespace and name, in the order of both.
    pub fn after(&self, scope: &Scope, after: Option<(&str, &str)>) -> impl Iterator<Item = &Object> {
        self.objects.after(scope, after)
    }

    /// The same of the objects of a node.
    pub fn of_node(
        &self,
        node: &str,
        scope: &Scope,
        after: Option<(&str, &str)>,
    ) -> impl Iterator<Item = &Object> {
        self.objects.of_node(node, scope, after)
    }

    /// How many objects of a scope it shows.
    pub fn count(&self, scope: &Scope) -> usize {
        self.objects.count(scope)
    }
}

/// Pictures that lists in pieces go on with, oldest first.
#[derive(Debug, Default)]
pub(super) struct Album {
    kept: VecDeque<(Picture, usize)>,
    /// Bytes of all objects that were ever superseded.
    superseded: usize,
}

impl Album {
    /// Keeps a picture for a while.
    pub fn keep(&mut self, picture: &Picture) {
        if self.find(picture.revision).is_some() {
            return;
        }
        self.kept.push_back((picture.clone(), self.superseded));
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// The picture of that revision, if it is kept.
    pub fn find(&self, revision: u64) -> Option<&Picture> {
        self.kept.iter().map(|(picture, _)| picture).find(|picture| picture.revision == revision)
    }

    /// An object of so many bytes lives on in history and pictures alone; pictures that keep too much alive go.
    pub fn superseded(&mut self, bytes: usize) {
        self.superseded = self.superseded.wrapping_add(bytes);
        let now = self.superseded;
        while self.kept.pop_front_if(|(_, then)| now.wrapping_sub(*then) > KEPT_BYTES).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    //! What is shown, and for how long.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::resource::Fields;
    use crate::store::Draft;

    fn object(namespace: &str, name: &str, revision: u64) -> Object {
        let object = json!({"metadata": {"namespace": namespace, "name": name}});
        Draft::new(object.as_object().unwrap(), &Fields::from([])).at(revision)
    }

    #[test]
    fn a_scope_is_read_from_any_place() {
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
            // Places of a token that somebody uses elsewhere.
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
    fn objects_of_a_node_are_found_without_the_others() {
        let of = |namespace: &str, name: &str, node: &str| {
            let object =
                json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"nodeName": node}});
            Draft::new(object.as_object().unwrap(), &Fields::from([NODE.into()])).at(1)
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
    fn pictures_go_when_they_are_many_or_keep_much_alive() {
        let mut album = Album::default();
        let mut objects = Objects::default();
        for revision in 1..=KEPT as u64 + 1 {
            objects.insert(object("a", "x", revision));
            album.keep(&Picture { revision, objects: objects.clone() });
            album.superseded(KEPT_BYTES / 4);
        }
        assert!(album.find(1).is_none() && album.find(KEPT as u64 - 3).is_none());
        let kept = album.find(KEPT as u64 - 2).unwrap();
        let seen: Vec<u64> = kept.after(&Scope::All, None).map(Object::revision).collect();
        assert_eq!(seen, [KEPT as u64 - 2]);
    }
}
