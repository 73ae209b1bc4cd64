//! Tests of metadata, ConfigMaps and Secrets.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use super::messages;

fn config_map(value: serde_json::Value, expected: &[&str]) {
    let config_map: ConfigMap = serde_json::from_value(value).unwrap();
    assert_eq!(messages(&super::super::config_map(&config_map)), expected);
}

fn secret(value: serde_json::Value, expected: &[&str]) {
    let mut secret: Secret = serde_json::from_value(value).unwrap();
    crate::defaults::secret(&mut secret);
    assert_eq!(messages(&super::super::secret(&secret)), expected);
}

#[test]
fn metadata() {
    config_map(json!({"metadata": {}}), &["metadata.name: is required; give the object a name"]);
    config_map(
        json!({"metadata": {"generateName": "a-"}}),
        &[
            "metadata.generateName: an object in a manifest needs a fixed name; write `name` instead: the object is the same each time the manifest is read",
        ],
    );
    config_map(
        json!({"metadata": {"name": "My_App", "namespace": "a.b", "labels": {"a b": "x", "ok": "x y"}, "annotations": {"Ok/Key": "any thing", "a//b": ""}}}),
        &[
            "metadata.name: `My_App` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them; write `my-app`",
            "metadata.namespace: `a.b` is not a valid name: only lower case letters, digits and `-`, at most 63 of them; write `a-b`",
            "metadata.labels[a b]: the key may hold letters, digits, `-`, `_` and `.`, at most 63, optionally with a prefix such as `example.com/`; begin and end it with a letter or digit, and use no other characters",
            "metadata.labels[ok]: `x y` is not a valid label value: letters, digits, `-`, `_` and `.`, at most 63; shorten it, or put it into an annotation",
            "metadata.annotations[a//b]: the key may hold letters, digits, `-`, `_` and `.`, at most 63, optionally with a prefix such as `example.com/`; begin and end it with a letter or digit, and use no other characters",
        ],
    );
    let long = "x".repeat(300_000);
    config_map(
        json!({"metadata": {"name": "a", "annotations": {"k": long}}}),
        &[
            "metadata.annotations: annotations have 300001 bytes, but at most 262144 are allowed; put large data into a ConfigMap",
        ],
    );
}

#[test]
fn config_maps() {
    config_map(json!({"metadata": {"name": "a"}, "data": {"a.conf": "x"}, "binaryData": {"b": "AA=="}}), &[]);
    config_map(
        json!({"metadata": {"name": "a"}, "data": {"a/b": "x", "c": "x"}, "binaryData": {"c": "AA=="}}),
        &[
            "data[a/b]: the key must be a valid file name: letters, digits, `-`, `_` and `.`, at most 253, not `..` at the start; rename it",
            "data[c]: `c` is also in `binaryData`; keep one of them",
        ],
    );
    config_map(
        json!({"metadata": {"name": "a"}, "data": {"a": "x".repeat(1 << 20), "b": "x"}}),
        &["data: the values have 1048577 bytes, but at most 1048576 are allowed; split it, or use a volume"],
    );
}

#[test]
fn secrets_contain_the_keys_of_their_type() {
    let of = |kind: &str, strings: serde_json::Value| json!({"metadata": {"name": "s"}, "type": kind, "stringData": strings});
    secret(of("", json!({"a": "b"})), &[]);
    secret(of("kubernetes.io/tls", json!({"tls.crt": "", "tls.key": ""})), &[]);
    secret(of("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "{\"auths\":{}}"})), &[]);
    secret(of("example.com/own", json!({})), &[]);
    secret(
        of("kubernetes.io/tls", json!({"tls.crt": ""})),
        &["data[tls.key]: is required; add `tls.key`: the type of this Secret requires it"],
    );
    secret(
        of("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "auths"})),
        &[
            "data[.dockerconfigjson]: the value is not a JSON object; write the content of config.json as `docker login` creates it",
        ],
    );
    secret(
        of("kubernetes.io/dockercfg", json!({})),
        &["data[.dockercfg]: is required; add `.dockercfg`: the type of this Secret requires it"],
    );
    secret(
        of("kubernetes.io/basic-auth", json!({})),
        &["data[username]: is required; add `username` or `password`: the type of this Secret requires one"],
    );
    secret(
        of("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""})),
        &["data[ssh-privatekey]: is required; add `ssh-privatekey`: the type of this Secret requires it"],
    );
    secret(
        of("kubernetes.io/service-account-token", json!({})),
        &[
            "metadata.annotations[kubernetes.io/service-account.name]: is required; add the annotation with the account's name, or write `type: Opaque`",
        ],
    );
}
