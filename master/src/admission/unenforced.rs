//! What is kept and not acted upon here: whoever writes something that is to protect him is told that it does not.

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use async_trait::async_trait;
use serde_json::Value;

/// The label by which a namespace asks that pods be refused.
pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// The one value that asks for nothing.
const PRIVILEGED: &str = "privileged";
/// Configurations of webhooks.
const WEBHOOKS: [&str; 2] = [
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
];

/// Says so, and refuses nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unenforced;

/// What a namespace asks of its pods.
fn level(namespace: &Json) -> Option<&str> {
    let level = namespace.get("metadata")?.get("labels")?.get(ENFORCE)?.as_str()?;
    (level != PRIVILEGED).then_some(level)
}

fn has_webhooks(configuration: &Json) -> bool {
    configuration.get("webhooks").and_then(Value::as_array).is_some_and(|webhooks| !webhooks.is_empty())
}

/// What is said of a namespace that was written over another one, or is new.
fn of_namespace(namespace: &Json, old: Option<&Json>) -> Option<String> {
    let level = level(namespace)?;
    // Who changes something else has been told, or is not whom it concerns.
    (old.and_then(self::level) != Some(level)).then(|| {
        format!(
            "metadata.labels[{ENFORCE}]: this master does not enforce pod security yet: pods that are not {level} are \
             taken; refuse them by a ValidatingAdmissionPolicy, and give the right to make pods to few"
        )
    })
}

#[async_trait]
impl Admission for Unenforced {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        if !matches!(attempt.operation, Operation::Create | Operation::Update)
            || attempt.subresource.is_some()
        {
            return Ok(());
        }
        if attempt.is_of("namespaces") {
            of_namespace(&attempt.object, attempt.old)
                .into_iter()
                .for_each(|told| attempt.warnings.push(told));
        } else if WEBHOOKS.iter().any(|kind| attempt.is_of(kind)) && has_webhooks(&attempt.object) {
            attempt.warnings.push(
                "webhooks: this master does not call webhooks yet: what these would refuse or change is written as it \
                 comes; a ValidatingAdmissionPolicy or MutatingAdmissionPolicy is carried out"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Who is told.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_sets_a_level_is_told_once() {
        let namespace = |level: &str| {
            let labels = if level.is_empty() { json!({"a": "b"}) } else { json!({"a": "b", ENFORCE: level}) };
            json!({"metadata": {"name": "shop", "labels": labels}}).as_object().unwrap().clone()
        };
        for (old, new, is_told) in [
            (None, "", false),
            (None, PRIVILEGED, false),
            (None, "baseline", true),
            (Some(""), "restricted", true),
            (Some("baseline"), "restricted", true),
            (Some("restricted"), "restricted", false),
            (Some("restricted"), "", false),
        ] {
            let told = of_namespace(&namespace(new), old.map(namespace).as_ref());
            assert_eq!(told.is_some(), is_told, "{old:?} {new}: {told:?}");
            assert!(told.is_none_or(|told| told.contains(new)));
        }
        for odd in [json!({}), json!({"metadata": 5}), json!({"metadata": {"labels": {ENFORCE: 7}}})] {
            assert_eq!(of_namespace(odd.as_object().unwrap(), None), None, "{odd}");
        }
    }
}
