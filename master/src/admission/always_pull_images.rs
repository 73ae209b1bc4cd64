//! The AlwaysPullImages plugin: each start of a container pulls its image. A pod therefore needs the pull secret
//! even if the image is already on the node.

use std::collections::BTreeSet;

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest};
use async_trait::async_trait;

use super::pods::{CONTAINERS, field, forbidden, is_edited_pod, is_new_pod, list, list_mut, spec, text};

const POLICY: &str = "imagePullPolicy";
const ALWAYS: &str = "Always";

/// The stock plugin `AlwaysPullImages`. It is not active by default.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysPullImages;

/// Sets the pull policy of all containers.
fn set_policies(pod: &mut Json) {
    let Some(spec) = field(pod, "spec") else { return };
    for name in CONTAINERS {
        if !spec.contains_key(name) {
            continue;
        }
        let containers = list_mut(spec, name).into_iter().flatten();
        for container in containers.filter_map(|container| container.as_object_mut()) {
            container.insert(POLICY.to_owned(), ALWAYS.into());
        }
    }
}

/// The path and the policy of the first container that does not always pull.
fn wrong_policy(pod: &Json) -> Option<String> {
    let spec = spec(pod)?;
    CONTAINERS.iter().find_map(|name| {
        list(spec, name).enumerate().find_map(|(index, container)| {
            let policy = text(container.as_object()?, POLICY);
            (policy != ALWAYS).then(|| {
                format!("spec.{name}[{index}].{POLICY}: Unsupported value: \"{policy}\": supported values: \"{ALWAYS}\"")
            })
        })
    })
}

fn images(pod: &Json) -> BTreeSet<&str> {
    let spec = spec(pod);
    let containers = CONTAINERS.iter().flat_map(|name| spec.into_iter().flat_map(|spec| list(spec, name)));
    containers.filter_map(|container| Some(text(container.as_object()?, "image"))).collect()
}

/// True for a new pod, and for an update that adds an image. Other updates must keep the immutable policy.
fn is_concerned(attempt: &AdmissionRequest<'_>) -> bool {
    let adds_image = || attempt.old.is_none_or(|old| !images(&attempt.object).is_subset(&images(old)));
    is_new_pod(attempt) || (is_edited_pod(attempt) && adds_image())
}

#[async_trait]
impl Admission for AlwaysPullImages {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if is_concerned(attempt) {
            set_policies(&mut attempt.object);
        }
        Ok(())
    }

    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        match wrong_policy(&attempt.object).filter(|_| is_concerned(attempt)) {
            Some(wrong) => Err(forbidden(attempt, &wrong)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of pull policies of containers.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Json {
        json!({"spec": spec}).as_object().unwrap().clone()
    }

    #[test]
    fn plugin_sets_the_pull_policy_of_all_containers() {
        let mut pod = pod(json!({
            "initContainers": [{"name": "i", "image": "a", POLICY: "Never"}],
            "containers": [{"name": "c", "image": "b", POLICY: "IfNotPresent"}, {"name": "d", "image": "b"}],
        }));
        let wrong = wrong_policy(&pod).unwrap();
        assert!(
            wrong.starts_with("spec.initContainers[0].imagePullPolicy: Unsupported value: \"Never\""),
            "{wrong}"
        );
        set_policies(&mut pod);
        assert_eq!(wrong_policy(&pod), None);
        assert_eq!(pod["spec"]["containers"][1][POLICY], ALWAYS);
        assert_eq!(images(&pod), BTreeSet::from(["a", "b"]));
    }

    #[test]
    fn absent_container_lists_stay_absent() {
        let mut pod = pod(json!({"containers": []}));
        set_policies(&mut pod);
        assert_eq!(Value::Object(pod), json!({"spec": {"containers": []}}));
    }
}
