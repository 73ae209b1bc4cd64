//! Field selectors of lists, watches and collection deletes select the same objects.

use super::*;

#[tokio::test]
async fn lists_watches_and_collection_deletes_agree_on_a_typed_field() {
    const NODES: &str = "/api/v1/nodes";
    let server = Server::of(crate::kinds::all(), |_| Vec::new()).await;
    for (name, spec) in [("on", json!({})), ("off", json!({"unschedulable": true}))] {
        let node = json!({"metadata": {"name": name}, "spec": spec});
        assert_eq!(server.json("POST", NODES, node).await.0, 201);
    }
    let schedulable = format!("{NODES}?fieldSelector=spec.unschedulable%3Dfalse");
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let (_, list) = server.get(&schedulable).await;
    assert_eq!(names(&list), ["on"]);

    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let watch =
        Request::builder().uri(format!("{schedulable}&watch=1&timeoutSeconds=1&resourceVersion={from}"));
    let watch = server.0.clone().oneshot(watch.body(Body::empty()).unwrap()).await.unwrap();
    for (name, value) in [("on", json!(true)), ("off", Value::Null)] {
        let patch = json!({"spec": {"unschedulable": value}}).to_string();
        assert_eq!(server.send_request("PATCH", &format!("{NODES}/{name}"), MERGE, patch).await.0, 200);
    }
    let events = to_bytes(watch.into_body(), usize::MAX).await.unwrap();
    let events: Vec<String> = serde_json::Deserializer::from_slice(&events)
        .into_iter::<Value>()
        .map(|event| event.unwrap())
        .map(|event| format!("{} {}", event["type"], event["object"]["metadata"]["name"]))
        .collect();
    assert_eq!(events, [r#""DELETED" "on""#, r#""ADDED" "off""#]);

    assert_eq!(server.send_request("DELETE", &schedulable, JSON, "").await.0, 200);
    assert_eq!(names(&server.get(NODES).await.1), ["on"]);
    for method in ["GET", "DELETE"] {
        let refused =
            server.send_request(method, &format!("{NODES}?fieldSelector=spec.podCIDR%3Dx"), JSON, "").await;
        assert_eq!(
            (refused.0, &refused.1["message"]),
            (400, &"field label not supported: spec.podCIDR".into())
        );
    }
}
