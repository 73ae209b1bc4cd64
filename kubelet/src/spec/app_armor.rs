//! AppArmor profiles: selects the profile of a container and checks whether the node can enforce it.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, Pod};

use super::facts::Facts;
use super::numbered;

/// Prefix of the annotation that was used before Kubernetes 1.30. The container name follows.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The profile of a container. It comes from its own field, otherwise from the annotation, otherwise from the pod's
/// field.
pub(super) fn profile(pod: &Pod, container: &Container) -> Option<AppArmorProfile> {
    let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.clone());
    let of_pod = || pod.spec.as_ref()?.security_context.as_ref()?.app_armor_profile.clone();
    own.or_else(|| annotated(pod, container)).or_else(of_pod)
}

/// The value of the annotation, or `None` if the container has the field.
pub(super) fn annotation<'a>(pod: &'a Pod, container: &Container) -> Option<&'a str> {
    if container.security_context.as_ref().is_some_and(|context| context.app_armor_profile.is_some()) {
        return None;
    }
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(&format!("{ANNOTATION}{}", container.name)).map(String::as_str)
}

fn annotated(pod: &Pod, container: &Container) -> Option<AppArmorProfile> {
    let text = annotation(pod, container)?;
    let (kind, name) = match text.split_once('/') {
        Some(("localhost", name)) => ("Localhost", Some(name.to_owned())),
        Some(("runtime", "default")) => ("RuntimeDefault", None),
        _ if text == "unconfined" => ("Unconfined", None),
        _ => return None,
    };
    Some(AppArmorProfile { type_: kind.to_owned(), localhost_profile: name })
}

/// Path of the first profile that the node cannot enforce, and why, in the words of the stock kubelet.
pub fn unenforceable(pod: &Pod, facts: &Facts) -> Option<(String, String)> {
    let spec = pod.spec.as_ref().filter(|_| facts.app_armor == Some(false))?;
    let is_enforced =
        |container: &Container| profile(pod, container).is_some_and(|profile| profile.type_ != "Unconfined");
    let (at, container) = numbered(spec).find(|(_, container)| is_enforced(container))?;
    let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
    let path = if own.is_some() {
        format!("{at}.securityContext.appArmorProfile")
    } else if annotated(pod, container).is_some() {
        format!("metadata.annotations[{ANNOTATION}{}]", container.name)
    } else {
        "spec.securityContext.appArmorProfile".to_owned()
    };
    Some((path, "Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotation: Option<&str>, of_pod: Value, own: Value) -> Pod {
        let annotations = annotation.map(|text| json!({format!("{ANNOTATION}c"): text}));
        serde_json::from_value(json!({
            "metadata": {"annotations": annotations},
            "spec": {
                "securityContext": {"appArmorProfile": of_pod},
                "containers": [{"name": "c", "securityContext": {"appArmorProfile": own}}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn app_armor_profile_precedence_is_container_annotation_pod() {
        let [none, open, default] =
            [Value::Null, json!({"type": "Unconfined"}), json!({"type": "RuntimeDefault"})];
        let mine = json!({"type": "Localhost", "localhostProfile": "mine"});
        for (pod, expected, is_enforced) in [
            (pod(None, none.clone(), none.clone()), "", false),
            (pod(None, default.clone(), none.clone()), "RuntimeDefault", true),
            (pod(None, default.clone(), open.clone()), "Unconfined", false),
            (pod(Some("runtime/default"), none.clone(), none.clone()), "RuntimeDefault", true),
            (pod(Some("localhost/a/b"), default, none.clone()), "Localhost a/b", true),
            (pod(Some("unconfined"), mine.clone(), none.clone()), "Unconfined", false),
            (pod(Some("unconfined"), none, mine), "Localhost mine", true),
        ] {
            let found = profile(&pod, &pod.spec.as_ref().unwrap().containers[0]);
            let words = |profile: AppArmorProfile| {
                [profile.type_, profile.localhost_profile.unwrap_or_default()].join(" ").trim().to_owned()
            };
            assert_eq!(found.map(words).unwrap_or_default(), expected);
            for (host, is_refused) in [(None, false), (Some(true), false), (Some(false), is_enforced)] {
                let facts = Facts { app_armor: host, ..Facts::default() };
                assert_eq!(unenforceable(&pod, &facts).is_some(), is_refused, "{expected} {host:?}");
            }
        }
    }
}
