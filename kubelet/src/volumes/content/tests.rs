//! Files of volumes, one case per line.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use api::references::{References, TokenKey};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, Volume};
use serde_json::{Value, json};

use super::Files;
use crate::observed::PodUid;
use crate::spec::Facts;
use crate::volumes::VolumeInput;
use crate::volumes::types::{self, Setup};

fn fill(volume: Value) -> Result<Files, String> {
    let mut references = References::default();
    let key = |name: &str| ("n".to_owned(), name.to_owned());
    for (name, map) in [
        ("m", json!({"data": {"a": "1", "b": "2"}, "binaryData": {"bin": "/w=="}})),
        ("other", json!({"data": {"a": "other"}})),
        ("empty", json!({})),
        ("large", json!({"data": {"x": "y".repeat(1 << 20)}})),
    ] {
        references.config_maps.insert(key(name), Arc::new(serde_json::from_value(map).unwrap()));
    }
    let secret = json!({"data": {"key": "c2VjcmV0"}});
    references.secrets.insert(key("s"), Arc::new(serde_json::from_value(secret).unwrap()));
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "labels": {"l": "v"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let (uid, facts) = (PodUid::new("u"), Facts::default());
    let wanted = VolumeInput { uid: &uid, pod: &pod, references: &references, facts: &facts };
    let mut volume = volume;
    volume["name"] = json!("v");
    files_of(&wanted, &serde_json::from_value(volume).unwrap())
}

fn files_of(input: &VolumeInput<'_>, volume: &Volume) -> Result<Files, String> {
    match types::of(volume).unwrap().plan(input, None)? {
        Setup::Files { content, .. } => content,
        Setup::Custom(_) | Setup::Local { .. } => panic!("a volume without files"),
    }
}

/// `path=content:mode` for each file.
fn show(files: &Files) -> String {
    let line = |(path, file): (&String, &super::File)| {
        let user = file.user.map(|user| format!("@{user}")).unwrap_or_default();
        format!("{path}={}:{:o}{user}", String::from_utf8_lossy(&file.data), file.mode)
    };
    files.iter().map(line).collect::<Vec<_>>().join(" ")
}

#[test]
fn sources() {
    for (volume, expected) in [
        (json!({"configMap": {"name": "m"}}), "a=1:644 b=2:644 bin=\u{fffd}:644"),
        (json!({"configMap": {"name": "m", "defaultMode": 256}}), "a=1:400 b=2:400 bin=\u{fffd}:400"),
        (json!({"configMap": {"name": "m", "items": []}}), "a=1:644 b=2:644 bin=\u{fffd}:644"),
        (
            json!({"configMap": {"name": "m", "items": [{"key": "a", "path": "./x//y", "mode": 511}]}}),
            "x/y=1:777",
        ),
        (json!({"configMap": {"name": "none", "optional": true}}), ""),
        (json!({"configMap": {"name": "empty"}}), ""),
        (
            json!({"configMap": {"name": "m", "optional": true, "items": [{"key": "a", "path": "a"}, {"key": "z", "path": "z"}]}}),
            "a=1:644",
        ),
        (json!({"secret": {"secretName": "s"}}), "key=secret:644"),
        (json!({"secret": {"secretName": "none", "optional": true}}), ""),
        (
            json!({"downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}, "user": 7}]}}),
            "cpu=2:644@7 labels=l=\"v\":644",
        ),
        (
            json!({"configMap": {"name": "m", "defaultUser": 5, "items": [{"key": "a", "path": "a"}]}}),
            "a=1:644@5",
        ),
        (json!({"secret": {"secretName": "s", "defaultUser": 5}}), "key=secret:644@5"),
        (
            json!({"downwardAPI": {"defaultUser": 5, "items": [
            {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}, {"path": "m", "fieldRef": {"fieldPath": "metadata.labels"}, "user": 7}]}}),
            "l=l=\"v\":644@5 m=l=\"v\":644@7",
        ),
        (
            json!({"projected": {"defaultMode": 256, "defaultUser": 5, "sources": [
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "cfg/a"}]}},
            {"secret": {"name": "s", "items": [{"key": "key", "path": "cfg/key", "mode": 292}]}}]}}),
            "cfg/a=1:400@5 cfg/key=secret:444@5",
        ),
        (
            json!({"projected": {"sources": [{"configMap": {"name": "m"}}, {"configMap": {"name": "other"}}]}}),
            "a=other:644 b=2:644 bin=\u{fffd}:644",
        ),
    ] {
        assert_eq!(show(&fill(volume.clone()).unwrap()), expected, "{volume}");
    }
}

#[test]
fn a_token_file_is_readable_by_the_default_user() {
    let request = json!({
        "metadata": {"name": "robot", "namespace": "n"},
        "spec": {"audiences": ["vault"], "expirationSeconds": 600, "boundObjectRef": {"kind": "Pod", "name": "p", "uid": "u"}},
        "status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"},
    });
    let request: TokenRequest = serde_json::from_value(request).unwrap();
    let mut references = References::default();
    references.tokens.insert(TokenKey::of(&request), Arc::new(request));
    let projection = |seconds: u32, default_user: Option<u32>| {
        let source = json!({"serviceAccountToken": {"audience": "vault", "expirationSeconds": seconds, "path": "token"}});
        let projected = json!({"defaultMode": 420, "defaultUser": default_user, "sources": [source]});
        let volume = json!({"name": "v", "projected": projected});
        serde_json::from_value(volume).unwrap()
    };
    let fill = |spec: Value, seconds: u32, default_user: Option<u32>| {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let (uid, facts) = (PodUid::new("u"), Facts::default());
        let wanted = VolumeInput { uid: &uid, pod: &pod, references: &references, facts: &facts };
        files_of(&wanted, &projection(seconds, default_user))
    };
    let user = |name: &str, user: u32| json!({"name": name, "securityContext": {"runAsUser": user}});
    for (spec, expected) in [
        (json!({"containers": [{"name": "c"}]}), "token=t:644"),
        (json!({"containers": [user("c", 7), user("d", 7)]}), "token=t:600@7"),
        (json!({"containers": [user("c", 7)], "initContainers": [user("i", 8)]}), "token=t:644"),
        (json!({"containers": [user("c", 7), {"name": "d"}]}), "token=t:644"),
        (
            json!({"containers": [user("c", 7), {"name": "d"}], "securityContext": {"runAsUser": 7}}),
            "token=t:600@7",
        ),
        // The atomic writer adds read permission for the group.
        (json!({"containers": [{"name": "c"}], "securityContext": {"fsGroup": 9}}), "token=t:600"),
    ] {
        assert_eq!(show(&fill(spec.clone(), 600, None).unwrap()), expected, "{spec}");
    }
    // The volume may set the owner of all its files, and then the token belongs to that user.
    let spec = json!({"containers": [user("c", 7)]});
    assert_eq!(show(&fill(spec, 600, Some(5)).unwrap()), "token=t:600@5");
    let spec = json!({"containers": [{"name": "c"}], "serviceAccountName": "robot"});
    let missing = fill(spec, 601, None).unwrap_err();
    assert!(missing.contains("no token of the service account n/robot yet"), "{missing}");
}

#[test]
fn volume_errors_name_the_missing_object_or_key() {
    let items = |items: Value| json!({"configMap": {"name": "m", "items": items}});
    for (volume, words) in [
        (json!({"configMap": {"name": "none"}}), "configmap \"none\" not found in namespace n"),
        (json!({"secret": {"secretName": "none"}}), "secret \"none\" not found in namespace n"),
        (
            items(json!([{"key": "z", "path": "z"}])),
            "configmap \"m\" references non-existent config key: z: it has a, b, bin",
        ),
        (items(json!([{"key": "a", "path": "/etc/passwd"}])), "must be relative"),
        (items(json!([{"key": "a", "path": "x/../../y"}])), "must not contain"),
        (items(json!([{"key": "a", "path": "..data"}])), "must not start with"),
        (items(json!([{"key": "a", "path": "./"}])), "is empty"),
        (items(json!([{"key": "a", "path": "x".repeat(256)}])), "is too long"),
        (items(json!([{"key": "a", "path": "x", "mode": 512}])), "between 0 and 0777"),
        (
            items(json!([{"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}])),
            "x would be both a file and the directory of x/y",
        ),
        (
            items(json!([{"key": "a", "path": "x"}, {"key": "b", "path": "x"}])),
            "two sources write the path x",
        ),
        (json!({"configMap": {"name": "large"}}), "has 1048577 bytes"),
        (
            json!({"downwardAPI": {"items": [{"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}}]}}),
            "ip: field status.podIP",
        ),
        (
            json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}}),
            "clusterTrustBundle is not supported",
        ),
    ] {
        let error = fill(volume).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
