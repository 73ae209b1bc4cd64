//! State of one manifest: its current objects, and last good versions of invalid ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::object::Object;
use api::problem::{ObjectName, Problem};

use super::identity;
use crate::desired::{Found, FoundProblem, SourceKind, SourceObject};
use crate::observed::Timestamp;

/// An object with its name in the manifest. For a pod, that name lacks the node's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Kind, namespace and name in the manifest.
    pub name: Arc<ObjectName>,
    pub object: SourceObject,
}

/// The objects of one manifest that are in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// Objects, including last good versions.
    pub objects: Vec<Named>,
    /// The problems. Each says whether a last good version is in use.
    pub problems: Vec<(Problem, bool)>,
}

/// All objects of a source by their manifest names.
pub type Known = BTreeMap<Arc<ObjectName>, SourceObject>;

/// Node and source of manifests. They determine the identity of pods.
#[derive(Clone, Debug)]
pub struct ManifestContext {
    /// The node's name.
    pub node: String,
    pub source: SourceKind,
}

impl Manifest {
    /// Parses a new version of the manifest. Unchanged objects are taken from `known`.
    pub fn read(&self, bytes: &[u8], place: &ManifestContext, known: &Known, now: Timestamp) -> Self {
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

    /// Records that the manifest cannot be read. All objects stay in use.
    pub fn unreadable(&self, problem: Problem) -> Self {
        self.renewed(Vec::new(), vec![problem])
    }

    /// The valid objects, and last good versions of invalid ones. If a problem names its object, only that object is
    /// kept. Otherwise all previous objects are kept that the manifest no longer has.
    fn renewed(&self, mut objects: Vec<Named>, problems: Vec<Problem>) -> Self {
        let replaces = |problem: &Problem, old: &Named| match &problem.object {
            Some(name) if !name.name.is_empty() => *name == *old.name,
            Some(_) | None => true,
        };
        let is_new = |old: &&Named, objects: &[Named]| objects.iter().all(|new| new.name != old.name);
        let missing: Vec<Named> = self.objects.iter().filter(|old| is_new(old, &objects)).cloned().collect();
        let problems: Vec<_> = problems
            .into_iter()
            .map(|problem| {
                let last_good = missing.iter().any(|old| replaces(&problem, old));
                (problem, last_good)
            })
            .collect();
        let kept = |old: &Named| problems.iter().any(|(problem, _)| replaces(problem, old));
        objects.extend(missing.into_iter().filter(kept));
        Self { objects, problems }
    }

    /// Adds objects and problems to a snapshot.
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

/// Converts an object to one of this node. Returns the known object if it is equal.
fn adopt(
    object: Object,
    place: &ManifestContext,
    known: Option<&SourceObject>,
    now: Timestamp,
) -> Result<SourceObject, Box<Problem>> {
    let new = match object {
        Object::Pod(pod) => {
            let known = match known {
                Some(SourceObject::Pod(known)) => Some(known),
                _ => None,
            };
            return identity::place(*pod, &place.node, place.source, known, now).map(SourceObject::Pod);
        }
        Object::ConfigMap(_) | Object::Secret(_) | Object::Service(_) => SourceObject::new(object),
    };
    Ok(match known {
        Some(known) if *known == new => known.clone(),
        _ => new,
    })
}
