//! Field sets (`fieldpath.Set` of structured-merge-diff) and their operations.

mod fields_v1;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::shape::{Form, Shape};

/// A path element: one step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathElement {
    /// A field of a struct or a key of a map.
    Field(String),
    /// An element of an associative list, by the names and JSON values of its keys, sorted by name.
    Key(Vec<(String, String)>),
    /// An element of a set, by its JSON value.
    Value(String),
    /// An element of a list, by its index.
    Index(u64),
}

/// A set of fields. A field in the set does not imply its children, and the children do not imply their parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

/// The part of a set at and below one path element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// True if the field itself is a member.
    pub(super) member: bool,
    /// The members below the field.
    pub(super) children: FieldSet,
}

impl Node {
    /// Creates a member without members below it.
    pub(super) fn leaf() -> Self {
        Self { member: true, children: FieldSet::default() }
    }

    /// True if neither the field nor any field below it is a member.
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// True if the set has no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds the field at `path`. The empty path, which is the object itself, is ignored.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.nodes.entry(last.clone()).or_default().member = true,
            [first, rest @ ..] => self.nodes.entry(first.clone()).or_default().children.insert(rest),
        }
    }

    /// True if the field at `path` is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.nodes.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.nodes.get(first).is_some_and(|node| node.children.has(rest)),
        }
    }

    /// Returns the members of this set together with those of `other`.
    pub fn union(mut self, other: Self) -> Self {
        for (element, theirs) in other.nodes {
            let ours = self.nodes.entry(element).or_default();
            ours.member |= theirs.member;
            ours.children = std::mem::take(&mut ours.children).union(theirs.children);
        }
        self
    }

    /// Returns the members that both sets have.
    pub fn intersection(&self, other: &Self) -> Self {
        self.each(|element, node| {
            let theirs = other.nodes.get(element)?;
            let children = node.children.intersection(&theirs.children);
            Some(Node { member: node.member && theirs.member, children })
        })
    }

    /// Returns the members that are not in `other`. A member below a member of `other` stays.
    pub fn difference(mut self, other: &Self) -> Self {
        self.subtract(other);
        self
    }

    /// Removes the members of `other`, as in [`Self::difference`]. Returns true if there were any.
    pub(super) fn subtract(&mut self, other: &Self) -> bool {
        let mut is_other = false;
        self.change_common(other, |node, theirs| {
            is_other |= node.member && theirs.member;
            node.member &= !theirs.member;
            is_other |= node.children.subtract(&theirs.children);
        });
        is_other
    }

    /// True if this set has all members of `other`.
    pub(super) fn includes(&self, other: &Self) -> bool {
        let is_here = |(element, theirs): (&PathElement, &Node)| {
            let here = self.nodes.get(element).filter(|node| node.member || !theirs.member);
            here.is_some_and(|node| node.children.includes(&theirs.children))
        };
        other.nodes.iter().all(is_here)
    }

    /// Returns the members that are neither a member of `other` nor below one.
    pub fn outside(mut self, other: &Self) -> Self {
        self.leave(other);
        self
    }

    fn leave(&mut self, other: &Self) {
        self.change_common(other, |node, theirs| {
            if theirs.member {
                *node = Node::default();
            }
            node.children.leave(&theirs.children);
        });
    }

    /// Returns the members that have no other members below them.
    pub fn leaves(&self) -> Self {
        self.each(|_, node| {
            Some(Node { member: node.member && node.children.is_empty(), children: node.children.leaves() })
        })
    }

    /// Adds each struct field on the path to a member. The function `extract` omits these fields.
    pub fn with_structs(mut self, shape: Shape<'_>) -> Self {
        self.name_structs(shape);
        self
    }

    fn name_structs(&mut self, shape: Shape<'_>) {
        for (element, node) in &mut self.nodes {
            node.member |= matches!(element, PathElement::Field(name) if shape.named(name).is_some());
            node.children.name_structs(below(shape, element));
        }
    }

    /// Adapts the set to the type `shape`: the owner of a part of a value that is now atomic owns all of it. Returns
    /// true if the set changed.
    pub fn reconcile(&mut self, shape: Shape<'_>) -> bool {
        let mut is_other = false;
        for (element, node) in &mut self.nodes {
            let below = below(shape, element);
            if !node.children.is_empty() && is_atomic(below) {
                *node = Node::leaf();
                is_other = true;
            }
            is_other |= node.children.reconcile(below);
        }
        is_other
    }

    /// Returns the paths of all members, sorted.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, steps: &mut Vec<PathElement>, paths: &mut Vec<FieldPath>) {
        for (element, node) in &self.nodes {
            steps.push(element.clone());
            if node.member {
                paths.push(FieldPath(steps.clone()));
            }
            node.children.collect(steps, paths);
            steps.pop();
        }
    }

    /// The subset at and below a path element.
    pub(super) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.nodes.get(element)
    }

    /// Sets the subset at a path element; an empty one is ignored.
    pub(super) fn put(&mut self, element: PathElement, node: Node) {
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// Calls `change` for the path elements that are in both sets, and removes those that are empty afterwards.
    fn change_common(&mut self, other: &Self, mut change: impl FnMut(&mut Node, &Node)) {
        for (element, theirs) in &other.nodes {
            if let Some(node) = self.nodes.get_mut(element) {
                change(node, theirs);
                if node.is_empty() {
                    self.nodes.remove(element);
                }
            }
        }
    }

    fn each(&self, of: impl Fn(&PathElement, &Node) -> Option<Node>) -> Self {
        let kept = self.nodes.iter().filter_map(|(element, node)| {
            let node = of(element, node).filter(|node| !node.is_empty())?;
            Some((element.clone(), node))
        });
        Self { nodes: kept.collect() }
    }
}

/// The type of the value that a path element leads to.
fn below<'a>(shape: Shape<'a>, element: &PathElement) -> Shape<'a> {
    match (element, shape.form()) {
        (PathElement::Field(name), _) => shape.at(name).shape,
        (
            PathElement::Key(_) | PathElement::Value(_) | PathElement::Index(_),
            Form::List { elements, .. },
        ) => elements,
        _ => Shape::UNKNOWN,
    }
}

fn is_atomic(shape: Shape<'_>) -> bool {
    match shape.form() {
        Form::Struct { atomic } | Form::Map { atomic, .. } => atomic,
        Form::List { list, .. } => matches!(list, crate::shape::List::Atomic),
        Form::Unknown | Form::Scalar => false,
    }
}

/// The path of a field, such as `.spec.containers[name="web"].image`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<PathElement>);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}
