//! Tests of validation errors.
#![allow(clippy::unwrap_used, reason = "tests")]

mod data;
mod names;
mod pods;

use k8s_openapi::api::core::v1::Pod;

use crate::field_error::FieldError;

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(|error| format!("{}: {}; {}", error.path, error.what, error.remedy)).collect()
}

/// Validates a Pod with this spec in YAML; `expected` omits `spec.`.
#[track_caller]
fn spec(yaml: &str, expected: &[&str]) {
    let manifest = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {yaml}\n");
    let mut value: serde_json::Value = serde_yaml::from_str(&manifest).unwrap();
    crate::defaults::pod_spec(value["spec"].as_object_mut().unwrap());
    let pod: Pod = serde_json::from_value(value).unwrap();
    let messages = messages(&super::pod(&pod));
    let messages: Vec<&str> =
        messages.iter().map(|line| line.strip_prefix("spec.").unwrap_or(line)).collect();
    assert_eq!(messages, expected, "of {yaml}");
}

/// Validates a Pod with one container; `expected` omits `spec.containers[0].`.
#[track_caller]
fn container(fields: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|line| format!("containers[0].{line}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let volumes = "volumes: [{name: data, emptyDir: {}}, {name: host, hostPath: {path: /tmp}}]";
    spec(&format!("{{{volumes}, containers: [{{name: c, image: i, {fields}}}]}}"), &expected);
}

/// Validates a Pod with one volume `v`; `expected` omits `spec.volumes[0].`.
#[track_caller]
fn volume(source: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|line| format!("volumes[0].{line}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    spec(&format!("{{volumes: [{{name: v, {source}}}], containers: [{{name: c, image: i}}]}}"), &expected);
}

/// Validates a Pod with a container and these fields; `expected` omits `spec.`.
#[track_caller]
fn fields(fields: &str, expected: &[&str]) {
    spec(&format!("{{containers: [{{name: c, image: i}}], {fields}}}"), expected);
}
