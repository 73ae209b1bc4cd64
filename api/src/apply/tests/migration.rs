//! Tests of migration from untracked objects and from client-side apply.

use serde_json::{Value, json};

use super::{Story, spec};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A deployment that `kubectl apply` created and another client scaled.
fn client_side(replicas: i64) -> Story {
    let mut object = spec(json!({"replicas": 1, "paused": false}));
    object["apiVersion"] = "apps/v1".into();
    object["metadata"] = json!({"name": "web"});
    let text = object.to_string();
    object["metadata"]["annotations"] = json!({ANNOTATION: text});
    Story::deployment().create("kubectl-client-side-apply", object).update("scaler", |object| {
        object["spec"]["replicas"] = replicas.into();
    })
}

#[test]
fn untracked_fields_get_an_owner_on_first_apply() {
    let mut story = Story::pod();
    story.object = Some(
        json!({"apiVersion": "v1", "metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"nodeName": "n"}}),
    );
    assert_eq!(
        story.refused("a", spec(json!({"nodeName": "m"}))),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .spec.nodeName"
    );
    let story = story.apply("a", spec(json!({"nodeName": "n"})));
    assert_eq!(
        story.owners(),
        ["a Apply@2 .spec.nodeName", "before-first-apply Update@2 .metadata.labels.a .spec.nodeName"]
    );
}

#[test]
fn kubectl_takes_over_client_side_applied_fields() {
    let config =
        |replicas: i64| json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "paused": true}});
    // `paused` is unchanged since the client-side apply.
    let story = client_side(1).apply("kubectl", config(1));
    assert_eq!(story.get("/spec/paused"), Some(&json!(true)));
    assert_eq!(story.owners()[0], "kubectl Apply@3 .spec.paused .spec.replicas");
    // The change of replicas by another client is the only conflict.
    assert_eq!(
        client_side(5).refused("kubectl", config(1)),
        "Apply failed with 1 conflict: conflict with \"scaler\" using apps/v1: .spec.replicas"
    );
    // Other managers do not take over ownership.
    assert!(
        client_side(1)
            .refused("flux", config(1))
            .ends_with("\"kubectl-client-side-apply\" using apps/v1: .spec.paused")
    );
}

#[test]
fn the_last_applied_annotation_is_updated() {
    let applied = json!({"apiVersion": "apps/v1", "spec": {"replicas": 1}});
    let annotation = |story: &Story| {
        story.get("/metadata/annotations").and_then(|all| all[ANNOTATION].as_str()).map(str::to_owned)
    };
    let story = client_side(1).apply("kubectl", applied.clone());
    let text = annotation(&story).unwrap();
    assert!(text.ends_with('\n'));
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), applied);
    assert!(!story.apply("kubectl", applied.clone()).changed);
    // The annotation is updated only by kubectl, only if it exists, and only within the size limit.
    let before = annotation(&client_side(1));
    assert_eq!(annotation(&client_side(1).apply("flux", applied.clone())), before);
    assert_eq!(annotation(&Story::deployment().apply("kubectl", applied)), None);
    let large = json!({"apiVersion": "apps/v1", "spec": {"replicas": 1, "note": "x".repeat(300_000)}});
    assert_eq!(annotation(&client_side(1).apply("kubectl", large)), None);
}

#[test]
fn invalid_last_applied_annotation_is_ignored() {
    for text in ["", "{", "[]", "{\"apiVersion\":\"apps/v9\",\"spec\":{\"paused\":false}}"] {
        let mut story = client_side(1);
        story.object.as_mut().unwrap()["metadata"]["annotations"][ANNOTATION] = text.into();
        assert!(story.refused("kubectl", spec(json!({"paused": true}))).contains(".spec.paused"), "{text}");
    }
}
