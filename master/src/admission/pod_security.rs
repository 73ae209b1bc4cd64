//! The PodSecurity plugin validates the Pod Security labels of namespaces. An administrator could otherwise believe
//! that an invalid level protects the namespace.

use api::strategy::{Cause, Json};
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;
use serde_json::Value;

/// Prefix of the labels.
const PREFIX: &str = "pod-security.kubernetes.io";
const MODES: [&str; 3] = ["enforce", "audit", "warn"];
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// The part of the stock plugin `PodSecurity` that validates labels.
#[derive(Clone, Copy, Debug)]
pub struct PodSecurity;

/// The invalid labels of a namespace.
fn faults(namespace: &Json) -> Vec<Cause> {
    let labels = namespace.get("metadata").and_then(|metadata| metadata.get("labels"));
    let judge = |label: String, is_right: fn(&str) -> bool, why: &str| {
        let text = labels?.get(&label)?.as_str()?;
        (!is_right(text)).then(|| Cause::invalid(format!("metadata.labels[{label}]"), Value::from(text), why))
    };
    let of_mode = |mode: &str| {
        let level =
            judge(format!("{PREFIX}/{mode}"), is_level, "must be one of privileged, baseline, restricted");
        let version = judge(format!("{PREFIX}/{mode}-version"), is_version, "must be \"latest\" or \"v1.x\"");
        level.into_iter().chain(version)
    };
    MODES.into_iter().flat_map(of_mode).collect()
}

fn is_level(text: &str) -> bool {
    LEVELS.contains(&text)
}

/// Whether the text is `latest`, or `v1.` and a number without leading zeros.
fn is_version(text: &str) -> bool {
    let is_number = |minor: &str| minor.parse::<u32>().is_ok_and(|number| number.to_string() == minor);
    text == "latest" || text.strip_prefix("v1.").is_some_and(is_number)
}

#[async_trait]
impl Admission for PodSecurity {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if !is_written || !attempt.is_of("namespaces") || attempt.subresource.is_some() {
            return Ok(());
        }
        let faults = faults(&attempt.object);
        // Existing invalid labels do not block other changes.
        if faults.is_empty() || attempt.old.is_some_and(|old| self::faults(old) == faults) {
            return Ok(());
        }
        Err(Status::invalid(attempt.resource, attempt.name, &faults))
    }
}

#[cfg(test)]
mod tests {
    //! Tests of valid and invalid labels.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn messages(labels: Value) -> Vec<String> {
        let namespace = json!({"metadata": {"name": "shop", "labels": labels}});
        let messages = faults(namespace.as_object().unwrap());
        messages.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn unknown_pod_security_levels_and_versions_are_rejected() {
        for mode in MODES {
            let label = format!("{PREFIX}/{mode}");
            let version = format!("{label}-version");
            for level in LEVELS {
                assert_eq!(messages(json!({&label: level})), Vec::<String>::new());
            }
            for wrong in ["bogus", "", "Restricted", "none"] {
                let why = "must be one of privileged, baseline, restricted";
                let expected = format!("metadata.labels[{label}]: Invalid value: \"{wrong}\": {why}");
                assert_eq!(messages(json!({&label: wrong})), [expected]);
            }
            for right in ["latest", "v1.0", "v1.36", "v1.100"] {
                assert_eq!(messages(json!({&version: right})), Vec::<String>::new(), "{right}");
            }
            for wrong in ["", "1.36", "v1", "v1.", "v1.01", "v1.+1", "v2.0", "v1.36.0", "v1.99999999999"] {
                let expected = format!(
                    "metadata.labels[{version}]: Invalid value: \"{wrong}\": must be \"latest\" or \"v1.x\""
                );
                assert_eq!(messages(json!({&version: wrong})), [expected]);
            }
        }
        assert_eq!(
            messages(json!({"a": "b", "pod-security.kubernetes.io/other": "x"})),
            Vec::<String>::new()
        );
        let all = messages(
            json!({"pod-security.kubernetes.io/warn": "x", "pod-security.kubernetes.io/enforce-version": "y"}),
        );
        assert_eq!(all.len(), 2);
        for odd in [json!({}), json!({"metadata": 5}), json!({"metadata": {"labels": [7]}})] {
            assert_eq!(faults(odd.as_object().unwrap()), []);
        }
    }
}
