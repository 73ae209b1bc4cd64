//! Sets of fields: which parts of an object somebody owns, and the algebra of such sets.

#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;
use std::fmt;

use crate::shape::{Form, Shape};

/// One step from a part of an object to a part of that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A field of a struct or a key of a map.
    Field(String),
    /// The element of a list that has these values, as JSON, in these fields, in alphabetical order.
    Key(Vec<(String, String)>),
    /// The element of a list that is this value, as JSON.
    Value(String),
    /// The element of a list at this place.
    Index(u64),
}

/// Fields of an object. A field that is a member says nothing about the fields in it, nor they about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    nodes: BTreeMap<Element, Node>,
}

/// What a set knows at one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The field is in the set.
    pub(super) member: bool,
    /// What is in the set of the fields below.
    pub(super) children: Set,
}

impl Node {
    /// A field that is in the set, with nothing below.
    pub(super) fn leaf() -> Self {
        Self { member: true, children: Set::default() }
    }

    /// True when the field is not in the set, and nothing below it.
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl Set {
    /// True for a set without members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds the field at `path`. The object itself, the empty path, is nobody's.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.nodes.entry(last.clone()).or_default().member = true,
            [first, rest @ ..] => self.nodes.entry(first.clone()).or_default().children.insert(rest),
        }
    }

    /// True when the field at `path` is a member.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.nodes.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.nodes.get(first).is_some_and(|node| node.children.has(rest)),
        }
    }

    /// What is in either set.
    pub fn union(mut self, other: Self) -> Self {
        for (element, theirs) in other.nodes {
            let ours = self.nodes.entry(element).or_default();
            ours.member |= theirs.member;
            ours.children = std::mem::take(&mut ours.children).union(theirs.children);
        }
        self
    }

    /// What is in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.each(|element, node| {
            let theirs = other.nodes.get(element)?;
            let children = node.children.intersection(&theirs.children);
            Some(Node { member: node.member && theirs.member, children })
        })
    }

    /// What is in this set only. Field by field: what is below a field of the other set stays.
    pub fn difference(mut self, other: &Self) -> Self {
        self.subtract(other);
        self
    }

    /// Takes out what is in the other set, as [`Self::difference`] does; true when there was any of it.
    pub(super) fn subtract(&mut self, other: &Self) -> bool {
        let mut is_other = false;
        self.change_common(other, |node, theirs| {
            is_other |= node.member && theirs.member;
            node.member &= !theirs.member;
            is_other |= node.children.subtract(&theirs.children);
        });
        is_other
    }

    /// True when all of the other set is in this one.
    pub(super) fn includes(&self, other: &Self) -> bool {
        let is_here = |(element, theirs): (&Element, &Node)| {
            let here = self.nodes.get(element).filter(|node| node.member || !theirs.member);
            here.is_some_and(|node| node.children.includes(&theirs.children))
        };
        other.nodes.iter().all(is_here)
    }

    /// What is in this set and not below, or at, a field of the other set.
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

    /// The members that have no members below.
    pub fn leaves(&self) -> Self {
        self.each(|_, node| {
            Some(Node { member: node.member && node.children.is_empty(), children: node.children.leaves() })
        })
    }

    /// This set, and every struct field on the way to a member: objects do not say of a struct that it is there.
    pub fn with_structs(mut self, shape: Shape<'_>) -> Self {
        self.name_structs(shape);
        self
    }

    fn name_structs(&mut self, shape: Shape<'_>) {
        for (element, node) in &mut self.nodes {
            node.member |= matches!(element, Element::Field(name) if shape.named(name).is_some());
            node.children.name_structs(below(shape, element));
        }
    }

    /// Makes this set as if the type had always been `shape`: who owned a part of what is atomic now owns it all. True when
    /// that changes it.
    pub fn settle(&mut self, shape: Shape<'_>) -> bool {
        let mut is_other = false;
        for (element, node) in &mut self.nodes {
            let below = below(shape, element);
            if !node.children.is_empty() && is_atomic(below) {
                *node = Node::leaf();
                is_other = true;
            }
            is_other |= node.children.settle(below);
        }
        is_other
    }

    /// Every member, each as the steps that lead to it, in order.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, steps: &mut Vec<Element>, paths: &mut Vec<FieldPath>) {
        for (element, node) in &self.nodes {
            steps.push(element.clone());
            if node.member {
                paths.push(FieldPath(steps.clone()));
            }
            node.children.collect(steps, paths);
            steps.pop();
        }
    }

    /// What the set knows at a step.
    pub(super) fn node(&self, element: &Element) -> Option<&Node> {
        self.nodes.get(element)
    }

    /// Notes what there is at a step, if there is anything.
    pub(super) fn put(&mut self, element: Element, node: Node) {
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// Changes the steps that both sets have, and forgets those where nothing is left.
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

    fn each(&self, of: impl Fn(&Element, &Node) -> Option<Node>) -> Self {
        let kept = self.nodes.iter().filter_map(|(element, node)| {
            let node = of(element, node).filter(|node| !node.is_empty())?;
            Some((element.clone(), node))
        });
        Self { nodes: kept.collect() }
    }
}

/// What an element of a value of the type `shape` is.
fn below<'a>(shape: Shape<'a>, element: &Element) -> Shape<'a> {
    match (element, shape.form()) {
        (Element::Field(name), _) => shape.at(name).shape,
        (Element::Key(_) | Element::Value(_) | Element::Index(_), Form::List { elements, .. }) => elements,
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

/// Where a field is: `.spec.containers[name="web"].image`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<Element>);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl fmt::Display for Element {
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
