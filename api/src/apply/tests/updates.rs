//! Tests of field tracking for create, update and patch.

use serde_json::{Value, json};

use super::{Part, Story, spec};
use crate::apply::manager_of;

#[test]
fn the_creator_owns_all_fields() {
    let story = Story::pod().create(
        "u",
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "uid": "1", "labels": {"a": "1"}},
            "spec": {"containers": [{"name": "c", "image": "1"}], "nodeSelector": {"x": "1"}},
            "status": {"phase": "Pending"},
        }),
    );
    assert_eq!(
        story.get("/metadata/managedFields"),
        Some(&json!([{
            "manager": "u", "operation": "Update", "apiVersion": "v1", "time": "1970-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}},
                    "f:nodeSelector": {},
                },
            },
        }]))
    );
}

#[test]
fn updated_field_gets_a_new_owner() {
    let story = Story::deployment()
        .create("creator", json!({"spec": {"replicas": 1, "paused": true}}))
        .update("scaler", |object| object["spec"]["replicas"] = 2.into());
    assert_eq!(story.owners(), ["creator Update@1 .spec.paused", "scaler Update@2 .spec.replicas"]);
    // Without a change, no timestamp changes.
    let story = story.update("other", |_| {}).update("scaler", |_| {});
    assert_eq!(story.owners(), ["creator Update@1 .spec.paused", "scaler Update@2 .spec.replicas"]);
    // Earlier and later changes of one manager are one entry.
    let story = story.update("creator", |object| object["metadata"]["labels"] = json!({"a": "1"}));
    assert_eq!(
        story.owners(),
        [
            "scaler Update@2 .spec.replicas",
            "creator Update@5 .metadata.labels .metadata.labels.a .spec.paused"
        ]
        .map(|owner| owner.replace(" .metadata.labels .metadata", " .metadata"))
    );
    // Removed fields lose their owner, and the remover owns nothing.
    let story = story.update("remover", |object| {
        object["spec"].as_object_mut().unwrap().remove("replicas");
    });
    assert_eq!(story.owners(), ["creator Update@5 .metadata.labels.a .spec.paused"]);
}

#[test]
fn update_takes_ownership_from_appliers() {
    let story = Story::pod()
        .apply("a", spec(json!({"containers": [{"name": "c", "image": "1"}], "nodeSelector": {"x": "1"}})))
        .update("u", |pod| {
            pod["spec"]["containers"][0]["image"] = "2".into();
            pod["spec"]["nodeSelector"]["y"] = "1".into();
        });
    let c = ".spec.containers[name=\"c\"]";
    assert_eq!(
        story.owners(),
        [format!("a Apply@1 {c} {c}.name"), format!("u Update@2 {c}.image .spec.nodeSelector")]
    );
    let story = story.update("u", |pod| pod["spec"]["containers"] = json!([]));
    assert_eq!(story.owners(), ["u Update@2 .spec.nodeSelector"]);
}

#[test]
fn changed_types_change_owners() {
    for (before, after, owners) in [
        (json!({"x": {"a": 1}}), json!({"x": 1}), vec!["u Update@2 .spec.x"]),
        (json!({"x": 1}), json!({"x": {"a": 1}}), vec!["u Update@2 .spec.x .spec.x.a"]),
        (json!({"x": {}}), json!({"x": null}), vec!["u Update@2 .spec.x"]),
        (json!({"x": 1}), json!({"x": 1.0}), vec!["c Update@1 .spec.x"]),
        (json!({"x": 1}), json!({"x": "1"}), vec!["u Update@2 .spec.x"]),
        (json!({"x": [1]}), json!({"x": [1, 2]}), vec!["u Update@2 .spec.x"]),
        (json!({"securityContext": {}}), json!({}), vec![]),
    ] {
        let story = Story::pod().create("c", spec(before)).update("u", |pod| *pod = spec(after.clone()));
        assert_eq!(story.owners(), owners, "{after}");
    }
}

#[test]
fn duplicates_in_a_list_have_one_owner() {
    let twins = |names: &[&str]| {
        let ports: Value = names.iter().map(|name| json!({"containerPort": 1, "name": name})).collect();
        spec(json!({"containers": [{"name": "c", "ports": ports}]}))
    };
    let port = ".spec.containers[name=\"c\"].ports[containerPort=1,protocol=\"TCP\"]";
    let story = |then: &[&str]| {
        let story = Story::pod().create("c", twins(&["a", "b"])).update("u", |pod| {
            pod["spec"] = twins(then)["spec"].clone();
        });
        story.owners().into_iter().find(|owner| owner.contains(port)).unwrap_or_default()
    };
    assert!(story(&["a", "b"]).starts_with("c Update@1"));
    assert!(story(&["b", "a"]).starts_with("u Update@2"));
    assert_eq!(story(&["a"]), format!("u Update@2 {port} {port}.containerPort {port}.name"));
    assert_eq!(story(&[]), "");
}

#[test]
fn status_has_its_own_managed_fields_entry() {
    let story = Story::pod()
        .create("c", spec(json!({"nodeName": "n"})))
        .at(Part::Status)
        .update("kubelet", |pod| pod["status"] = json!({"phase": "Running"}));
    assert_eq!(story.owners(), ["c Update@1 .spec.nodeName", "kubelet/status Update@2 .status.phase"]);
    // Fields that the endpoint ignores have no owner.
    let story = Story::pod().create("c", json!({"status": {"phase": "Running"}}));
    assert_eq!(story.owners(), Vec::<String>::new());
    let story = Story::pod().at(Part::Whole).create("c", json!({"status": {"phase": "Running"}}));
    assert_eq!(story.owners(), ["c Update@1 .status.phase"]);
}

#[test]
fn clients_may_send_managed_fields() {
    let created = || Story::pod().create("c", spec(json!({"nodeName": "n"})));
    let hand_in = |managed: Value| created().update("u", |pod| pod["metadata"]["managedFields"] = managed);
    let entry = || json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "1970-01-01T00:00:09Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:nodeName": {}}}});
    for (managed, owners) in [
        (json!([]), vec![]),
        (json!([{}]), vec![]),
        (json!([entry()]), vec!["m Apply@9 .spec.nodeName"]),
        // Invalid managed fields are ignored.
        (json!(null), vec!["c Update@1 .spec.nodeName"]),
        (json!("x"), vec!["c Update@1 .spec.nodeName"]),
        (json!([{"manager": "m"}]), vec!["c Update@1 .spec.nodeName"]),
        (json!([entry(), {}]), vec!["c Update@1 .spec.nodeName"]),
    ] {
        assert_eq!(hand_in(managed.clone()).owners(), owners, "{managed}");
    }
    assert_eq!(
        created()
            .update("u", |pod| drop(pod["metadata"].as_object_mut().unwrap().remove("managedFields")))
            .owners(),
        ["c Update@1 .spec.nodeName"]
    );
    // Subresources cannot reset managed fields.
    let story = created().at(Part::Status).update("u", |pod| pod["metadata"]["managedFields"] = json!([]));
    assert_eq!(story.owners(), ["c Update@1 .spec.nodeName"]);
    // After a reset, fields are not tracked until the next apply.
    let story = hand_in(json!([])).update("u", |pod| pod["spec"]["nodeName"] = "m".into());
    assert_eq!(story.owners(), Vec::<String>::new());
    let story = story.apply("a", spec(json!({"nodeName": "m"})));
    assert_eq!(story.owners(), ["a Apply@4 .spec.nodeName", "before-first-apply Update@4 .spec.nodeName"]);
}

#[test]
fn old_update_entries_are_merged() {
    const MANAGERS: [&str; 13] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
    let mut story = Story::pod().apply("applier", spec(json!({"nodeName": "n"})));
    for (index, manager) in MANAGERS.into_iter().enumerate() {
        story = story.update(manager, |pod| pod["metadata"]["labels"][manager] = "1".into());
        assert_eq!(story.owners().len(), (index + 2).min(11));
    }
    let owners = story.owners();
    assert_eq!(owners[0], "applier Apply@1 .spec.nodeName");
    assert_eq!(
        owners[1],
        "ancient-changes Update@5 .metadata.labels.a .metadata.labels.b .metadata.labels.c .metadata.labels.d"
    );
    assert!(owners[2].starts_with("e Update@6") && owners[10].starts_with("m Update@14"));
}

#[test]
fn field_manager_defaults_to_the_user_agent() {
    for (field_manager, user_agent, manager) in [
        (Some("helm"), "kubectl/v1.36.0 (linux/amd64)", "helm"),
        (Some(""), "kubectl/v1.36.0 (linux/amd64)", "kubectl"),
        (None, "curl", "curl"),
        (None, "a\u{7}b/1", "ab"),
        (None, "", ""),
    ] {
        assert_eq!(manager_of(field_manager, user_agent), manager);
    }
    assert_eq!(manager_of(None, &"é".repeat(100)).len(), 128);
}

#[test]
fn missing_field_manager_name_becomes_unknown() {
    assert_eq!(
        Story::pod().create("", spec(json!({"nodeName": "n"}))).owners(),
        ["unknown Update@1 .spec.nodeName"]
    );
}
