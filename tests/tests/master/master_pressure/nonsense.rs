//! Invalid requests over both protocols: the response is a Status with an explanation, never a 5xx error.

use serde_json::{Value, json};
use tests::{Master, tls_config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::master_pressure::bed::{MAPS, connection, map, url};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Method, path, media type and body; expected status code, reason, and words of the message.
type Case = (&'static str, String, &'static str, Vec<u8>, u16, &'static str, &'static str);

fn cases() -> Vec<Case> {
    let post = |media_type, body: &str, code, reason, words| {
        ("POST", MAPS.to_owned(), media_type, body.as_bytes().to_vec(), code, reason, words)
    };
    let patch = |media_type, body: &str, code, reason, words| {
        ("PATCH", format!("{MAPS}/there"), media_type, body.as_bytes().to_vec(), code, reason, words)
    };
    let to = |method, path: &str, body: &str, code, reason, words| {
        (method, path.to_owned(), JSON, body.as_bytes().to_vec(), code, reason, words)
    };
    let bomb: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{p}, *a{p}]\n", p = n - 1)).collect();
    let deep = |open: &str, times| open.repeat(times);
    let binary =
        |body: &[u8], words| ("POST", MAPS.to_owned(), PROTOBUF, body.to_vec(), 400, "BadRequest", words);
    let bad = "BadRequest";
    vec![
        post(JSON, "", 400, bad, "cannot be read"),
        post(JSON, "{\"metadata\": {\"name\": \"x\"", 400, bad, "cannot be read"),
        post(JSON, "[]", 400, bad, "not an object"),
        post(
            JSON,
            &format!("{{\"x\": \"{}\"}}", "x".repeat(3 << 20)),
            413,
            "RequestEntityTooLarge",
            "limit is 3145728",
        ),
        post(YAML, &format!("x: {}", "x".repeat(3 << 20)), 413, "RequestEntityTooLarge", "limit is"),
        post(JSON, &deep("[", 1_000_000), 400, bad, "cannot be read"),
        post(JSON, &format!("{{\"data\": {}", deep("{\"a\":", 500_000)), 400, bad, "cannot be read"),
        post(YAML, &deep("[", 1_000_000), 400, bad, "cannot be read"),
        post(YAML, &deep("- ", 500_000), 400, bad, "cannot be read"),
        post(YAML, &format!("a0: &a0 [x]\n{bomb}"), 400, bad, "cannot be read"),
        post(JSON, "{\"metadata\": {\"name\": \"\\ud800\"}}", 400, bad, "cannot be read"),
        (
            "POST",
            MAPS.to_owned(),
            JSON,
            b"{\"metadata\": {\"name\": \"\xff\"}}".to_vec(),
            400,
            bad,
            "cannot be read",
        ),
        post("text/plain", "hello", 415, "UnsupportedMediaType", "accepted media types"),
        post("application/cbor", "x", 415, "UnsupportedMediaType", "accepted media types"),
        post("nonsense", "x", 415, "UnsupportedMediaType", "accepted media types"),
        post(MERGE, "{}", 415, "UnsupportedMediaType", "accepted media types"),
        binary(b"", "cannot be read"),
        binary(b"k8s", "cannot be read"),
        binary(b"k8s\0", ""),
        binary(b"k8s\0\x0a\xff\xff\xff\xff\x0f", "cannot be read"),
        binary(b"k8s\0\x12\x02\x0a\x7f", ""),
        post(JSON, "{\"kind\": \"Secret\"}", 400, bad, "does not match the expected"),
        post(JSON, "{\"apiVersion\": \"v2\"}", 400, bad, "does not match the expected"),
        post(JSON, "{\"metadata\": {}}", 422, "Invalid", "name"),
        post(JSON, "{\"metadata\": {\"name\": 1}}", 400, bad, "metadata.name"),
        post(JSON, "{\"metadata\": {\"name\": \"x\", \"namespace\": \"other\"}}", 400, bad, "namespace"),
        to(
            "POST",
            &format!("{MAPS}?fieldValidation=Strict"),
            "{\"metadata\": {\"name\": \"x\"}, \"dat\": 1}",
            400,
            bad,
            "unknown field \"dat\"",
        ),
        to(
            "POST",
            &format!("{MAPS}?fieldValidation=Strict"),
            "{\"metadata\": {\"name\": \"x\", \"name\": \"y\"}}",
            400,
            bad,
            "duplicate field",
        ),
        to("POST", &format!("{MAPS}?dryRun=Some"), "{}", 422, "Invalid", "dryRun"),
        to(
            "PUT",
            &format!("{MAPS}/there"),
            "{\"metadata\": {\"name\": \"there\", \"resourceVersion\": \"1\"}}",
            409,
            "Conflict",
            "modified",
        ),
        to("PUT", &format!("{MAPS}/there"), "{\"metadata\": {\"name\": \"other\"}}", 400, bad, "name"),
        to(
            "PUT",
            &format!("{MAPS}/there"),
            "{\"metadata\": {\"name\": \"there\", \"resourceVersion\": \"x\"}}",
            409,
            "Conflict",
            "modified",
        ),
        to(
            "PUT",
            &format!("{MAPS}/none"),
            "{\"metadata\": {\"name\": \"none\"}}",
            404,
            "NotFound",
            "not found",
        ),
        patch(JSON, "{}", 415, "UnsupportedMediaType", "accepted media types"),
        patch(MERGE, "[", 400, bad, "cannot be read"),
        patch(MERGE, "{\"metadata\": {\"resourceVersion\": \"1\"}}", 409, "Conflict", "modified"),
        patch(JSON_PATCH, "{}", 400, bad, ""),
        patch(JSON_PATCH, "[{\"op\": \"remove\", \"path\": \"/data/none\"}]", 422, "Invalid", ""),
        patch(JSON_PATCH, "[{\"op\": \"frob\", \"path\": \"/data\"}]", 400, bad, ""),
        patch("application/apply-patch+yaml", "{}", 422, "Invalid", "fieldManager"),
        to(
            "DELETE",
            &format!("{MAPS}/there"),
            "{\"preconditions\": {\"uid\": \"other\"}}",
            409,
            "Conflict",
            "UID",
        ),
        to("DELETE", &format!("{MAPS}/there"), "[", 400, bad, "cannot be read"),
        to("GET", &format!("{MAPS}?limit=x"), "", 400, bad, "limit"),
        to("GET", &format!("{MAPS}?continue=%2F%2F"), "", 400, bad, "continue"),
        to("GET", &format!("{MAPS}?labelSelector=%3D%3D"), "", 400, bad, "label"),
        to("GET", &format!("{MAPS}?fieldSelector=spec.x%3D1"), "", 400, bad, "field"),
        to("GET", &format!("{MAPS}?resourceVersion=x"), "", 400, bad, "resourceVersion"),
        to(
            "GET",
            &format!("{MAPS}?resourceVersion=999999999"),
            "",
            504,
            "Timeout",
            "Too large resource version",
        ),
        to(
            "GET",
            &format!("{MAPS}?watch=true&resourceVersionMatch=Exact&resourceVersion=1"),
            "",
            422,
            "Invalid",
            "",
        ),
        to("GET", &format!("{MAPS}?timeout=soon"), "", 400, bad, "timeout"),
        to("GET", "/api/v1/namespaces/%ff/configmaps", "", 400, bad, "%"),
        to("GET", "/api/v1/nothing", "", 404, "NotFound", ""),
        to("GET", "/apis/apps/v9/deployments", "", 404, "NotFound", ""),
        to("GET", "/..%2f..%2fetc/passwd", "", 404, "NotFound", ""),
        to("POST", "/version", "{}", 405, "MethodNotAllowed", ""),
        to("PATCH", "/api/v1/nodes", "{}", 405, "MethodNotAllowed", ""),
        to("FROB", MAPS, "{}", 405, "MethodNotAllowed", ""),
    ]
}

/// A client of the administrator with a single protocol.
fn client(master: &Master, is_http2: bool) -> reqwest::Client {
    let admin = master.admin().unwrap();
    let own = (admin.credentials.certificates.as_str(), admin.credentials.key.as_str());
    let config = tls_config(&admin.authority, Some(own)).unwrap();
    let builder = reqwest::Client::builder().tls_backend_preconfigured(config);
    let builder = if is_http2 { builder.http2_prior_knowledge() } else { builder.http1_only() };
    builder.build().unwrap()
}

#[tokio::test]
async fn malformed_requests_get_an_error_with_the_cause() {
    let master = Master::running().await;
    let there = master.client().post(url(&master, MAPS)).json(&map("there")).send().await.unwrap();
    assert_eq!(there.status(), 201);
    let mut wrong = Vec::new();
    for is_http2 in [false, true] {
        let client = client(&master, is_http2);
        for (method, path, media_type, body, code, reason, words) in cases() {
            let what = format!(
                "{method} {path} {media_type} {}",
                String::from_utf8_lossy(&body[..body.len().min(80)])
            );
            let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
            let request = client.request(method, url(&master, &path)).header("content-type", media_type);
            let answer = request.body(body).send().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            let given = answer.status().as_u16();
            let status_object: Value =
                answer.json().await.unwrap_or_else(|error| panic!("{what}: {given} {error:?}"));
            let is_right = (given, &status_object["code"], &status_object["kind"], &status_object["reason"])
                == (code, &json!(code), &"Status".into(), &reason.into());
            if !is_right || !status_object["message"].as_str().unwrap_or_default().contains(words) {
                wrong.push(format!("{what}: {given} {status_object}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let left = master.client().get(url(&master, &format!("{MAPS}/there"))).send().await.unwrap();
    assert_eq!(left.status(), 200, "nothing of it was done");
    assert!(!master.log().contains("panicked"), "{}", master.log());
}

#[tokio::test]
async fn server_closes_invalid_connections_and_rejects_long_requests() {
    let master = Master::running().await;
    let long = "x".repeat(2 << 20);
    let many: String = (0..5000).map(|n| format!("X-{n}: y\r\n")).collect();
    for (sent, answered) in [
        ("nonsense\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        (format!("GET /{long} HTTP/1.1\r\nHost: m\r\n\r\n"), "HTTP/1.1 4"),
        (format!("GET / HTTP/1.1\r\nHost: m\r\nX: {long}\r\n\r\n"), "HTTP/1.1 431"),
        (format!("GET / HTTP/1.1\r\nHost: m\r\n{many}\r\n"), "HTTP/1.1 431"),
        (
            format!("POST {MAPS} HTTP/1.1\r\nHost: m\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{{}}"),
            "HTTP/1.1 400",
        ),
        (
            format!("POST {MAPS} HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
            "HTTP/1.1 400",
        ),
    ] {
        let mut stream = connection(&master).await;
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(sent.as_bytes()).await;
        let mut answer = [0; 16];
        let read =
            tokio::time::timeout(tests::DEADLINE, stream.read(&mut answer)).await.unwrap().unwrap_or(0);
        let (answer, sent) = (String::from_utf8_lossy(&answer[..read]), &sent[..sent.len().min(60)]);
        assert!(read == 0 || answer.starts_with(answered), "{sent:?}: {answer}");
    }
    assert_eq!(master.get_as_admin("/readyz").await.0, 200);
}
