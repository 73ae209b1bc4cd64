//! Selects the container of a pod subresource, with the messages of kube-apiserver.

use serde_json::{Map, Value};

use crate::status::Status;

/// Annotation that names the default container of a pod.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Returns the requested container, the default container of the annotation, or the only container.
///
/// # Errors
/// 400 if the container does not exist, or none is requested and there are several.
pub fn choose(pod_name: &str, pod: &Map<String, Value>, requested: Option<&str>) -> Result<String, Status> {
    let containers = names(pod, "containers");
    let init = names(pod, "initContainers");
    let ephemeral = names(pod, "ephemeralContainers");
    if let Some(requested) = requested.filter(|requested| !requested.is_empty()) {
        let known = containers.iter().chain(&init).chain(&ephemeral).any(|name| *name == requested);
        let unknown =
            || Status::bad_request(format!("container {requested} is not valid for pod {pod_name}"));
        return if known { Ok(requested.to_owned()) } else { Err(unknown()) };
    }
    let annotations = pod.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let annotated = annotations.and_then(|annotations| annotations.get(DEFAULT_CONTAINER));
    if let Some(annotated) = annotated.and_then(Value::as_str).filter(|name| containers.contains(name)) {
        return Ok(annotated.to_owned());
    }
    if let [only] = containers[..] {
        return Ok(only.to_owned());
    }
    let mut message = format!(
        "a container name must be specified for pod {pod_name}, choose one of: [{}]",
        containers.join(" ")
    );
    for (what, names) in [("init", init), ("ephemeral", ephemeral)] {
        if !names.is_empty() {
            message.push_str(&format!(" or one of the {what} containers: [{}]", names.join(" ")));
        }
    }
    Err(Status::bad_request(message))
}

fn names<'a>(pod: &'a Map<String, Value>, list: &str) -> Vec<&'a str> {
    let containers = pod.get("spec").and_then(|spec| spec.get(list)).and_then(Value::as_array);
    let name = |container: &'a Value| container.get("name").and_then(Value::as_str);
    containers.into_iter().flatten().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    //! Tests of container selection.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::choose;

    #[test]
    fn default_container_of_a_pod_is_selected() {
        let one = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}});
        let mut two = one.clone();
        two["spec"]["containers"] = json!([{"name": "a"}, {"name": "b"}]);
        let mut annotated = two.clone();
        annotated["metadata"] = json!({"annotations": {"kubectl.kubernetes.io/default-container": "b"}});
        for (pod, requested, expected) in [
            (&one, None, Ok("a")),
            (&one, Some(""), Ok("a")),
            (&two, Some("b"), Ok("b")),
            (&two, Some("i"), Ok("i")),
            (&annotated, None, Ok("b")),
            (&two, Some("x"), Err("container x is not valid for pod web")),
            (
                &two,
                None,
                Err(
                    "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]",
                ),
            ),
            (&json!({}), None, Err("a container name must be specified for pod web, choose one of: []")),
        ] {
            let chosen = choose("web", pod.as_object().unwrap(), requested).map_err(|error| error.message);
            assert_eq!(chosen.as_deref().map_err(String::as_str), expected);
        }
    }
}
