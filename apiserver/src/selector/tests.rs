//! Selectors against an object.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::{FieldSelector, LabelSelector};
use crate::resource::{Field, Fields, Resource};
use crate::watch_cache::{Draft, Object, WatchCache};

const FIRST_GATE: &str = "spec.schedulingGates[0].name";

fn object() -> Object {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "tier": "front"}},
        "spec": {"nodeName": "n1", "hostNetwork": true, "schedulingGates": [{"name": "a/b"}, {"name": "c"}]},
        "status": {"phase": "Running"},
    });
    let Value::Object(object) = object else { unreachable!() };
    let fields = [
        "spec.nodeName",
        "spec.hostNetwork",
        "status.phase",
        "status.reason",
        FIRST_GATE,
        "spec.none[0].name",
    ];
    let fields = fields.map(Field::path);
    WatchCache::new(1).put("pods", &Draft::new(&object, &Fields::from(fields))).object().clone()
}

#[test]
fn labels() {
    let object = object();
    for (selector, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web , tier=front", true),
        ("app=web,tier=back", false),
        ("app!=web", false),
        ("zone!=a", true),
        ("app in (web, api)", true),
        ("app in (api)", false),
        ("app notin (api)", true),
        ("zone notin (a)", true),
        ("zone in ()", false),
        ("app", true),
        ("zone", false),
        ("!zone", true),
        ("!app", false),
        ("app,tier in (front),!zone", true),
    ] {
        assert_eq!(LabelSelector::parse(selector).unwrap().matches(&object), expected, "{selector}");
    }
}

#[test]
fn invalid_label_selectors_are_rejected() {
    for selector in
        ["app in (web", "app within (web)", "a b", "=x", "app=-x", "app=a b", "a,,b", "!", "in (x)"]
    {
        let error = LabelSelector::parse(selector).unwrap_err();
        assert_eq!(error.code, 400, "{selector}");
    }
}

#[test]
fn fields() {
    let object = object();
    for (selector, expected) in [
        ("", true),
        ("metadata.name=web", true),
        ("metadata.name=api", false),
        ("metadata.namespace=shop,spec.nodeName=n1", true),
        ("spec.nodeName!=n1", false),
        ("status.phase!=Failed,status.phase!=Succeeded", true),
        ("spec.hostNetwork=true", true),
        ("status.reason=", true),
        ("spec.schedulingGates[0].name=a/b", true),
        ("spec.schedulingGates[0].name=c", false),
        ("spec.schedulingGates[0].name!=,spec.none[0].name=", true),
    ] {
        assert_eq!(FieldSelector::parse(selector).unwrap().matches(&object), expected, "{selector}");
    }
}

#[test]
fn field_selector_values_may_contain_escaped_separators() {
    let selector = FieldSelector::parse(r"metadata.name=a\,b\=c\\d").unwrap();
    assert_eq!(selector.0[0].value, r"a,b=c\d");
}

#[test]
fn unsupported_field_labels_are_rejected_with_the_stock_message() {
    let row = |kind: &'static str| Resource::new("", "v1", kind, "things", "thing");
    let own = || row("Own").fields(&[Field::path("spec.color")]);
    let slice = Resource::new("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", "resourceslice");
    let slice = slice.cluster().fields(&[Field::path("spec.driver")]);
    for (row, label, expected) in [
        (own(), "spec.color", ""),
        (own(), "metadata.namespace", ""),
        (own(), "spec.size", "field label not supported: spec.size"),
        (own().cluster(), "metadata.name", ""),
        (own().cluster(), "metadata.namespace", "field label not supported: metadata.namespace"),
        (row("Plain").cluster(), "metadata.namespace", ""),
        (
            row("Plain"),
            "spec.color",
            r#""spec.color" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
        (slice, "spec.x", "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x"),
    ] {
        let mut selector = FieldSelector::parse(&format!("{label}=x")).unwrap();
        let refused = row.select(&mut selector).err();
        let message = refused.as_ref().map_or("", |status| status.message.as_str());
        assert_eq!(message, expected, "{row:?} {label}");
        assert!(refused.is_none_or(|status| status.code == 400));
    }
    assert!(FieldSelector::parse("spec.color").is_err());
}
