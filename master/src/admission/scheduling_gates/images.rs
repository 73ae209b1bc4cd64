//! Finds the container images that an update changes. Pure.

use api::strategy::Json;
use serde_json::Value;

use super::super::pods::{CONTAINERS, list, spec};

/// The field paths of changed images of existing containers.
pub fn changed(old: Option<&Json>, new: &Json) -> Vec<String> {
    let (Some(old), Some(new)) = (old.and_then(spec), spec(new)) else { return Vec::new() };
    let image = |container: &Value| container.get("image").cloned();
    let of = |name: &str| {
        let both = list(old, name).zip(list(new, name)).enumerate();
        let other = both.filter(|(_, (old, new))| image(old) != image(new));
        other.map(|(at, _)| format!("spec.{name}[{at}].image")).collect::<Vec<_>>()
    };
    CONTAINERS.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    //! Tests of changed images.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn each_other_image_is_named() {
        let pod = |first: &str, web: &str, log: &str| {
            let pod = json!({"spec": {
                "initContainers": [{"name": "first", "image": first}],
                "containers": [{"name": "web", "image": web}, {"name": "log", "image": log, "tty": true}],
            }});
            pod.as_object().unwrap().clone()
        };
        let old = pod("i", "web:1", "log");
        for (new, expected) in [
            (pod("i", "web:1", "log"), &[] as &[&str]),
            (pod("i", "web:2", "log"), &["spec.containers[0].image"]),
            (pod("j", "web:1", ""), &["spec.initContainers[0].image", "spec.containers[1].image"]),
        ] {
            assert_eq!(changed(Some(&old), &new), expected);
        }
        assert_eq!(changed(None, &old), [] as [&str; 0]);
    }
}
