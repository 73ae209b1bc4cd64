//! Tests of type errors and their remedies.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::{nearest, v1, v1_object};
use crate::field_error::FieldErrors;
use crate::path::Path;

fn check(type_name: &'static str, mut value: Value, expected: &[&str]) -> Value {
    let mut errors = FieldErrors::default();
    v1_object(type_name, &mut value, &Path::ROOT, &mut errors);
    let messages: Vec<String> = errors
        .into_vec()
        .iter()
        .map(|error| format!("{}: {}; {}", error.path, error.what, error.remedy))
        .collect();
    assert_eq!(messages, expected);
    value
}

#[test]
fn every_object_type_in_the_table_exists() {
    fn named(kind: &super::Kind) -> Option<&'static str> {
        match kind {
            super::Kind::Object(name) => Some(name),
            super::Kind::List(of) | super::Kind::Map(of) => named(of),
            _ => None,
        }
    }
    let missing: Vec<&str> = (v1().types().flat_map(|of| of.fields.iter()))
        .filter_map(|(_, kind)| named(kind))
        .filter(|name| v1().get(name).is_none())
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn all_errors_are_reported_together() {
    check(
        "PodSpec",
        json!({
            "hostNetwork": "yes", "restartPolic": "Always", "activeDeadlineSeconds": "30", "hostUsers": "maybe",
            "containers": {"name": "a"}, "nodeSelector": {"disk": true}, "hostname": 5, "priority": 3_000_000_000_i64,
            "terminationGracePeriodSeconds": 1.5, "volumes": [null, {"name": "v", "emptyDir": {"sizeLimit": "1 GB"}}],
            "initContainers": [{"name": "i", "command": "ls -l", "args": [1], "restartPolicy": ["Always"],
                "env": [{"name": "PORT", "value": 80}], "image": null}],
        }),
        &[
            "hostNetwork: expected true or false, found the string \"yes\"; write true, without quotes",
            "restartPolic: unknown field `restartPolic`; did you mean `restartPolicy`?",
            "activeDeadlineSeconds: expected a whole number, found the string \"30\"; remove the quotes: 30",
            "hostUsers: expected true or false, found the string \"maybe\"; write true or false",
            "containers: expected a list of Container objects, found a map; start each element with `- `",
            "nodeSelector[disk]: expected a string, found true; put it in quotes",
            "hostname: expected a string, found a number; put it in quotes",
            "priority: 3000000000 is out of range; write a number from -2147483648 to 2147483647",
            "terminationGracePeriodSeconds: expected a whole number, found 1.5; round it",
            "volumes[0]: expected a Volume, found nothing; remove it, or write its fields, indented",
            "volumes[1].emptyDir.sizeLimit: `1 GB` is not a quantity: it has an unknown suffix; did you mean `1G`?",
            "initContainers[0].command: expected a list of strings, found the string \"ls -l\"; write a list, even of one: `[...]`, or a line that starts with `- `",
            "initContainers[0].args[0]: expected a string, found a number; put it in quotes",
            "initContainers[0].restartPolicy: expected a string, found a list; remove the `- ` or the brackets",
            "initContainers[0].env[0].value: expected a string, found a number; put it in quotes",
        ],
    );
}

#[test]
fn the_error_for_a_misplaced_field_names_its_right_place() {
    check(
        "Pod",
        json!({"containers": [], "spec": {"image": "x", "containers": [{"hostNetwork": true, "privileged": true, "qwertyuiop": 1}]}}),
        &[
            "containers: unknown field `containers`; move it in: `containers` is a field of `spec`",
            "spec.image: unknown field `image`; move it in: `image` is a field of `containers`",
            "spec.containers[0].hostNetwork: unknown field `hostNetwork`; move it out: `hostNetwork` is a field of a PodSpec",
            "spec.containers[0].privileged: unknown field `privileged`; move it in: `privileged` is a field of `securityContext`",
            "spec.containers[0].qwertyuiop: unknown field `qwertyuiop`; remove it, or write one of args, command, env, envFrom, image, imagePullPolicy, lifecycle, livenessProbe, name, ports, readinessProbe, resizePolicy, resources, restartPolicy, restartPolicyRules, securityContext, startupProbe, stdin, stdinOnce, terminationMessagePath, terminationMessagePolicy, tty, volumeDevices, volumeMounts, workingDir",
        ],
    );
}

#[test]
fn schema_normalizes_values() {
    let repaired = check(
        "Pod",
        json!({"metadata": {"name": "a", "labels": null},
            "spec": {"priority": 5.0, "overhead": {"cpu": 0.5, "memory": 1e6}}}),
        &[],
    );
    assert_eq!(
        repaired,
        json!({"metadata": {"name": "a"}, "spec": {"priority": 5, "overhead": {"cpu": "0.5", "memory": "1000000"}}})
    );
    let secret = check("Secret", json!({"data": {"k": "aGVs\nbG8=\n"}}), &[]);
    assert_eq!(secret, json!({"data": {"k": "aGVsbG8="}}));
}

#[test]
fn times_and_bytes() {
    check(
        "Secret",
        json!({"metadata": {"creationTimestamp": "yesterday", "deletionTimestamp": "2026-01-02T03:04:05Z"}, "data": {"k": "plain text"}}),
        &[
            "metadata.creationTimestamp: `yesterday` is not a time; write it like 2006-01-02T15:04:05Z",
            "data[k]: the value is not base64; encode it (`base64 -w0`), or write it as it is under `stringData` of a Secret or `data` of a ConfigMap",
        ],
    );
}

#[test]
fn misspellings() {
    let fields =
        || ["image", "imagePullPolicy", "name", "ports", "env", "envFrom", "tty", "hostPath"].into_iter();
    for (name, near) in [
        ("imagePulPolicy", Some("imagePullPolicy")),
        ("imagepullpolicy", Some("imagePullPolicy")),
        ("imgae", Some("image")),
        ("Image", Some("image")),
        ("images", Some("image")),
        ("host_path", Some("hostPath")),
        ("port", Some("ports")),
        ("nmae", Some("name")),
        ("envs", Some("env")),
        ("volumes", None),
        ("x", None),
        ("", None),
    ] {
        assert_eq!(nearest(name, fields()), near, "{name}");
    }
}

#[test]
fn suggested_quantities() {
    for (text, meant) in [
        ("128mb", Some("128Mi")),
        ("128mib", Some("128Mi")),
        ("128MB", Some("128M")),
        ("128MiB", Some("128Mi")),
        ("1g", Some("1Gi")),
        ("64gb", Some("64Gi")),
        ("1.5 gb", Some("1.5Gi")),
        ("2t", Some("2Ti")),
        ("10kb", Some("10Ki")),
        ("10K", Some("10k")),
        ("1 GB", Some("1G")),
        ("500 m", Some("500m")),
        ("many", None),
        ("1 bushel", None),
    ] {
        let mut errors = FieldErrors::default();
        let mut value = json!(text);
        super::check::check(
            super::types::v1(),
            &super::types::Kind::Quantity,
            &mut value,
            &Path::ROOT,
            &mut errors,
        );
        let error = errors.into_vec().remove(0);
        let expected = meant
            .map_or("write a number, perhaps with".to_owned(), |meant| format!("did you mean `{meant}`?"));
        assert!(error.remedy.starts_with(&expected), "{text}: {}", error.remedy);
    }
}

#[test]
fn field_names_of_similar_types_are_suggested() {
    for (source, field) in [
        (json!({"secret": {"name": "x"}}), "secretName"),
        (json!({"configMap": {"configMapName": "x"}}), "name"),
        (json!({"persistentVolumeClaim": {"name": "x"}}), "claimName"),
        (json!({"projected": {"sources": [{"secret": {"secretName": "x"}}]}}), "name"),
    ] {
        let mut errors = FieldErrors::default();
        let mut value = json!({"volumes": [source]});
        super::check::v1_object("PodSpec", &mut value, &Path::ROOT, &mut errors);
        assert_eq!(errors.into_vec().remove(0).remedy, format!("write `{field}`"));
    }
}
