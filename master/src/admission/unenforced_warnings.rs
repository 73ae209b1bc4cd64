//! Warns about protective settings that this master stores but does not enforce.

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;
use serde_json::Value;

/// The label that sets the enforced Pod Security level of a namespace.
pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// The level without restrictions.
const PRIVILEGED: &str = "privileged";
/// The webhook configuration resources.
const WEBHOOKS: [&str; 2] = [
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
];

/// The plugin that adds the warnings. It rejects nothing.
#[derive(Clone, Copy, Debug)]
pub struct UnenforcedWarnings;

/// The enforced level of a namespace, unless it is `privileged`.
fn level(namespace: &Json) -> Option<&str> {
    let level = namespace.get("metadata")?.get("labels")?.get(ENFORCE)?.as_str()?;
    (level != PRIVILEGED).then_some(level)
}

fn has_webhooks(configuration: &Json) -> bool {
    configuration.get("webhooks").and_then(Value::as_array).is_some_and(|webhooks| !webhooks.is_empty())
}

/// The warning for a namespace whose level was set or changed.
fn namespace_warning(namespace: &Json, old: Option<&Json>) -> Option<String> {
    let level = level(namespace)?;
    // An unchanged level was warned about before.
    (old.and_then(self::level) != Some(level)).then(|| {
        format!(
            "metadata.labels[{ENFORCE}]: this master does not enforce pod security yet: it admits pods that are \
             not {level}; reject them with a ValidatingAdmissionPolicy, and let few users create pods"
        )
    })
}

#[async_trait]
impl Admission for UnenforcedWarnings {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        if !matches!(attempt.operation, Operation::Create | Operation::Update)
            || attempt.subresource.is_some()
        {
            return Ok(());
        }
        if attempt.is_of("namespaces") {
            namespace_warning(&attempt.object, attempt.old)
                .into_iter()
                .for_each(|warning| attempt.warnings.push(warning));
        } else if WEBHOOKS.iter().any(|kind| attempt.is_of(kind)) && has_webhooks(&attempt.object) {
            attempt.warnings.push(
                "webhooks: this master does not call webhooks yet: objects are written without being checked or \
                 changed by them; use a ValidatingAdmissionPolicy or MutatingAdmissionPolicy"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of warnings for namespaces.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn setting_an_unenforced_level_gives_one_warning() {
        let namespace = |level: &str| {
            let labels = if level.is_empty() { json!({"a": "b"}) } else { json!({"a": "b", ENFORCE: level}) };
            json!({"metadata": {"name": "shop", "labels": labels}}).as_object().unwrap().clone()
        };
        for (old, new, is_reported) in [
            (None, "", false),
            (None, PRIVILEGED, false),
            (None, "baseline", true),
            (Some(""), "restricted", true),
            (Some("baseline"), "restricted", true),
            (Some("restricted"), "restricted", false),
            (Some("restricted"), "", false),
        ] {
            let warning = namespace_warning(&namespace(new), old.map(namespace).as_ref());
            assert_eq!(warning.is_some(), is_reported, "{old:?} {new}: {warning:?}");
            assert!(warning.is_none_or(|warning| warning.contains(new)));
        }
        for odd in [json!({}), json!({"metadata": 5}), json!({"metadata": {"labels": {ENFORCE: 7}}})] {
            assert_eq!(namespace_warning(odd.as_object().unwrap(), None), None, "{odd}");
        }
    }
}
