//! Unknown, repeated and mistyped fields.

use super::*;

#[tokio::test]
async fn duplicate_fields_are_reported_with_unknown_ones_and_the_last_value_counts() {
    let server = Server::new().await;
    let body = |name: &str| {
        format!(r#"{{"metadata": {{"name": "{name}"}}, "dat": 1, "dat": 2, "data": {{"a": "1", "a": "2"}}}}"#)
    };
    let reported = [r#"unknown field "dat""#, r#"duplicate field "data.a""#];
    let warned = reported.map(|reported| format!("299 - \"{}\"", reported.replace('"', "\\\""))).to_vec();
    for (validation, name, warnings) in [("Warn", "a", warned), ("Ignore", "b", Vec::new())] {
        let path = format!("{MAPS}?fieldValidation={validation}");
        let (code, made, received_warnings) = server.send_request("POST", &path, JSON, body(name)).await;
        assert_eq!((code, &made["data"]["a"], received_warnings), (201, &json!("2"), warnings), "{made}");
    }
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let (code, status, _) = server.send_request("POST", &strict, JSON, body("c")).await;
    let message = format!(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: {}",
        reported.join(", ")
    );
    assert_eq!((code, status["message"].as_str().unwrap()), (400, message.as_str()));
    let yaml = "metadata: {name: d}\ndata:\n  a: x\n  a: y\n";
    let (code, status, _) = server.send_request("POST", &strict, "application/yaml", yaml).await;
    let text = "line 4: key \"a\" already set in map";
    refused((code, status), 400, "BadRequest", text);
    let patch = r#"{"data": {"a": "1", "a": "3"}}"#;
    let (code, status, _) =
        server.send_request("PATCH", &format!("{MAPS}/a?fieldValidation=Strict"), MERGE, patch).await;
    refused((code, status), 400, "BadRequest", "duplicate field \"data.a\"");
}

#[tokio::test]
async fn values_of_the_wrong_type_are_rejected_before_other_checks() {
    let server = Server::new().await;
    for (path, body, text) in [
        (
            MAPS,
            json!({"metadata": {"name": "a"}, "data": {"a": 1}}),
            "data[a]: expected a string, found a number",
        ),
        (MAPS, json!({"metadata": {"name": "a"}, "data": []}), "data: expected a map"),
        (
            DEPLOYMENTS,
            json!({"metadata": {"name": "a"}, "spec": {"replicas": "x"}}),
            "spec.replicas: expected a whole number",
        ),
    ] {
        let answer = server.json("POST", path, body).await;
        assert!(answer.1["message"].as_str().unwrap().contains("cannot be handled as a "), "{answer:?}");
        refused(answer, 400, "BadRequest", text);
    }
}

#[tokio::test]
async fn unknown_fields_are_removed_with_a_warning_or_rejected() {
    let server = Server::new().await;
    let mut object = map("a");
    object["dat"] = json!({});
    let (code, made, warnings) = server.send_request("POST", MAPS, JSON, object.to_string()).await;
    assert_eq!((code, warnings), (201, vec!["299 - \"unknown field \\\"dat\\\"\"".to_owned()]));
    assert!(made.get("dat").is_none());
    let strict = format!("{MAPS}?fieldValidation=Strict");
    refused(server.json("POST", &strict, object).await, 400, "BadRequest", "unknown field \"dat\"");
}
