//! Pull secrets of all formats, and matching of credentials to images.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::*;

fn secret(kind: &str, key: &str, content: &Value) -> Secret {
    Secret {
        type_: Some(kind.to_owned()),
        data: Some([(key.to_owned(), ByteString(content.to_string().into_bytes()))].into()),
        ..Secret::default()
    }
}

/// Users that may pull an image if each of these servers has one.
fn users(servers: &[&str], image: &str) -> Vec<String> {
    let auths: serde_json::Map<String, Value> = servers
        .iter()
        .map(|server| ((*server).to_owned(), json!({ "username": format!("of {server}"), "password": "p" })))
        .collect();
    let secret = secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!({ "auths": auths }));
    let (keyring, problems) = Keyring::of_secrets([&secret]);
    assert_eq!(problems, []);
    keyring.find(&ImageName::parse(image).unwrap()).into_iter().map(|found| found.username).collect()
}

#[test]
fn credentials_match_registry_and_path() {
    for (server, image, fits) in [
        ("quay.io", "quay.io/a/b:1", true),
        ("https://quay.io", "quay.io/a/b", true),
        ("https://quay.io/v2/", "quay.io/a/b", true),
        ("quay.io", "quay.io:443/a", false),
        ("localhost:5000", "localhost:5000/a", true),
        ("localhost:5000", "localhost:5001/a", false),
        ("quay.io/a", "quay.io/a/b", true),
        ("quay.io/a", "quay.io/ab", false),
        ("quay.io/a/b", "quay.io/a", false),
        ("*.quay.io", "eu.quay.io/a", true),
        ("*.quay.io", "quay.io/a", false),
        ("*.quay.io", "a.eu.quay.io/a", false),
        ("*.*.quay.io", "a.eu.quay.io/a", true),
        ("reg*.quay.io", "registry.quay.io/a", true),
        ("https://index.docker.io/v1/", "busybox", true),
        ("docker.io", "someone/app", true),
        ("index.docker.io", "quay.io/a", false),
        ("docker.io/someone", "someone/app", true),
    ] {
        assert_eq!(users(&[server], image).len() == 1, fits, "{server} for {image}");
    }
}

#[test]
fn most_specific_credential_is_tried_first() {
    let found = users(&["quay.io", "*.io", "quay.io/a", "quay.io/a/b"], "quay.io/a/b/c");
    assert_eq!(found, ["of quay.io/a/b", "of quay.io/a", "of quay.io", "of *.io"]);
}

#[test]
fn keyring_reads_both_secret_types_and_both_credential_forms() {
    let auth = STANDARD.encode("alice:open:sesame");
    let old = secret("kubernetes.io/dockercfg", ".dockercfg", &json!({ "quay.io": { "auth": auth } }));
    let new = json!({ "auths": { "quay.io": { "username": "bob", "password": "p" }, "empty.io": {} } });
    let new = secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &new);
    let (keyring, problems) = Keyring::of_secrets([&old, &new]);
    assert_eq!(problems, []);
    let found = keyring.find(&ImageName::parse("quay.io/x").unwrap());
    assert_eq!((found[0].username.as_str(), found[0].password.as_str()), ("alice", "open:sesame"));
    assert_eq!(found[1].username, "bob");
    assert!(keyring.find(&ImageName::parse("empty.io/x").unwrap()).is_empty());
}

#[test]
fn an_invalid_pull_secret_is_reported_and_the_others_are_used() {
    let broken = json!({ "auths": { "a.io": { "auth": "!" }, "b.io": { "username": "u" } } });
    let (keyring, problems) = Keyring::of_secrets([
        &secret("Opaque", "x", &json!({})),
        &secret("kubernetes.io/dockercfg", "x", &json!({})),
        &secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &broken),
    ]);
    let problems: Vec<String> = problems.into_iter().map(|problem| problem.problem).collect();
    assert!(problems[0].contains("its type is \"Opaque\""), "{problems:?}");
    assert_eq!(
        problems[1..],
        ["it has no key .dockercfg", "\"auth\" of a.io is not the base64 of USER:PASSWORD"]
    );
    assert_eq!(keyring.find(&ImageName::parse("b.io/x").unwrap()).len(), 1);
}
