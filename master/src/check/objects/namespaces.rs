//! Namespaces that should be gone: what remains in them, and who holds it; and those that ask for what nobody enforces. Pure.

use super::field::{condition, list, text};
use super::{PATIENCE, World};
use crate::admission::ENFORCE;
use crate::check::finding::{Finding, Severity, Subject, counted};
use crate::controllers::Object;

/// Conditions that say why one stays, the plainest first.
const WHY: &[&str] = &[
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
];

/// What is wrong with namespaces.
pub fn findings(world: &World) -> Vec<Finding> {
    let ending = world.of("namespaces").iter().filter(|namespace| namespace.is_ending);
    ending.filter_map(|namespace| stuck(world, namespace)).chain(unguarded(world)).collect()
}

/// A master of ours keeps the label and refuses no pod by it.
fn unguarded(world: &World) -> Option<Finding> {
    let asks = |namespace: &&Object| !["", "privileged"].contains(&namespace.label(ENFORCE));
    let asking: Vec<&Object> = world.of("namespaces").iter().filter(asks).collect();
    let first = asking.first().filter(|_| world.version.is_own())?;
    let who = match asking.len() {
        1 => format!("{} asks", first.name),
        many => format!("{} and {} ask", first.name, counted(many.saturating_sub(1), "other")),
    };
    let remedy = "refuse such pods by a ValidatingAdmissionPolicy, and give the right to make pods to few";
    let what = format!("{who} for pod security, and no pod is refused");
    Some(
        Finding::warning("namespaces", what, remedy)
            .because(format!("this master does not act on {ENFORCE} yet")),
    )
}

fn stuck(world: &World, namespace: &Object) -> Option<Finding> {
    let is_late = world.since(text(namespace, "/metadata/deletionTimestamp")) > PATIENCE;
    let whys: Vec<String> = WHY
        .iter()
        .map(|name| condition(namespace, name))
        .filter(|condition| condition.holds())
        .map(|condition| condition.message.to_owned())
        .collect();
    // What is only on its way out has content, and nobody need do anything.
    let is_held = condition(namespace, "NamespaceFinalizersRemaining").holds();
    if !is_late && !is_held {
        return None;
    }
    let name = &namespace.name;
    let (cause, remedy) = if whys.is_empty() {
        let own: Vec<&str> =
            list(namespace, "/spec/finalizers").iter().filter_map(serde_json::Value::as_str).collect();
        let held = own.into_iter().chain(namespace.finalizers.iter().map(String::as_str));
        (
            format!("it waits for {}", held.collect::<Vec<_>>().join(", ")),
            "look whether the controllers run (`--controllers`, the master's log), and whoever else set these finalizers".to_owned(),
        )
    } else {
        (
            whys.join(" "),
            format!(
                "start whatever takes these finalizers off, or take them off yourself: \
                 `kubectl api-resources --verbs=list --namespaced -o name | xargs -n1 kubectl get -n {name} --ignore-not-found`"
            ),
        )
    };
    let severity = if is_late { Severity::Problem } else { Severity::Warning };
    let finding = Finding::problem(Subject::of("Namespace", namespace), "is to be gone and is not", remedy);
    Some(finding.because(cause).graded(severity))
}
