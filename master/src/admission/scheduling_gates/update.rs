//! What an update of a pod does: the container images that it changes, and the scheduling gates that it removes. Pure.

use std::collections::HashSet;

use api::strategy::Json;
use serde_json::Value;

use super::super::pods::{CONTAINERS, list, spec};

/// The field paths of changed images of existing containers.
pub fn changed_images(old: Option<&Json>, new: &Json) -> Vec<String> {
    let (Some(old), Some(new)) = (old.and_then(spec), spec(new)) else { return Vec::new() };
    let image = |container: &Value| container.get("image").cloned();
    let of = |name: &str| {
        let both = list(old, name).zip(list(new, name)).enumerate();
        let other = both.filter(|(_, (old, new))| image(old) != image(new));
        other.map(|(at, _)| format!("spec.{name}[{at}].image")).collect::<Vec<_>>()
    };
    CONTAINERS.into_iter().flat_map(of).collect()
}

/// The gates that an update removes, in order.
pub fn taken<'a>(old: &[&'a str], new: &[&str]) -> Vec<&'a str> {
    let left: HashSet<&str> = new.iter().copied().collect();
    old.iter().copied().filter(|gate| !left.contains(gate)).collect()
}

/// The reason why an update of gates is invalid. Gates for which `is_ordered` is true must be removed in order.
pub fn out_of_turn(old: &[&str], new: &[&str], is_ordered: impl Fn(&str) -> bool) -> Option<String> {
    let left: HashSet<&str> = new.iter().copied().collect();
    let mut behind = old.iter().copied().skip_while(|gate| !left.contains(gate));
    let first = behind.next()?;
    if let Some(early) = behind.clone().find(|gate| !left.contains(gate) && is_ordered(gate)) {
        return Some(format!("gate {early} may not be removed yet: gate {first} is next"));
    }
    let kept = old.iter().filter(|gate| left.contains(*gate));
    let is_moved = new.iter().any(|gate| is_ordered(gate)) && !kept.eq(new);
    is_moved.then(|| format!("gates must keep their order: gate {first} is next"))
}

#[cfg(test)]
mod tests {
    //! Tests of changed images, and of the removal of gates in and out of order.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn error_lists_each_changed_image() {
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
            assert_eq!(changed_images(Some(&old), &new), expected);
        }
        assert_eq!(changed_images(None, &old), [] as [&str; 0]);
    }

    #[test]
    fn scheduling_gates_are_removed_in_order() {
        let ordered = |gate: &str| gate == "a" || gate == "b";
        for (old, new, expected) in [
            ("a b mine", "a b mine", None),
            ("a b mine", "b mine", None),
            ("a b mine", "mine", None),
            ("a b mine", "", None),
            ("b", "", None),
            // A gate that the user set can be removed in any order.
            ("a b mine", "a b", None),
            ("a mine yours", "a yours", None),
            ("mine yours", "yours mine", None),
            ("a b mine", "a mine", Some("gate b may not be removed yet: gate a is next")),
            ("a b mine", "a", Some("gate b may not be removed yet: gate a is next")),
            ("mine a", "mine", Some("gate a may not be removed yet: gate mine is next")),
            ("a b mine", "b a mine", Some("gates must keep their order: gate a is next")),
            ("a b mine", "mine b", Some("gates must keep their order: gate b is next")),
            // No gate may be added; validation of the Pod rejects that.
            ("a", "a a", Some("gates must keep their order: gate a is next")),
        ] {
            let split = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
            let found_gate = out_of_turn(&split(old), &split(new), ordered);
            assert_eq!(found_gate.as_deref(), expected, "{old} -> {new}");
        }
        assert_eq!(taken(&["a", "b", "c"], &["b"]), ["a", "c"]);
    }
}
