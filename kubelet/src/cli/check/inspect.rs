//! Validates all manifests of a node together, with the same code that `kubelet run` uses.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use api::decode_with;
use api::field_error::{ErrorType, FieldError, Target};
use api::object::Object;
use api::path::PathBuf;
use api::problem::{ObjectName, Problem};
use k8s_openapi::api::core::v1::Pod;

use super::{lint, missing};
use crate::desired::{
    APP_ARMOR, Admission, Completeness, Decision, Desired, Found, FoundProblem, Merge, Node, Rejection,
    Snapshot, SourceKind, SourceObject, UNSUPPORTED,
};
use crate::observed::Timestamp;
use crate::sources::file::Text;
use crate::sources::manifest::{Known, Manifest, ManifestContext};
use crate::spec::{self, Facts, Refusal};

/// One manifest to check.
#[derive(Clone, Debug)]
pub struct Input {
    /// The file or URL.
    pub origin: String,
    /// Content of the manifest, or the reason why it could not be read.
    pub read: Text,
}

/// Facts of the machine on which the check runs.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The node's name.
    pub node: String,
    /// Whether AppArmor is enabled in the kernel; `None` skips the checks that depend on it.
    pub app_armor: Option<bool>,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Errors, sorted by file, line and column.
    pub problems: Vec<FoundProblem>,
    /// Warnings about objects that are valid but will not run as they are, sorted by file, line and column.
    pub warnings: Vec<FoundProblem>,
    /// Directory entries that are skipped, one sentence each.
    pub skipped: Vec<String>,
    /// Number of objects without errors.
    pub fine: usize,
}

/// Checks manifests as if one node ran all of them. Problems come only from rules that hold on every node, such as unsupported
/// fields and host-port conflicts. What only this host rejects is a warning, because the manifests may be for another one.
pub fn inspect(inputs: &[Input], host: &Host, now: Timestamp) -> Report {
    let place = ManifestContext { node: host.node.clone(), source: SourceKind::File };
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
        skipped: Vec::new(),
        completeness: Completeness::Complete,
    };
    let snapshot = Arc::new(snapshot);
    let desired = Merge::new([SourceKind::File]).put(snapshot.clone());
    let mut problems = desired.problems.clone();
    let every_host = Host { app_armor: None, ..host.clone() };
    let decision = Admission::default().decide(&desired, &every_host.as_node());
    problems.extend(rejected(&desired, &decision, &snapshot.objects));
    problems.extend(failing(&decision, &snapshot.objects, &every_host));
    let mut warnings = lacking(&desired, &snapshot.objects);
    let mut here = Admission::default().decide(&desired, &host.as_node());
    here.rejected.retain(|uid, _| !decision.rejected.contains_key(uid));
    warnings.extend(rejected(&desired, &here, &snapshot.objects));
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
    Report { problems, warnings, skipped: Vec::new(), fine }
}

/// Orders problems by file, line and column.
pub(super) fn by_place(a: &FoundProblem, b: &FoundProblem) -> Ordering {
    let place = |found: &FoundProblem| (found.problem.line, found.problem.column);
    a.origin.cmp(&b.origin).then(place(a).cmp(&place(b)))
}

/// Finds references to objects that no given manifest contains, and likely mistakes. They are only warnings,
/// because another source may have the objects.
fn lacking(desired: &Desired, objects: &[Found]) -> Vec<FoundProblem> {
    let mut warnings = Vec::new();
    for pod in desired.pods.values() {
        let Some(found) = found(objects, &pod.pod) else { continue };
        let missing = missing::of(&pod.pod, &desired.references).into_iter();
        warnings.extend(missing.map(|missing| at(found, missing.path, missing.what, missing.remedy)));
        let lint = lint::of(&pod.pod).into_iter();
        warnings.extend(lint.map(|(path, what, remedy)| at(found, path, what, remedy)));
    }
    warnings
}

/// The object from which a pod was read. It is found by pointer equality.
fn found<'a>(objects: &'a [Found], pod: &Arc<Pod>) -> Option<&'a Found> {
    objects.iter().find(|found| matches!(&found.object, SourceObject::Pod(held) if Arc::ptr_eq(held, pod)))
}

/// Creates a problem of a source object.
fn at(found: &Found, path: String, what: String, remedy: &str) -> FoundProblem {
    let (remedy, object) = (remedy.to_owned(), Some((*found.name).clone()));
    let problem = Problem { line: 0, column: 0, path, what, remedy, object };
    FoundProblem { origin: found.origin.clone(), problem, last_good: false }
}

impl Host {
    fn facts(&self) -> Facts {
        Facts { node_name: self.node.clone(), app_armor: self.app_armor, ..Facts::default() }
    }

    fn as_node(&self) -> Node {
        Node { facts: Arc::new(self.facts()), ..Node::default() }
    }
}

/// Pods that pod admission rejects.
fn rejected(desired: &Desired, decision: &Decision, objects: &[Found]) -> Vec<FoundProblem> {
    let mut problems = Vec::new();
    for (uid, rejection) in &decision.rejected {
        let Some(pod) = desired.pods.get(uid) else { continue };
        let Some(found) = found(objects, &pod.pod) else { continue };
        let reasons = if rejection.reason == UNSUPPORTED {
            spec::refusals(&pod.pod).into_iter().map(unsupported).collect::<Vec<_>>()
        } else {
            let Rejection { path, message, .. } = rejection.clone();
            vec![(path, message, remedy(&rejection.reason))]
        };
        problems.extend(reasons.into_iter().map(|(path, what, remedy)| at(found, path, what, remedy)));
    }
    problems
}

/// Admitted pods whose containers can never be created.
fn failing(decision: &Decision, objects: &[Found], host: &Host) -> Vec<FoundProblem> {
    let (facts, mut problems) = (host.facts(), Vec::new());
    for pod in decision.run.values() {
        let Some(found) = found(objects, &pod.pod) else { continue };
        let failures = spec::certain_failures(&pod.pod, &facts).into_iter();
        problems.extend(failures.map(|(path, error)| at(found, path, error.message, remedy(error.reason))));
    }
    problems
}

fn unsupported(refusal: Refusal) -> (String, String, &'static str) {
    let what = match refusal.value {
        None => "this field is not supported here".to_owned(),
        Some(value) => format!("`{value}` is not supported here"),
    };
    (refusal.path, what, refusal.instead)
}

fn remedy(reason: &str) -> &'static str {
    match reason {
        "NodePorts" => "give one of the two another hostPort",
        APP_ARMOR => {
            "`kubelet run` rejects the pod on this host: enable AppArmor in its kernel, or remove the profile"
        }
        "PodOSNotSupported" => "leave it out, or run the pod on such a node",
        "SysctlForbidden" => "leave it out; --allowed-unsafe-sysctls can allow it on a node",
        _ => "change the field",
    }
}

/// Sets line and column of problems that were found in decoded objects. For that, it decodes the manifest again and
/// reports the same problems as errors.
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
        own.map(|problem| FieldError {
            path: PathBuf::from(problem.path.as_str()),
            target: Target::Value,
            error_type: ErrorType::Invalid,
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
