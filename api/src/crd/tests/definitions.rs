//! Tests of the validation and parsing of definitions.

use serde_json::{Value, json};

use super::{crontabs, messages, object, set};
use crate::crd::{CLEANUP, CustomResourceDefinitions, Definition};
use crate::strategy::{Part, Strategy as _};

const SCHEMA: &str = "spec.versions[0].schema.openAPIV3Schema.properties[spec]";

fn plain() -> Value {
    json!({"type": "object", "properties": {"replicas": {"type": "integer"}}})
}

#[test]
fn a_valid_definition_is_accepted() {
    let spec = json!({"type": "object", "required": ["image"], "properties": {
        "image": {"type": "string", "default": "busybox", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                   "oneOf": [{"required": ["a"]}, {"properties": {"b": {"minLength": 1}}, "required": ["b"]}]},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n", "p"],
                  "items": {"type": "object", "required": ["n"], "properties": {
                      "n": {"type": "integer"}, "p": {"type": "string", "default": "TCP"}}}},
    }, "x-kubernetes-validations": [{"rule": "self.image != ''"}]});
    let definition = crontabs(spec);
    assert_eq!(messages(&CustomResourceDefinitions.validate(&definition, None, &Part::Main)), [""; 0]);
    assert_eq!(CustomResourceDefinitions.warnings(&definition), [""; 0]);
}

#[test]
fn errors_of_definitions_are_reported() {
    let at = |rest: &str| format!("{SCHEMA}{rest}");
    let cases: &[(&str, Value, Vec<String>)] = &[
        (
            "/metadata/name",
            json!("crontab.stable.example.com"),
            vec!["metadata.name: Invalid value: \"crontab.stable.example.com\": must be spec.names.plural+\".\"+spec.group".into()],
        ),
        ("/spec/scope", json!("Galaxy"), vec!["spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"".into()]),
        ("/spec/names/kind", json!(null), vec!["spec.names.kind: Required value".into()]),
        ("/spec/names/listKind", json!("CronTab"), vec!["spec.names.listKind: Invalid value: \"CronTab\": kind and listKind may not be the same".into()]),
        (
            "/spec/versions/0/storage",
            json!(false),
            vec!["spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version".into()],
        ),
        ("/spec/versions/0/schema", json!(null), vec!["spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required".into()]),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "A", "type": "text", "jsonPath": ".spec.a"}]),
            vec!["spec.versions[0].additionalPrinterColumns[0].type: Unsupported value: \"text\": supported values: \"boolean\", \"date\", \"integer\", \"number\", \"string\"".into()],
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".status.replicas", "statusReplicasPath": "status"}}),
            vec![
                "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".status.replicas\": should be a json path under .spec".into(),
                "spec.versions[0].subresources.scale.statusReplicasPath: Invalid value: \"status\": must be a simple json path starting with .".into(),
            ],
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook"}),
            vec!["spec.conversion.webhook.clientConfig: Required value: required when strategy is set to Webhook".into()],
        ),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            vec!["spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead".into()],
        ),
    ];
    for (pointer, value, expected) in cases {
        let mut definition = crontabs(plain());
        set(&mut definition, pointer, value.clone());
        assert_eq!(
            &messages(&CustomResourceDefinitions.validate(&definition, None, &Part::Main)),
            expected,
            "{pointer}"
        );
    }
    let schemas: &[(Value, Vec<String>)] = &[
        (
            json!({"properties": {}}),
            vec![at(".type: Required value: must not be empty for specified object fields")],
        ),
        (json!({"type": "array"}), vec![at(".items: Required value: must be specified")]),
        (
            json!({"type": "text"}),
            vec![at(
                ".type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            )],
        ),
        (
            json!({"type": "string", "uniqueItems": true}),
            vec![at(
                ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            )],
        ),
        (json!({"type": "object", "$ref": "#/x"}), vec![at(".$ref: Forbidden: $ref is not supported")]),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            vec![at(".anyOf[0].type: Forbidden: must be empty to be structural")],
        ),
        (
            json!({"type": "object", "not": {"properties": {"a": {"default": 1}}}}),
            vec![
                at(".properties[a]: Required value: because it is defined in ") + &at(".not.properties[a]"),
                at(".not.properties[a].default: Forbidden: must be undefined to be structural"),
            ],
        ),
        (
            json!({"type": "integer", "default": "x"}),
            vec![{
                let path = at(".default");
                format!(
                    "{path}: Invalid value: \"string\": {path} in body must be of type integer: \"string\""
                )
            }],
        ),
        (
            json!({"type": "object", "default": {"a": 1}}),
            vec![at(".default: Invalid value: {\"a\":1}: must not have unknown fields")],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}),
            vec![
                at(
                    ".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
                ),
                at(
                    ".items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
                ),
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "properties": {"n": {"type": "string"}}}}),
            vec![at(
                ".items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            )],
        ),
        (
            json!({"type": "object", "x-kubernetes-list-type": "set"}),
            vec![at(
                ".type: Invalid value: \"object\": must be array if x-kubernetes-list-type is specified",
            )],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            vec![at(
                ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            )],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            vec![at(
                ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            )],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            vec![at(
                ".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
            )],
        ),
    ];
    for (schema, expected) in schemas {
        let causes = CustomResourceDefinitions.validate(&crontabs(schema.clone()), None, &Part::Main);
        assert_eq!(&messages(&causes), expected, "{schema}");
    }
}

#[test]
fn community_api_group_requires_the_approval_annotation() {
    let mut definition = crontabs(plain());
    set(&mut definition, "/spec/group", json!("stable.k8s.io"));
    set(&mut definition, "/metadata/name", json!("crontabs.stable.k8s.io"));
    let causes = CustomResourceDefinitions.validate(&definition, None, &Part::Main);
    assert_eq!(causes[0].field, "metadata.annotations[api-approved.kubernetes.io]");
    set(
        &mut definition,
        "/metadata/annotations",
        json!({"api-approved.kubernetes.io": "https://example.com/1"}),
    );
    assert!(CustomResourceDefinitions.validate(&definition, None, &Part::Main).is_empty());
}

#[test]
fn stored_versions_cannot_be_removed() {
    let mut before = crontabs(plain());
    set(&mut before, "/status", Value::Null);
    before.insert(
        "status".into(),
        json!({"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}),
    );
    let mut after = before.clone();
    set(&mut after, "/spec/scope", json!("Cluster"));
    set(&mut after, "/spec/versions/0/name", json!("v2"));
    let causes = messages(&CustomResourceDefinitions.validate(&after, Some(&before), &Part::Main));
    assert_eq!(
        causes,
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; may not be removed while it is in status.storedVersions",
        ]
    );
}

#[test]
fn crd_names_are_defaulted_and_its_finalizer_is_kept() {
    let mut definition = crontabs(plain());
    set(&mut definition, "/spec/names/singular", Value::Null);
    set(&mut definition, "/spec/names/listKind", Value::Null);
    CustomResourceDefinitions.default(&mut definition).unwrap();
    CustomResourceDefinitions.prepare(&mut definition, None, &Part::Main);
    let names = &definition["spec"]["names"];
    assert_eq!((&names["singular"], &names["listKind"]), (&json!("crontab"), &json!("CronTabList")));
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(definition["metadata"]["finalizers"], json!([CLEANUP]));
    let status = json!({"acceptedNames": {"kind": "", "plural": ""}, "storedVersions": ["v1"]});
    assert_eq!(definition["status"], status, "clients look into it before anything is decided");

    let mut terminating = definition.clone();
    set(&mut terminating, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let mut freed = terminating.clone();
    set(&mut freed, "/metadata/finalizers", json!([]));
    CustomResourceDefinitions.prepare(&mut freed, Some(&terminating), &Part::Main);
    assert_eq!(freed["metadata"]["finalizers"], json!([]));
}

#[test]
fn crd_is_parsed_in_its_served_form() {
    let mut definition = crontabs(plain());
    let mut old = definition["spec"]["versions"][0].clone();
    old["name"] = json!("v1alpha1");
    old["storage"] = json!(false);
    old["deprecated"] = json!(true);
    let mut gone = old.clone();
    gone["name"] = json!("v0");
    gone["served"] = json!(false);
    set(
        &mut definition,
        "/spec/versions/0/subresources",
        json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}),
    );
    set(&mut definition, "/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.color"}]));
    let new = definition["spec"]["versions"][0].clone();
    set(&mut definition, "/spec/versions", json!([old, gone, new]));

    let read = Definition::read(&definition).unwrap();
    let names: Vec<&str> = read.versions.iter().map(|version| version.name.as_str()).collect();
    assert_eq!((read.stored.as_str(), names, read.namespaced), ("v1", vec!["v1", "v1alpha1"], true));
    let version = &read.versions[0];
    assert!(version.has_status && version.warning.is_none() && version.columns.is_none());
    assert_eq!(version.scale.as_ref().unwrap().selector.as_deref(), Some(".status.selector"));
    assert_eq!(version.selectable, ["spec.color"]);
    assert_eq!(
        read.versions[1].warning.as_deref(),
        Some("stable.example.com/v1alpha1 CronTab is deprecated")
    );

    // With a conversion webhook, only the storage version is served.
    set(&mut definition, "/spec/conversion", json!({"strategy": "Webhook"}));
    assert_eq!(Definition::read(&definition).unwrap().versions.len(), 1);
    assert!(Definition::read(&object(json!({"spec": {}}))).is_none());
}
