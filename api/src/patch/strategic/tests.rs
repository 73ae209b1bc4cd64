//! Tests of strategic merge patches on parts of a Pod and a Deployment.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::apply;
use crate::patch::PatchError;
use crate::shape::random::{any_object, any_pod, any_value};
use crate::shape::{Shape, sample};

/// Patches the `spec` of a pod.
fn pod_spec(object: Value, patch: Value) -> Result<Value, PatchError> {
    let patched = apply(json!({"spec": object}), &json!({"spec": patch}), sample::pod())?;
    Ok(patched["spec"].clone())
}

#[test]
fn objects_merge_and_null_deletes() {
    for (object, patch, patched) in [
        (json!({"nodeName": "a"}), json!({}), json!({"nodeName": "a"})),
        (json!({"nodeName": "a"}), json!({"nodeName": "b"}), json!({"nodeName": "b"})),
        (json!({"nodeName": "a"}), json!({"nodeName": null, "none": null}), json!({})),
        (
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
            json!({"nodeSelector": {"b": null, "c": "3"}}),
            json!({"nodeSelector": {"a": "1", "c": "3"}}),
        ),
        (json!({}), json!({"nodeSelector": {"a": "1", "b": null}}), json!({"nodeSelector": {"a": "1"}})),
        (
            json!({"tolerations": [{"key": "a"}, {"key": "b"}]}),
            json!({"tolerations": [{"key": "c"}]}),
            json!({"tolerations": [{"key": "c"}]}),
        ),
        (json!({"nodeSelector": {"a": "1"}}), json!({"nodeSelector": "x"}), json!({"nodeSelector": "x"})),
    ] {
        assert_eq!(pod_spec(object, patch.clone()), Ok(patched), "{patch}");
    }
}

#[test]
fn lists_with_a_key_merge_element_by_element() {
    let two = json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]});
    for (patch, containers) in [
        (json!([]), json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])),
        (
            json!([{"name": "b", "image": "b:2"}]),
            json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]),
        ),
        (json!([{"name": "a", "image": null}]), json!([{"name": "a"}, {"name": "b", "image": "b:1"}])),
        // Without an order, new elements come first.
        (
            json!([{"name": "c", "image": null}]),
            json!([{"name": "c"}, {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]),
        ),
        // The patch sets the order of its elements.
        (
            json!([{"name": "b"}, {"name": "a"}]),
            json!([{"name": "b", "image": "b:1"}, {"name": "a", "image": "a:1"}]),
        ),
        (json!([{"name": "a", "$patch": "delete"}]), json!([{"name": "b", "image": "b:1"}])),
        (
            json!([{"name": "z", "$patch": "delete"}]),
            json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]),
        ),
        (json!([{"$patch": "replace"}, {"name": "c"}]), json!([{"name": "c"}])),
        (json!([{"$patch": "replace"}]), json!([])),
        // A replaced list is taken as given, with duplicate keys.
        (
            json!([{"name": "c", "image": "1"}, {"name": "b"}, {"name": "c", "image": "2"}, {"$patch": "replace"}]),
            json!([{"name": "c", "image": "1"}, {"name": "b"}, {"name": "c", "image": "2"}]),
        ),
        (
            json!([{"name": "a", "$patch": "merge", "image": "a:2"}]),
            json!([{"name": "a", "image": "a:2"}, {"name": "b", "image": "b:1"}]),
        ),
        // Two patches with one key merge into one element.
        (
            json!([{"name": "c", "image": "1"}, {"name": "c", "workingDir": "/"}]),
            json!([{"name": "c", "image": "1", "workingDir": "/"}, {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]),
        ),
    ] {
        let patched = pod_spec(two.clone(), json!({"containers": patch})).unwrap();
        assert_eq!(patched["containers"], containers, "{patch}");
    }
}

#[test]
fn nested_lists_have_their_own_keys() {
    let object = json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80, "name": "web"}]}]});
    let patch = json!({"containers": [{
        "name": "a",
        "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}],
        "ports": [{"containerPort": 80, "hostPort": 8080}],
        "command": ["run"],
    }]});
    assert_eq!(
        pod_spec(object, patch).unwrap(),
        json!({"containers": [{
            "name": "a",
            "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}],
            "ports": [{"containerPort": 80, "name": "web", "hostPort": 8080}],
            "command": ["run"],
        }]})
    );
}

#[test]
fn service_ports_are_merged_by_port_number() {
    let object =
        json!({"spec": {"ports": [{"port": 53, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]}});
    let patch = json!({"spec": {"ports": [{"port": 53, "protocol": "UDP"}]}});
    assert_eq!(
        apply(object.clone(), &patch, sample::service()).unwrap()["spec"]["ports"],
        json!([{"port": 53, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}])
    );
}

#[test]
fn set_element_order_directive_orders_a_list() {
    let items = |names: &str| names.chars().map(|name| json!({"name": name.to_string()})).collect::<Value>();
    for (object, order, patch, arranged) in [
        ("abc", "cba", "", "cba"),
        ("abc", "abcd", "d", "abcd"),
        ("abc", "adbc", "d", "adbc"),
        ("ab", "ba", "b", "ba"),
        // An element that only the server has stays before the element that it preceded.
        ("abx", "ba", "", "bax"),
        ("xab", "ba", "", "xba"),
        ("axb", "ba", "", "xba"),
        ("axbyc", "acb", "", "axycb"),
        ("", "ba", "ba", "ba"),
        ("ab", "", "", "ab"),
        ("ab", "xyz", "", "ab"),
    ] {
        let patch = json!({"$setElementOrder/containers": items(order), "containers": items(patch)});
        let patched = pod_spec(json!({"containers": items(object)}), patch).unwrap();
        assert_eq!(patched["containers"], items(arranged), "{object} in the order {order}");
    }
    let only_order = json!({"$setElementOrder/containers": items("ba")});
    assert_eq!(
        pod_spec(json!({"containers": items("ab")}), only_order.clone()).unwrap()["containers"],
        items("ba")
    );
    assert_eq!(pod_spec(json!({}), only_order).unwrap(), json!({}));
    let new = json!({"$setElementOrder/containers": items("ab"), "containers": items("ab")});
    assert_eq!(pod_spec(json!({}), new).unwrap()["containers"], items("ab"));
}

#[test]
fn lists_of_plain_values_merge_like_sets() {
    for (object, patch, finalizers) in [
        (json!(["a", "b"]), json!({"finalizers": ["b"]}), json!(["a", "b"])),
        (json!(["a", "b"]), json!({"finalizers": ["c"]}), json!(["c", "a", "b"])),
        (json!(["a", "b"]), json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}), json!(["b"])),
        (
            json!(["a", "b"]),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b", "c"], "finalizers": ["c"]}),
            json!(["b", "c"]),
        ),
        (json!(["a", "b"]), json!({"$setElementOrder/finalizers": ["b", "a"]}), json!(["b", "a"])),
        (json!(["a"]), json!({"finalizers": null}), Value::Null),
    ] {
        let object = json!({"metadata": {"finalizers": object}});
        let patched = apply(object.clone(), &json!({"metadata": patch}), sample::pod()).unwrap();
        assert_eq!(patched["metadata"]["finalizers"], finalizers, "{patch}");
    }
}

#[test]
fn directives_for_objects() {
    let object =
        json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}], "nodeSelector": {"a": "1"}});
    for (patch, path, value) in [
        (json!({"nodeSelector": {"$patch": "replace", "b": "2"}}), "/nodeSelector", json!({"b": "2"})),
        (json!({"nodeSelector": {"$patch": "delete"}}), "/nodeSelector", json!({})),
        (
            json!({"nodeSelector": {"$patch": "merge", "b": "2"}}),
            "/nodeSelector",
            json!({"a": "1", "b": "2"}),
        ),
        (
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}, "emptyDir": null}]}),
            "/volumes",
            json!([{"name": "v", "hostPath": {"path": "/x"}}]),
        ),
        // Directives are removed from new values.
        (
            json!({"volumes": [{"name": "w", "$retainKeys": ["name"]}, {"name": "v", "$patch": "delete"}]}),
            "/volumes",
            json!([{"name": "w"}]),
        ),
        (json!({"containers": [{"name": "a", "$patch": "delete"}]}), "/containers", json!([])),
        (
            json!({"containers": [{"name": "a", "env": [{"$patch": "replace"}, {"name": "X"}], "resources": {"$patch": "delete"}}]}),
            "/containers",
            json!([{"name": "a", "env": [{"name": "X"}]}]),
        ),
    ] {
        let patched = pod_spec(object.clone(), patch.clone()).unwrap();
        assert_eq!(patched.pointer(path), Some(&value), "{patch}");
    }
    let whole = apply(json!({"spec": {}}), &json!({"$patch": "replace", "kind": "Pod"}), sample::pod());
    assert_eq!(whole, Ok(json!({"kind": "Pod"})));
}

#[test]
fn fields_that_are_replaced_are_not_merged() {
    let object = json!({"spec": {"wholly": {"a": "1"}, "strategy": {"type": "A"}}});
    let patch = json!({"spec": {"wholly": {"b": "2", "c": null}, "strategy": {"rollingUpdate": {}}}});
    assert_eq!(
        apply(object.clone(), &patch, sample::deployment()).unwrap()["spec"],
        json!({"wholly": {"b": "2"}, "strategy": {"type": "A", "rollingUpdate": {}}})
    );
}

#[test]
fn without_a_shape_objects_merge_and_lists_are_replaced() {
    let object = json!({"a": {"b": 1, "l": [{"name": "x"}]}});
    let patch = json!({"a": {"c": 2, "l": [{"name": "y"}]}});
    assert_eq!(
        apply(object.clone(), &patch, Shape::UNKNOWN),
        Ok(json!({"a": {"b": 1, "l": [{"name": "y"}], "c": 2}}))
    );
}

#[test]
fn invalid_input_is_rejected() {
    let object = || json!({"containers": [{"name": "a"}], "tolerations": []});
    for (patch, error) in [
        (
            json!({"nodeSelector": {"$patch": "jump"}}),
            "400 spec.nodeSelector: unknown patch type; $patch is replace",
        ),
        (
            json!({"containers": [{"$patch": 1}]}),
            "400 spec.containers[0]: unknown patch type; $patch is replace",
        ),
        (json!({"$retainKeys": "x"}), "400 spec: a directive for a list must be a list"),
        (
            json!({"$retainKeys": [], "nodeName": "x"}),
            "400 spec: `nodeName` is in the patch but not in its $retainKeys",
        ),
        (json!({"$setElementOrder": []}), "400 spec: `$setElementOrder` names no list"),
        (json!({"$setElementOrder/": []}), "400 spec: `$setElementOrder/` names no list"),
        (
            json!({"$setElementOrder/containers": {}}),
            "400 spec.containers: a directive for a list must be a list",
        ),
        (
            json!({"$setElementOrder/tolerations": [], "tolerations": []}),
            "400 spec.tolerations: $setElementOrder is only for lists that are merged",
        ),
        (
            json!({"$deleteFromPrimitiveList/containers": ["a"]}),
            "400 spec.containers: $deleteFromPrimitiveList is",
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}),
            "400 spec.containers: the order in patch list doesn't match $setElementOrder list; name",
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]}),
            "400 spec.containers: the order in patch list doesn't match",
        ),
        (
            json!({"containers": [{"image": "x"}]}),
            "422 spec.containers[0]: element does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"$patch": "delete"}]}),
            "422 spec.containers[0]: element does not contain declared merge key: name",
        ),
        (json!({"containers": ["x"]}), "422 spec.containers[0]: each element of this list must be an object"),
        (json!({"containers": [{"name": {}}]}), "422 spec.containers[0]: the key of an element must be"),
    ] {
        let (code, what) = match pod_spec(object(), patch.clone()) {
            Err(PatchError::Malformed(what)) => (400, what),
            Err(PatchError::TooLarge(what)) => (413, what),
            Err(PatchError::Unprocessable(what)) => (422, what),
            Ok(patched) => panic!("{patch} gave {patched}"),
        };
        assert!(format!("{code} {what}").starts_with(error), "{code} {what}");
    }
    assert!(matches!(apply(json!({}), &json!([]), sample::pod()), Err(PatchError::Malformed(_))));
    let broken = json!({"containers": [{"image": "x"}]});
    assert!(matches!(
        pod_spec(broken, json!({"containers": [{"name": "a"}]})),
        Err(PatchError::Unprocessable(_))
    ));
}

#[test]
fn long_lists_are_fast() {
    let items = |name: &str| (0..20_000).map(|i| json!({"name": format!("{name}{i}")})).collect::<Value>();
    let patched = pod_spec(json!({"containers": items("a")}), json!({"containers": items("b")})).unwrap();
    assert_eq!(patched["containers"].as_array().unwrap().len(), 40_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_empty_patch_changes_nothing(object in any_object()) {
        prop_assert_eq!(apply(object.clone(), &json!({}), sample::pod()).unwrap(), object);
    }

    #[test]
    fn object_patched_with_itself_is_unchanged(pod in any_pod(false)) {
        let patched = apply(pod.clone(), &pod, sample::pod()).unwrap();
        prop_assert_eq!(patched, pod);
    }

    #[test]
    fn patch_is_idempotent(pod in any_pod(false), patch in any_pod(false)) {
        let once = apply(pod.clone(), &patch, sample::pod()).unwrap();
        prop_assert_eq!(apply(once.clone(), &patch, sample::pod()).unwrap(), once);
    }

    #[test]
    fn patch_never_panics(object in any_value(), patch in any_value()) {
        let _ = apply(object.clone(), &patch, sample::pod());
        let _ = apply(object.clone(), &patch, Shape::UNKNOWN);
    }
}
