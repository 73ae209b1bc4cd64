//! All manifests of a node at once, by the code that runs them: what is wrong, and where.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use api::decode_with;
use api::fault::{Aim, Fault, Why};
use api::object::Object;
use api::path::PathBuf;
use api::problem::{ObjectName, Problem};
use k8s_openapi::api::core::v1::Pod;

use super::missing;
use crate::desired::{
    Admission, Completeness, Desired, Found, FoundProblem, Held, Merge, Node, Rejection, Snapshot,
    SourceKind, UNSUPPORTED,
};
use crate::observed::Timestamp;
use crate::sources::file::Text;
use crate::sources::manifest::{Known, Manifest, Place};
use crate::spec::{self, Facts};

/// One manifest.
#[derive(Clone, Debug)]
pub struct Input {
    /// The file or URL.
    pub origin: String,
    /// Its bytes, or why it is not read.
    pub read: Text,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What is wrong, by place.
    pub problems: Vec<FoundProblem>,
    /// What is fine by itself and will not run as it stands, by place.
    pub warnings: Vec<FoundProblem>,
    /// Objects nothing is wrong with.
    pub fine: usize,
}

/// Looks at manifests as those of one node. Of the node itself only what every node has in common is asked: fields it
/// supports and ports that two cannot have.
pub fn inspect(inputs: &[Input], node: &str, now: Timestamp) -> Report {
    let place = Place { node: node.to_owned(), source: SourceKind::File };
    let (mut objects, mut problems) = (Vec::new(), Vec::new());
    for input in inputs {
        let manifest = match &input.read {
            Ok(bytes) => Manifest::default().read(bytes, &place, &Known::new(), now),
            Err(problem) => Manifest::default().unreadable((**problem).clone()),
        };
        manifest.add_to(&Arc::from(input.origin.as_str()), &mut objects, &mut problems);
    }
    let found = objects.len();
    let snapshot = Snapshot {
        source: SourceKind::File,
        objects,
        waiting: BTreeSet::new(),
        problems,
        completeness: Completeness::Complete,
    };
    let snapshot = Arc::new(snapshot);
    let desired = Merge::new([SourceKind::File]).put(snapshot.clone());
    let mut problems = desired.problems.clone();
    problems.extend(rejected(&desired, &snapshot.objects, node));
    let mut warnings = lacking(&desired, &snapshot.objects);
    for input in inputs {
        if let Ok(bytes) = &input.read {
            let found = problems.iter_mut().chain(&mut warnings);
            locate(bytes, found.filter(|problem| *problem.origin == *input.origin).collect());
        }
    }
    let wrong = |found: &&Found| {
        let is_it = |problem: &FoundProblem| {
            problem.origin == found.origin && problem.problem.object.as_ref() == Some(&*found.name)
        };
        problems.iter().any(is_it)
    };
    let fine = found - snapshot.objects.iter().filter(wrong).count();
    problems.sort_by(by_place);
    warnings.sort_by(by_place);
    Report { problems, warnings, fine }
}

/// File, line, column.
pub(super) fn by_place(a: &FoundProblem, b: &FoundProblem) -> Ordering {
    let place = |found: &FoundProblem| (found.problem.line, found.problem.column);
    a.origin.cmp(&b.origin).then(place(a).cmp(&place(b)))
}

/// What pods refer to and none of the manifests holds: another source of the node may.
fn lacking(desired: &Desired, objects: &[Found]) -> Vec<FoundProblem> {
    let mut warnings = Vec::new();
    for pod in desired.pods.values() {
        let Some(found) = found(objects, &pod.pod) else { continue };
        let missing = missing::of(&pod.pod, &desired.references).into_iter();
        warnings.extend(missing.map(|missing| at(found, missing.path, missing.what, missing.remedy)));
    }
    warnings
}

/// Where the pod was found.
fn found<'a>(objects: &'a [Found], pod: &Arc<Pod>) -> Option<&'a Found> {
    objects.iter().find(|found| matches!(&found.object, Held::Pod(held) if Arc::ptr_eq(held, pod)))
}

/// Something about an object that was found.
fn at(found: &Found, path: String, what: String, remedy: &str) -> FoundProblem {
    let (remedy, object) = (remedy.to_owned(), Some((*found.name).clone()));
    let problem = Problem { line: 0, column: 0, path, what, remedy, object };
    FoundProblem { origin: found.origin.clone(), problem, last_good: false }
}

/// What would not be admitted, even alone on the node.
fn rejected(desired: &Desired, objects: &[Found], node: &str) -> Vec<FoundProblem> {
    let facts = Arc::new(Facts { node_name: node.to_owned(), ..Facts::default() });
    let node = Node { facts, ..Node::default() };
    let decision = Admission::default().decide(desired, &node);
    let mut problems = Vec::new();
    for (uid, rejection) in &decision.rejected {
        let Some(pod) = desired.pods.get(uid) else { continue };
        let Some(found) = found(objects, &pod.pod) else { continue };
        let told = if rejection.reason == UNSUPPORTED {
            let refusals = spec::refusals(&pod.pod).into_iter();
            refusals
                .map(|r| (r.path, "this field is not supported here".to_owned(), r.instead))
                .collect::<Vec<_>>()
        } else {
            let Rejection { path, message, .. } = rejection.clone();
            vec![(path, message, remedy(&rejection.reason))]
        };
        problems.extend(told.into_iter().map(|(path, what, remedy)| at(found, path, what, remedy)));
    }
    problems
}

fn remedy(reason: &str) -> &'static str {
    match reason {
        "NodePorts" => "give one of the two another hostPort",
        "PodOSNotSupported" => "leave it out, or run the pod on such a node",
        "SysctlForbidden" => "leave it out; --allowed-unsafe-sysctls can allow it on a node",
        _ => "change what it asks for",
    }
}

/// Finds line and column of problems that were found in objects, not in their text.
fn locate(bytes: &[u8], problems: Vec<&mut FoundProblem>) {
    let mut unplaced: Vec<&mut Problem> = problems
        .into_iter()
        .map(|found| &mut found.problem)
        .filter(|problem| problem.line == 0 && problem.object.is_some())
        .collect();
    if unplaced.is_empty() {
        return;
    }
    let named: BTreeSet<&ObjectName> =
        unplaced.iter().filter_map(|problem| problem.object.as_ref()).collect();
    let faults = |object: &Object| {
        let name = object.object_name();
        if !named.contains(&name) {
            return Vec::new();
        }
        let own = unplaced.iter().filter(|problem| problem.object.as_ref() == Some(&name));
        own.map(|problem| Fault {
            path: PathBuf::from(problem.path.as_str()),
            aim: Aim::Value,
            why: Why::Invalid,
            what: problem.what.clone(),
            remedy: problem.remedy.clone(),
        })
        .collect()
    };
    let placed = decode_with(bytes, &faults).problems;
    for problem in &mut unplaced {
        let is_it = |other: &&Problem| other.object == problem.object && other.what == problem.what;
        let same_path = placed.iter().filter(is_it).find(|other| other.path == problem.path);
        if let Some(place) = same_path.or_else(|| placed.iter().find(is_it)) {
            (problem.line, problem.column) = (place.line, place.column);
            problem.path.clone_from(&place.path);
        }
    }
}
