//! Managed fields as clients see and write them, although they are stored separately.

use super::*;

const JSON_PATCH: &str = "application/json-patch+json";

/// Managers of a ConfigMap.
fn managers(map: &Value) -> Vec<&str> {
    let entries = map["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries.iter().map(|entry| entry["manager"].as_str().unwrap()).collect()
}

/// A ConfigMap with two managers.
async fn shared() -> Server {
    let server = Server::new().await;
    let made = json!({"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}});
    assert_eq!(server.json("POST", &format!("{MAPS}?fieldManager=one"), made).await.0, 201);
    let path = format!("{MAPS}/a?fieldManager=two");
    let (code, changed, _) = server.send_request("PATCH", &path, MERGE, r#"{"data":{"y":"2"}}"#).await;
    assert_eq!((code, managers(&changed)), (200, vec!["one", "two"]), "{changed}");
    server
}

#[tokio::test]
async fn patches_can_read_and_change_managed_fields() {
    let path = format!("{MAPS}/a?fieldManager=three");
    for (media_type, patch, expected) in [
        (
            JSON_PATCH,
            r#"[{"op":"test","path":"/metadata/managedFields/0/manager","value":"one"},{"op":"remove","path":"/metadata/managedFields/0"}]"#,
            vec!["two"],
        ),
        (JSON_PATCH, r#"[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]"#, vec![]),
        (
            JSON_PATCH,
            r#"[{"op":"copy","from":"/metadata/managedFields/0/manager","path":"/data/x"}]"#,
            vec!["two", "three"],
        ),
        (MERGE, r#"{"metadata":{"managedFields":[{}]}}"#, vec![]),
        (MERGE, r#"{"metadata":{"managedFields":null}}"#, vec!["one", "two"]),
        (MERGE, r#"{"metadata":{"labels":{"a":"b"}}}"#, vec!["one", "two", "three"]),
    ] {
        let server = shared().await;
        let (code, patched, _) = server.send_request("PATCH", &path, media_type, patch).await;
        let (_, read) = server.get(&format!("{MAPS}/a")).await;
        for map in [&patched, &read] {
            let mut found = managers(map);
            found.sort_unstable();
            let mut expected = expected.clone();
            expected.sort_unstable();
            assert_eq!((code, found), (200, expected), "{patch}: {map}");
        }
    }
}

#[tokio::test]
async fn apply_creates_an_object_that_has_a_resource_version() {
    let server = Server::new().await;
    let backup = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"123"}}"#;
    let path = format!("{MAPS}/a?fieldManager=me");
    let (code, made, _) = server.send_request("PATCH", &path, APPLY, backup).await;
    assert_eq!(code, 201, "{made}");
    assert_ne!(made["metadata"]["resourceVersion"], "123");
    let (code, ..) = server.send_request("PATCH", &path, APPLY, backup).await;
    assert_eq!(code, 409, "the version of an existing object is compared");
}

#[tokio::test]
async fn dry_run_response_contains_managed_fields() {
    let server = shared().await;
    let path = format!("{MAPS}/a?fieldManager=three&dryRun=All");
    let (code, tried, _) = server.send_request("PATCH", &path, MERGE, r#"{"data":{"z":"1"}}"#).await;
    assert_eq!((code, managers(&tried).len()), (200, 3), "{tried}");
    let (_, read) = server.get(&format!("{MAPS}/a")).await;
    assert_eq!(managers(&read).len(), 2, "{read}");
    let new = json!({"metadata": {"name": "b"}, "data": {"x": "1"}});
    let (code, tried) = server.json("POST", &format!("{MAPS}?fieldManager=one&dryRun=All"), new).await;
    assert_eq!((code, managers(&tried)), (201, vec!["one"]), "{tried}");
}

#[tokio::test]
async fn unchanged_write_keeps_the_resource_version() {
    let server = shared().await;
    let (_, before) = server.get(&format!("{MAPS}/a")).await;
    for record in [before["metadata"]["managedFields"].clone(), Value::Null] {
        let mut sent = before.clone();
        sent["metadata"]["managedFields"] = record;
        let (code, after) = server.json("PUT", &format!("{MAPS}/a?fieldManager=other"), sent).await;
        assert_eq!((code, &after), (200, &before));
    }
}
