//! Checks namespaces that cannot be deleted, and Pod Security labels that are not enforced. Pure.

use super::kinds::{Namespace, condition};
use super::{PATIENCE, World};
use crate::admission::ENFORCE;
use crate::check::finding::{Finding, Severity, Subject, counted};

/// Conditions that explain a blocked deletion, the most specific first.
const WHY: &[&str] = &[
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
];

/// Findings for all namespaces.
pub fn findings(world: &World) -> Vec<Finding> {
    let ending = world.lists.namespaces.iter().filter(|namespace| namespace.metadata.is_terminating());
    ending.filter_map(|namespace| stuck(world, namespace)).chain(unguarded(world)).collect()
}

/// The warning about Pod Security labels. This project's master stores them but does not enforce them.
fn unguarded(world: &World) -> Option<Finding> {
    let requests_level =
        |namespace: &&Namespace| !["", "privileged"].contains(&namespace.metadata.label(ENFORCE));
    let asking: Vec<&Namespace> = world.lists.namespaces.iter().filter(requests_level).collect();
    let first = asking.first().filter(|_| world.version.is_own())?;
    let who = match asking.len() {
        1 => format!("{} asks", first.metadata.name),
        many => format!("{} and {} ask", first.metadata.name, counted(many.saturating_sub(1), "other")),
    };
    let remedy = "reject such pods with a ValidatingAdmissionPolicy, and let few users create pods";
    let what = format!("{who} for pod security, but no pod is rejected");
    Some(
        Finding::warning("namespaces", what, remedy)
            .because(format!("this master does not enforce {ENFORCE} yet")),
    )
}

fn stuck(world: &World, namespace: &Namespace) -> Option<Finding> {
    let Namespace { metadata, spec, status } = namespace;
    let is_late = world.since(metadata.deletion_timestamp) > PATIENCE;
    let whys: Vec<String> = WHY
        .iter()
        .map(|name| condition(&status.conditions, name))
        .filter(|condition| condition.is_true())
        .map(|condition| condition.message.to_string())
        .collect();
    // A normal deletion in progress has remaining content too.
    let is_held = condition(&status.conditions, "NamespaceFinalizersRemaining").is_true();
    if !is_late && !is_held {
        return None;
    }
    let name = &metadata.name;
    let (cause, remedy) = if whys.is_empty() {
        let held = spec.finalizers.iter().chain(&metadata.finalizers).map(|name| &**name);
        (
            format!("it waits for {}", held.collect::<Vec<_>>().join(", ")),
            "check that the controllers run (`--controllers`, the master's log), and who set these finalizers".to_owned(),
        )
    } else {
        (
            whys.join(" "),
            format!(
                "start the controllers that remove these finalizers, or remove them manually: \
                 `kubectl api-resources --verbs=list --namespaced -o name | xargs -n1 kubectl get -n {name} --ignore-not-found`"
            ),
        )
    };
    let severity = if is_late { Severity::Problem } else { Severity::Warning };
    let finding = Finding::problem(Subject::of("Namespace", metadata), "is stuck in deletion", remedy);
    Some(finding.because(cause).graded(severity))
}
