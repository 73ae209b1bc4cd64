//! Tests of what an apply merges, removes, takes over and rejects.

use serde_json::{Value, json};

use super::{ApplyError, Part, Story, apart, applied_to, spec};
use crate::apply::is_same_but_for_times;
use crate::shape::{Shape, sample};

#[test]
fn first_apply_creates_the_object() {
    let story = Story::deployment().apply("a", json!({
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}, "creationTimestamp": null},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"replicas": 9},
    }));
    assert!(story.changed);
    assert_eq!(
        story.object.unwrap(),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "default", "labels": {"app": "web"},
                "managedFields": [{
                    "manager": "a", "operation": "Apply", "apiVersion": "apps/v1", "time": "1970-01-01T00:00:01Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:app": {}}},
                        "f:spec": {"f:replicas": {}, "f:selector": {}},
                    },
                }],
            },
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
        })
    );
}

#[test]
fn a_repeated_apply_changes_nothing() {
    let config =
        || spec(json!({"containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}]}));
    let story = Story::pod().apply("a", config());
    let before = story.object.clone();
    let story = story.apply("a", config());
    assert!(!story.changed);
    assert_eq!(story.object, before);
    // Not even as null, which is not stored.
    let story = Story::pod()
        .apply("a", spec(json!({"nodeName": "n"})))
        .apply("a", spec(json!({"nodeName": "n", "x": null})));
    assert_eq!(story.owners(), ["a Apply@2 .spec.nodeName .spec.x"]);
    assert_eq!(story.plain(), json!({"apiVersion": "v1", "spec": {"nodeName": "n"}, "metadata": {}}));
    assert!(!story.apply("a", spec(json!({"nodeName": "n", "x": null}))).changed);
}

#[test]
fn printed_manifests_can_be_applied() {
    let mut story = Story::pod().create("u", json!({
        "apiVersion": "v1",
        "metadata": {"name": "p", "uid": "1", "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 2},
        "spec": {"nodeName": "n"},
    }));
    let printed = || {
        json!({
            "metadata": {"name": "p", "creationTimestamp": null}, "spec": {"nodeName": "n"}, "status": {},
        })
    };
    story = story.apply("a", printed());
    assert!(story.changed && !story.apply("a", printed()).changed);
}

#[test]
fn a_record_that_differs_only_in_times_is_detected() {
    let at = |second: i64, field: &str| {
        let mut story = Story::pod();
        story.second = second;
        let mut story = story.create("u", spec(json!({"containers": [{"name": "c"}]})));
        story.second = 100 - second;
        let story = story.apply("a", spec(json!({"containers": [{"name": "c", field: "1"}]})));
        apart(story.object.as_ref()).1
    };
    assert_ne!(at(1, "image"), at(80, "image"));
    assert!(is_same_but_for_times(&at(1, "image"), &at(80, "image")));
    assert!(!is_same_but_for_times(&at(1, "image"), &at(1, "workingDir")));
    assert!(!is_same_but_for_times(&at(1, "image"), b""));
    assert!(!is_same_but_for_times(b"x", b"y") && is_same_but_for_times(b"", b""));
}

#[test]
fn fields_that_are_no_longer_applied_are_removed() {
    let two = json!({"containers": [{"name": "a", "image": "1", "workingDir": "/"}, {"name": "b"}], "nodeName": "n"});
    for (then, expected) in [
        (
            json!({"containers": [{"name": "a", "image": "1", "workingDir": "/"}, {"name": "b"}]}),
            json!({"containers": [{"name": "a", "image": "1", "workingDir": "/"}, {"name": "b"}]}),
        ),
        (json!({"containers": [{"name": "b"}]}), json!({"containers": [{"name": "b"}]})),
        (
            json!({"containers": [{"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "2"}]}),
        ),
        (json!({"nodeName": "n"}), json!({"nodeName": "n"})),
    ] {
        let story = Story::pod().apply("a", spec(two.clone())).apply("a", spec(then));
        assert_eq!(story.get("/spec"), Some(&expected));
    }
    let story = Story::pod().apply("a", spec(two)).apply("a", json!({"metadata": {"labels": {"a": "1"}}}));
    assert_eq!(story.get("/spec"), None);
    assert_eq!(story.owners(), ["a Apply@2 .metadata.labels.a"]);
}

#[test]
fn maps_and_sets_are_owned_by_key() {
    let story = Story::pod()
        .apply("a", json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]}}))
        .apply("b", json!({"metadata": {"labels": {"b": "2", "c": "3"}, "finalizers": ["z", "y"]}}))
        .apply("a", json!({"metadata": {"labels": {"a": "1"}}}));
    assert_eq!(
        story.plain()["metadata"],
        json!({"labels": {"a": "1", "b": "2", "c": "3"}, "finalizers": ["z", "y"]})
    );
    let story = story.apply("b", json!({"metadata": {"name": "n"}}));
    assert_eq!(story.plain()["metadata"], json!({"labels": {"a": "1"}, "name": "n"}));
    assert_eq!(story.owners(), ["a Apply@3 .metadata.labels.a"]);
}

#[test]
fn fields_of_other_owners_are_kept() {
    let config = || spec(json!({"containers": [{"name": "c", "image": "1"}], "nodeName": "n"}));
    let nothing = || json!({"metadata": {"name": "p"}});
    let story = Story::pod()
        .apply("a", config())
        .apply("b", spec(json!({"containers": [{"name": "c", "workingDir": "/"}], "nodeName": "n"})))
        .apply("a", nothing());
    assert_eq!(
        story.get("/spec"),
        Some(&json!({"containers": [{"name": "c", "workingDir": "/"}], "nodeName": "n"}))
    );
    // An update owns fields like an apply.
    let story = Story::pod()
        .apply("a", config())
        .update("u", |pod| pod["spec"]["hostNetwork"] = true.into())
        .apply("a", nothing());
    assert_eq!(story.get("/spec"), Some(&json!({"hostNetwork": true})));
    // An element is removed with all its fields when its owner no longer applies it.
    let story = Story::pod()
        .apply("a", config())
        .update("u", |pod| pod["spec"]["containers"][0]["workingDir"] = "/".into())
        .apply("a", spec(json!({"nodeName": "n"})));
    assert_eq!(story.get("/spec"), Some(&json!({"nodeName": "n"})));
    assert_eq!(story.owners(), ["a Apply@3 .spec.nodeName"]);
}

#[test]
fn unowned_fields_are_kept() {
    // A default set the port, so it has no owner.
    let mut story = Story::pod()
        .apply("a", spec(json!({"containers": [{"name": "c", "image": "1", "workingDir": "/"}]})));
    story.object.as_mut().unwrap()["spec"]["containers"][0]["command"] = json!(["default"]);
    let story = story.apply("a", spec(json!({"containers": [{"name": "c", "image": "1"}]})));
    assert_eq!(
        story.get("/spec/containers"),
        Some(&json!([{"name": "c", "image": "1", "command": ["default"]}]))
    );
}

#[test]
fn changing_a_field_of_another_owner_is_a_conflict() {
    let mut story = Story::deployment()
        .apply(
            "a",
            spec(
                json!({"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": "1"}]}}}),
            ),
        )
        .update("hpa", |object| object["spec"]["replicas"] = 5.into());
    let config = |replicas: i64, image: &str| {
        spec(
            json!({"replicas": replicas, "template": {"spec": {"containers": [{"name": "web", "image": image}]}}}),
        )
    };
    assert_eq!(
        story.refused("a", config(1, "1")),
        "Apply failed with 1 conflict: conflict with \"hpa\" using apps/v1: .spec.replicas"
    );
    assert_eq!(
        story.refused("b", config(1, "2")),
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.template.spec.containers[name=\"web\"].image\n\
         conflicts with \"hpa\" using apps/v1:\n- .spec.replicas"
    );
    let before = story.object.clone();
    // Equal values are shared.
    let mut story = story.apply("b", config(5, "1"));
    assert_eq!(
        story.object.as_ref().map(|_| story.plain()),
        before.map(|mut object| {
            super::super::managed::ManagedFields::take(object.as_object_mut().unwrap());
            object
        })
    );
    assert!(story.refused("a", config(5, "2")).contains("conflict with \"b\": .spec.template"));
    // Force takes over from both.
    let story = story.force("a", config(1, "2"));
    assert_eq!(
        story.owners(),
        [
            "b Apply@5 .spec.template.spec.containers[name=\"web\"] .spec.template.spec.containers[name=\"web\"].name",
            "a Apply@7 .spec.replicas .spec.template.spec.containers[name=\"web\"] \
             .spec.template.spec.containers[name=\"web\"].image .spec.template.spec.containers[name=\"web\"].name",
        ]
    );
}

#[test]
fn atomic_fields_have_one_owner() {
    let mut story = Story::deployment().apply("a", spec(json!({"selector": {"matchLabels": {"a": "1"}}})));
    let other = || spec(json!({"selector": {"matchLabels": {"b": "2"}}}));
    assert!(story.refused("b", other()).ends_with("conflict with \"a\": .spec.selector"));
    let story = story.force("b", other());
    assert_eq!(story.get("/spec/selector"), Some(&json!({"matchLabels": {"b": "2"}})));
    assert_eq!(story.owners(), ["b Apply@3 .spec.selector"]);
    let mut story =
        Story::pod().apply("a", spec(json!({"tolerations": [{"key": "x"}], "nodeSelector": {"x": "1"}})));
    assert!(
        story
            .refused("b", spec(json!({"tolerations": [], "nodeSelector": {}})))
            .contains("- .spec.nodeSelector\n- .spec.tolerations")
    );
}

#[test]
fn lists_have_the_applied_order() {
    let items = |names: &str| names.chars().map(|name| json!({"name": name.to_string()})).collect::<Value>();
    for (live, applied, merged) in [
        ("", "ab", "ab"),
        ("ab", "ab", "ab"),
        ("ab", "ba", "ba"),
        ("abc", "ca", "bca"),
        ("abc", "d", "abcd"),
        ("abc", "dc", "abdc"),
        ("abc", "ad", "abcd"),
        ("abcd", "dxb", "acdxb"),
        ("axb", "ba", "xba"),
    ] {
        let story = Story::pod()
            .create("u", json!({"spec": {"containers": items(live)}}))
            .apply("a", spec(json!({"containers": items(applied)})));
        assert_eq!(story.get("/spec/containers"), Some(&items(merged)), "{applied} over {live}");
    }
}

#[test]
fn duplicates_in_a_live_list_are_replaced() {
    let ports = |names: &[&str]| {
        let ports: Value = names.iter().map(|name| json!({"containerPort": 1, "name": name})).collect();
        spec(json!({"containers": [{"name": "c", "ports": ports}]}))
    };
    let story = Story::pod().create("u", ports(&["x", "y"])).force("a", ports(&["z"]));
    assert_eq!(story.get("/spec/containers/0/ports"), Some(&json!([{"containerPort": 1, "name": "z"}])));
    let story =
        Story::pod().create("u", ports(&["x", "y"])).apply("a", spec(json!({"containers": [{"name": "c"}]})));
    assert_eq!(story.get("/spec"), ports(&["x", "y"]).get("spec"));
}

#[test]
fn default_value_is_part_of_a_list_key() {
    let port = |protocol: Value, name: &str| {
        let mut port = json!({"port": 53, "name": name});
        if !protocol.is_null() {
            port["protocol"] = protocol;
        }
        spec(json!({"ports": [port]}))
    };
    let story = Story::new(sample::service(), "v1")
        .apply("a", port(Value::Null, "tcp"))
        .apply("b", port(json!("UDP"), "udp"))
        .apply("c", port(json!("TCP"), "tcp"));
    assert_eq!(
        story.get("/spec/ports"),
        Some(
            &json!([{"port": 53, "name": "tcp", "protocol": "TCP"}, {"port": 53, "name": "udp", "protocol": "UDP"}])
        )
    );
}

#[test]
fn without_a_shape_lists_are_atomic() {
    let mut story = Story::new(Shape::UNKNOWN, "x/v1")
        .apply("a", spec(json!({"list": [{"name": "x"}], "map": {"a": {"b": 1}}})));
    assert!(story.refused("b", spec(json!({"list": [{"name": "y"}]}))).ends_with(": .spec.list"));
    let story = story.apply("b", spec(json!({"map": {"a": {"c": 1}}}))).apply("a", spec(json!({"map": {}})));
    assert_eq!(story.get("/spec"), Some(&json!({"map": {"a": {"c": 1}}})));
}

#[test]
fn each_subresource_has_its_own_managed_fields_entry() {
    let config = || json!({"metadata": {"labels": {"a": "1"}}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
    let story = Story::pod().apply("a", config()).at(Part::Status).apply("a", config());
    assert_eq!(story.get("/status/phase"), Some(&json!("Running")));
    assert_eq!(
        story.owners(),
        ["a Apply@1 .metadata.labels.a .spec.nodeName", "a/status Apply@2 .status.phase"]
    );
    let mut story = story.at(Part::Main).apply("a", json!({"metadata": {"name": "p"}})).at(Part::Status);
    assert_eq!(story.get("/status/phase"), Some(&json!("Running")));
    assert!(
        story
            .refused("b", json!({"status": {"phase": "Failed"}}))
            .contains("\"a\" with subresource \"status\": .status.phase")
    );
    let story =
        Story::pod().at(Part::Whole).apply("a", config()).at(Part::Other("resize")).apply("b", config());
    assert_eq!(story.owners().len(), 2);
    assert!(
        story.owners()[1].starts_with("b/resize Apply@2 .metadata.labels.a .spec.nodeName .status.phase")
    );
}

#[test]
fn invalid_applies_are_rejected() {
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"d": deep});
    }
    for (applied, what) in [
        (
            json!({"apiVersion": "v2"}),
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (json!({"metadata": {"managedFields": []}}), "metadata.managedFields must be nil"),
        (
            spec(json!({"containers": [{"image": "x"}]})),
            "failed to create typed patch object: .spec.containers: element 0: associative list with keys has an element that omits key field \"name\" (and doesn't have default value)",
        ),
        (
            spec(json!({"containers": [{"name": "x"}, {"name": "x"}]})),
            "failed to create typed patch object: .spec.containers: duplicate entries for key [name=\"x\"]",
        ),
        (
            spec(json!({"containers": ["x"]})),
            "failed to create typed patch object: .spec.containers: element 0: associative list with keys may not have non-map",
        ),
        (
            spec(json!({"containers": {}})),
            "failed to create typed patch object: .spec.containers: expected list",
        ),
        (spec(json!([])), "failed to create typed patch object: .spec: expected map"),
        (
            json!({"metadata": {"finalizers": [null]}}),
            "failed to create typed patch object: .metadata.finalizers: element 0: a set has",
        ),
        (json!({"spec": {"d": deep}}), "the object nests deeper"),
    ] {
        let refusal = Story::pod().refused("a", applied);
        assert!(refusal.starts_with(what), "{refusal}");
    }
    let writer = Story::pod().writer("a");
    assert!(matches!(applied_to(None, &json!([]), false, &writer), Err(ApplyError::Malformed(_))));
    let broken = json!({"apiVersion": "v1", "metadata": {"managedFields": [{"manager": "x"}]}});
    let refusal =
        applied_to(Some(&broken), &json!({"apiVersion": "v1"}), true, &writer).unwrap_err().to_string();
    assert_eq!(
        refusal,
        "failed to decode managed fields: metadata.managedFields[0]: operation must be `Apply` or `Update`"
    );
}

#[test]
fn an_applier_has_one_entry_for_all_versions() {
    let mut story = Story::deployment().apply("a", spec(json!({"replicas": 1, "paused": true})));
    story.api_version = "apps/v2";
    let story = story.apply("a", json!({"apiVersion": "apps/v2", "spec": {"replicas": 1}}));
    assert_eq!(story.get("/spec"), Some(&json!({"replicas": 1})));
    assert_eq!(story.get("/metadata/managedFields/0/apiVersion"), Some(&json!("apps/v2")));
    assert_eq!(story.owners(), ["a Apply@2 .spec.replicas"]);
}

#[test]
fn owner_of_a_part_owns_all_of_a_field_that_became_atomic() {
    let mut story = Story::pod().apply("a", spec(json!({"nodeSelector": {"x": "1"}})));
    story.object.as_mut().unwrap()["metadata"]["managedFields"][0]["fieldsV1"] =
        json!({"f:spec": {"f:nodeSelector": {".": {}, "f:x": {}}}});
    assert!(story.refused("b", spec(json!({"nodeSelector": {"y": "1"}}))).ends_with(": .spec.nodeSelector"));
    let story = story.apply("a", spec(json!({})));
    assert_eq!(story.get("/spec/nodeSelector"), None);
}

#[test]
fn object_keeps_its_name_without_its_last_label() {
    let labelled = json!({"kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}}});
    let bare = json!({"kind": "Deployment", "metadata": {"name": "web"}});
    let object = Story::deployment().apply("a", labelled).apply("a", bare).plain();
    assert_eq!(object["metadata"], json!({"name": "web"}));
}
