//! Compares two versions of an object and returns the removed, modified and added fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::extract::extract;
use super::field_set::{FieldSet, Node, PathElement};
use super::typed::Typed;
use crate::equal::{beside, equal};
use crate::shape::Shape;

/// The field sets in which two versions of an object differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Fields that only the old object has.
    pub(super) removed: FieldSet,
    /// Fields that both objects have, with different values.
    pub(super) modified: FieldSet,
    /// Fields that only the new object has.
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Compares two objects of the type `shape`.
    pub(super) fn of(old: &Value, new: &Value, shape: Shape<'_>) -> Self {
        let Difference { removed, modified, added } = compare(Some(old), Some(new), shape, false);
        Self { removed: removed.children, modified: modified.children, added: added.children }
    }

    /// [`Self::of`] for the top-level fields of two objects.
    pub(super) fn of_objects(old: &Map<String, Value>, new: &Map<String, Value>, shape: Shape<'_>) -> Self {
        let mut difference = Difference::default();
        fields(&mut difference, Some(&Typed::Fields(old)), Some(&Typed::Fields(new)), shape);
        let Difference { removed, modified, added } = difference;
        Self { removed: removed.children, modified: modified.children, added: added.children }
    }

    /// The fields that were modified or added.
    pub(super) fn set(&self) -> FieldSet {
        self.modified.clone().union(self.added.clone())
    }

    /// Applies `of` to each of the three sets.
    pub(super) fn map(self, of: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self { removed: of(self.removed), modified: of(self.modified), added: of(self.added) }
    }
}

/// The differences below one path element.
#[derive(Default)]
struct Difference {
    removed: Node,
    modified: Node,
    added: Node,
}

impl Difference {
    /// Records the differences below `element`. The element is built only if there are any, because most fields are
    /// equal.
    fn put(&mut self, element: impl Fn() -> PathElement, child: Self) {
        let nodes = [child.removed, child.modified, child.added];
        let sets = [&mut self.removed, &mut self.modified, &mut self.added];
        for (set, node) in sets.into_iter().zip(nodes).filter(|(_, node)| !node.is_empty()) {
            set.children.put(element(), node);
        }
    }
}

/// Compares two values. `named` is true for a field of a struct: only the fields below it have owners, not the
/// field itself.
fn compare(old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>, named: bool) -> Difference {
    let mut difference = Difference::default();
    // Fast path: most values are equal and need no closer look.
    if old.zip(new).is_some_and(|(old, new)| equal(old, new)) {
        return difference;
    }
    let before = old.map(|value| Typed::of(value, shape));
    let after = new.map(|value| Typed::of(value, shape));
    let nothing = |parts: &Option<Typed<'_, '_>>| parts.as_ref().is_none_or(Typed::is_empty);
    match (&before, &after) {
        _ if nothing(&before) && nothing(&after) => leaf(&mut difference, old, new),
        (None | Some(Typed::Null | Typed::Fields(_)), None | Some(Typed::Null | Typed::Fields(_))) => {
            fields(&mut difference, before.as_ref(), after.as_ref(), shape);
        }
        (None | Some(Typed::Null | Typed::Elements(..)), None | Some(Typed::Null | Typed::Elements(..))) => {
            elements(&mut difference, before.as_ref(), after.as_ref());
        }
        // Only one of the values has parts. All parts of it were removed or added, and the value as a whole was
        // modified.
        _ => {
            leaf(&mut difference, old, new);
            difference.removed.children = old.map(|old| extract(old, shape)).unwrap_or_default();
            difference.added.children = new.map(|new| extract(new, shape)).unwrap_or_default();
            return difference;
        }
    }
    let has_parts = !(nothing(&before) && nothing(&after));
    difference.added.member |= old.is_none() && has_parts && !named;
    difference.removed.member |= new.is_none() && has_parts;
    difference
}

fn leaf(difference: &mut Difference, old: Option<&Value>, new: Option<&Value>) {
    match (old, new) {
        (None, Some(_)) => difference.added.member = true,
        (Some(_), None) => difference.removed.member = true,
        (Some(old), Some(new)) => difference.modified.member = !same(old, new),
        (None, None) => {}
    }
}

fn fields(
    difference: &mut Difference,
    before: Option<&Typed<'_, '_>>,
    after: Option<&Typed<'_, '_>>,
    shape: Shape<'_>,
) {
    let empty = Map::new();
    let (before, after) = (fields_of(before).unwrap_or(&empty), fields_of(after).unwrap_or(&empty));
    let mut put = |name: &String, old: Option<&Value>, new: Option<&Value>| {
        let child = compare(old, new, shape.at(name).shape, shape.named(name).is_some());
        difference.put(|| PathElement::Field(name.clone()), child);
    };
    let mut kept = 0;
    for (name, old, new) in beside(before, after) {
        kept += usize::from(new.is_some());
        if !new.is_some_and(|new| equal(old, new)) {
            put(name, Some(old), new);
        }
    }
    if kept < after.len() {
        let added = after.iter().filter(|(name, _)| !before.contains_key(*name));
        added.for_each(|(name, new)| put(name, None, Some(new)));
    }
}

fn fields_of<'v>(parts: Option<&Typed<'v, '_>>) -> Option<&'v Map<String, Value>> {
    match parts {
        Some(Typed::Fields(fields)) => Some(fields),
        _ => None,
    }
}

fn elements(difference: &mut Difference, before: Option<&Typed<'_, '_>>, after: Option<&Typed<'_, '_>>) {
    let mut groups = BTreeMap::<&PathElement, (Vec<&Value>, Vec<&Value>)>::new();
    let mut of = Shape::UNKNOWN;
    if let Some(Typed::Elements(values, names, shape)) = before {
        of = *shape;
        names.iter().zip(*values).for_each(|(name, value)| groups.entry(name).or_default().0.push(value));
    }
    if let Some(Typed::Elements(values, names, shape)) = after {
        of = *shape;
        names.iter().zip(*values).for_each(|(name, value)| groups.entry(name).or_default().1.push(value));
    }
    for (name, group) in groups {
        let child = match (&*group.0, &*group.1) {
            ([] | [_], [] | [_]) => compare(group.0.first().copied(), group.1.first().copied(), of, false),
            // Elements with the same key are owned together.
            ([_, _, ..], [_, _, ..]) => {
                let mut child = Difference::default();
                let same =
                    group.0.len() == group.1.len() && group.0.iter().zip(&group.1).all(|(a, b)| same(a, b));
                child.modified.member = !same;
                child
            }
            ([_, _, ..], one) => {
                let mut child = compare(None, one.first().copied(), of, false);
                child.removed.member = true;
                child
            }
            (one, [_, _, ..]) => {
                let mut child = compare(one.first().copied(), None, of, false);
                child.added.member = true;
                child
            }
        };
        difference.put(|| name.clone(), child);
    }
}

/// True for equal values; `1` and `1.0` are equal.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Compares two objects and treats a `null` field as absent.
pub(super) fn same_but_for_nulls(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(name, a)| same_but_for_nulls(a, b.get(name).unwrap_or(&Value::Null)))
                && b.iter().all(|(name, b)| b.is_null() || a.contains_key(name))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_but_for_nulls(a, b))
        }
        _ => same(a, b),
    }
}
