//! One manifest over time: what it holds now, and what stays in force of what it held before.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::object::Object;
use api::problem::{ObjectName, Problem};

use super::identity;
use crate::desired::{Found, FoundProblem, Held, SourceKind};
use crate::observed::Timestamp;

/// An object under the name that its manifest gives it; a pod's own name has the node in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Kind, namespace and name in the manifest.
    pub name: Arc<ObjectName>,
    /// The object.
    pub object: Held,
}

/// What is in force of one manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// Objects, those of the last good version included.
    pub objects: Vec<Named>,
    /// What is wrong with it, and whether a last good version stands in.
    pub problems: Vec<(Problem, bool)>,
}

/// All objects of a source under their manifest names.
pub type Known = BTreeMap<Arc<ObjectName>, Held>;

/// Who reads, for the identity of pods.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node's name.
    pub node: String,
    /// The source.
    pub source: SourceKind,
}

impl Manifest {
    /// Reads a new version of the manifest. Objects that did not change are taken over from `known`.
    pub fn read(&self, bytes: &[u8], place: &Place, known: &Known, now: Timestamp) -> Self {
        let decoded = api::decode(bytes);
        let mut problems = decoded.problems;
        let mut objects = Vec::new();
        for object in decoded.objects {
            let name = Arc::new(object.object_name());
            let known = known.get(&name);
            match adopt(object, place, known, now) {
                Ok(object) => objects.push(Named { name, object }),
                Err(problem) => problems.push(Problem { object: Some((*name).clone()), ..*problem }),
            }
        }
        self.renewed(objects, problems)
    }

    /// The manifest cannot be read at all: everything stays in force.
    pub fn unreadable(&self, problem: Problem) -> Self {
        self.renewed(Vec::new(), vec![problem])
    }

    /// The objects that are good now, and beside them what was good before of those that are not: by name where the
    /// problem names its object, else all that are not there otherwise.
    fn renewed(&self, mut objects: Vec<Named>, problems: Vec<Problem>) -> Self {
        let stands_in = |problem: &Problem, old: &Named| match &problem.object {
            Some(name) if !name.name.is_empty() => *name == *old.name,
            Some(_) | None => true,
        };
        let is_new = |old: &&Named, objects: &[Named]| objects.iter().all(|new| new.name != old.name);
        let missing: Vec<Named> = self.objects.iter().filter(|old| is_new(old, &objects)).cloned().collect();
        let problems: Vec<_> = problems
            .into_iter()
            .map(|problem| {
                let last_good = missing.iter().any(|old| stands_in(&problem, old));
                (problem, last_good)
            })
            .collect();
        let kept = |old: &Named| problems.iter().any(|(problem, _)| stands_in(problem, old));
        objects.extend(missing.into_iter().filter(kept));
        Self { objects, problems }
    }

    /// What it gives to a snapshot.
    pub fn add_to(&self, origin: &Arc<str>, objects: &mut Vec<Found>, problems: &mut Vec<FoundProblem>) {
        let found = |named: &Named| Found {
            name: named.name.clone(),
            object: named.object.clone(),
            origin: origin.clone(),
        };
        objects.extend(self.objects.iter().map(found));
        problems.extend(self.problems.iter().map(|(problem, last_good)| FoundProblem {
            origin: origin.clone(),
            problem: problem.clone(),
            last_good: *last_good,
        }));
    }
}

/// Makes an object one of this node, the very one that is known when it is the same.
fn adopt(object: Object, place: &Place, known: Option<&Held>, now: Timestamp) -> Result<Held, Box<Problem>> {
    let new = match object {
        Object::Pod(pod) => {
            let known = match known {
                Some(Held::Pod(known)) => Some(known),
                _ => None,
            };
            return identity::place(*pod, &place.node, place.source, known, now).map(Held::Pod);
        }
        Object::ConfigMap(_) | Object::Secret(_) => Held::new(object),
    };
    Ok(match known {
        Some(known) if *known == new => known.clone(),
        _ => new,
    })
}
