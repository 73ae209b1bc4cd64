//! Tests of the shapes of built-in kinds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::shape;
use crate::patch::strategic;
use crate::shape::{Form, List, Shape};

fn patched(kind: &str, object: Value, patch: Value) -> Value {
    let api_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
    strategic::apply(object.clone(), &patch, shape(api_version, kind)).unwrap()
}

#[test]
fn containers_merge_by_name_and_ports_by_their_number() {
    let pod = json!({"spec": {"containers": [
        {"name": "a", "image": "a", "ports": [{"containerPort": 80, "name": "web"}]}, {"name": "b", "image": "b"}]}});
    let patch =
        json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]}});
    let expected = json!({"spec": {"containers": [
        {"name": "a", "image": "a", "ports": [{"containerPort": 80, "name": "web", "protocol": "UDP"}]},
        {"name": "b", "image": "b"}]}});
    assert_eq!(patched("Pod", pod, patch), expected);
}

#[test]
fn pod_templates_are_part_of_the_shape() {
    let deployment = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "1"}]}}}});
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "2"}]}}}});
    assert_eq!(patched("Deployment", deployment, patch.clone()), patch);
}

#[test]
fn lists_have_their_list_type_and_keys() {
    let list = |shape: Shape<'static>, path: &[&str]| {
        let at = path.iter().fold(shape, |shape, name| match shape.form() {
            Form::List { elements, .. } => elements.at(name).shape,
            _ => shape.at(name).shape,
        });
        match at.form() {
            Form::List { list: List::Atomic, .. } => "atomic".to_owned(),
            Form::List { list: List::Set, .. } => "set".to_owned(),
            Form::List { list: List::Map(keys), .. } => keys.join(","),
            other => panic!("no list: {other:?}"),
        }
    };
    let pod = shape("v1", "Pod");
    assert_eq!(list(pod, &["spec", "containers"]), "name");
    assert_eq!(list(pod, &["spec", "containers", "ports"]), "containerPort,protocol");
    assert_eq!(list(pod, &["spec", "containers", "command"]), "atomic");
    assert_eq!(list(pod, &["metadata", "finalizers"]), "set");
}

#[test]
fn port_without_a_protocol_is_tcp() {
    let ports = shape("v1", "Service").at("spec").shape.at("ports").shape;
    let Form::List { elements, .. } = ports.form() else { panic!("no list") };
    assert_eq!(elements.at("protocol").default, Some(&json!("TCP")));
}
