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

/// Objects by namespace and name. Clones share all of them and go their own ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects(RedBlackTreeMapSync<Place, Object>);

impl Objects {
    /// One of them.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Object> {
        self.0.get(&*place(namespace, name))
    }

    /// Takes one in; the one that was in its place.
    pub fn insert(&mut self, object: Object) -> Option<Object> {
        let place = place(object.namespace(), object.name());
        let before = self.0.get(&*place).cloned();
        self.0.insert_mut(place, object);
        before
    }

    /// Takes one out, and returns it.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<Object> {
        let place = place(namespace, name);
        let before = self.0.get(&*place).cloned()?;
        self.0.remove_mut(&*place);
        Some(before)
    }

    /// How many there are.
    pub fn count(&self, scope: &Scope) -> usize {
        match scope {
            Scope::All => self.0.size(),
            Scope::Namespace(_) => self.after(scope, None).count(),
        }
    }

    /// Those of a scope that come after that namespace and name, in order.
    pub fn after(&self, scope: &Scope, after: Option<(&str, &str)>) -> impl Iterator<Item = &Object> {
        let after = after.map(|(namespace, name)| place(namespace, name));
        let (first, end) = match scope {
            Scope::All => (None, Bound::Unbounded),
            Scope::Namespace(one) => {
                (Some(place(one, "")), Bound::Excluded(Place::from(format!("{one}\u{1}"))))
            }
        };
        let begin = match (after, first) {
            (Some(after), Some(first)) if after < first => Bound::Included(first),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(first)) => Bound::Included(first),
            (None, None) => Bound::Unbounded,
        };
        let is_over =
            matches!((&begin, &end), (Bound::Excluded(after), Bound::Excluded(end)) if after >= end);
        let found = (!is_over).then(|| self.0.range((begin, end)));
        found.into_iter().flatten().map(|(_, object)| object)
    }
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
        assert_eq!((objects.count(&Scope::All), objects.count(&of("a"))), (5, 2));
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
