//! Tests of the type table for selected fields.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::{Apply, Kind, Patch, v1};
use super::{Numbered, all};

/// The object type of a field.
fn object(kind: &Kind) -> Option<&'static str> {
    match kind {
        Kind::Object(name) | Kind::OneOf(name) => Some(name),
        Kind::List(of) | Kind::Map(of) => object(of),
        _ => None,
    }
}

#[test]
fn every_type_refers_only_to_existing_types() {
    for name in all().names() {
        let of = all().get(name).unwrap();
        assert_eq!(of.name, name);
        for field in of.fields() {
            assert_eq!(of.field(field.name), Some(field), "{name}: fields are in order");
            if let Some(object) = object(&field.kind) {
                assert!(
                    object.contains('.') && all().get(object).is_some(),
                    "{name}.{}: {object}",
                    field.name
                );
            }
            let Apply::MapBy(keys) = &field.apply else { continue };
            let element = all().get(object(&field.kind).unwrap()).unwrap();
            assert!(keys.iter().all(|key| element.field(key).is_some()), "{name}.{}: {keys:?}", field.name);
        }
    }
}

/// The type in the notation of the node's type table: without groups, and with one time type.
fn without_rooms(kind: &Kind) -> Kind {
    match kind {
        Kind::Object(name) => Kind::Object(name.rsplit('.').next().unwrap()),
        Kind::List(of) => Kind::List(Box::new(without_rooms(of))),
        Kind::Map(of) => Kind::Map(Box::new(without_rooms(of))),
        Kind::MicroTime => Kind::Time,
        kind => kind.clone(),
    }
}

#[test]
fn type_table_agrees_with_the_core_v1_table() {
    for of in v1().types() {
        let rooms = [format!("core.v1.{}", of.name), format!("meta.v1.{}", of.name)];
        let found = rooms.iter().find_map(|name| all().get(name)).unwrap();
        let fields: Vec<_> =
            found.fields().iter().map(|field| (field.name, without_rooms(&field.kind))).collect();
        assert_eq!(fields, of.fields, "{}", of.name);
    }
}

#[test]
fn merge_keys_and_protobuf_numbers_refer_to_fields() {
    for of in all().names().map(|name| all().get(name).unwrap()) {
        for field in of.fields() {
            if let Patch::MergeBy(key) | Patch::MergeRetainKeysBy(key) = field.patch {
                let element = all().get(object(&field.kind).unwrap()).unwrap();
                assert!(element.field(key).is_some(), "{}.{}: {key}", of.name, field.name);
            }
            let Some((last, within)) = field.numbers.split_last() else { continue };
            assert_eq!(of.numbered(within, *last), Some(Numbered::Field(field)));
            if let Some((outer, above)) = within.split_last() {
                assert_eq!(of.numbered(above, *outer), Some(Numbered::Nested(within)));
            }
        }
        assert_eq!(of.numbered(&[], 0), None);
        assert_eq!(of.numbered(&[], u32::MAX), None);
        assert_eq!(of.numbered(&[u32::MAX], 1), None);
    }
}

#[test]
fn kinds_map_to_their_types() {
    fn check(group: &str, version: &str, kind: &str, expected: Option<&str>) {
        assert_eq!(all().kind(group, version, kind).map(|of| of.name), expected, "{group}/{version} {kind}");
    }
    check("", "v1", "Pod", Some("core.v1.Pod"));
    check("", "v1", "PodList", Some("core.v1.PodList"));
    check("", "v1", "Event", Some("core.v1.Event"));
    check("events.k8s.io", "v1", "Event", Some("events.v1.Event"));
    check("apps", "v1", "Deployment", Some("apps.v1.Deployment"));
    check("autoscaling", "v1", "HorizontalPodAutoscaler", Some("autoscaling.v1.HorizontalPodAutoscaler"));
    check("autoscaling", "v2", "HorizontalPodAutoscaler", Some("autoscaling.v2.HorizontalPodAutoscaler"));
    check("autoscaling", "v1", "Scale", Some("autoscaling.v1.Scale"));
    check("policy", "v1", "Eviction", Some("policy.v1.Eviction"));
    check("rbac.authorization.k8s.io", "v1", "ClusterRole", Some("rbac.v1.ClusterRole"));
    // Clients send these with the version of the affected kind.
    check("apps", "v1", "DeleteOptions", Some("meta.v1.DeleteOptions"));
    check("example.com", "v1", "DeleteOptions", Some("meta.v1.DeleteOptions"));
    check("", "v1", "Status", Some("meta.v1.Status"));
    check("", "v1", "Deployment", None);
    check("apps", "v1beta1", "Deployment", None);
    check("", "", "", None);
}

#[test]
fn facts_about_fields() {
    fn check(of: &str, name: &str, patch: Patch, apply: Apply) {
        let field = all().field(of, name).unwrap();
        assert_eq!((field.patch, &field.apply), (patch, &apply), "{of}.{name}");
    }
    fn map(keys: &[&'static str]) -> Apply {
        Apply::MapBy(keys.iter().map(|key| (*key).to_owned()).collect())
    }
    let (usual, granular, atomic) = (Patch::Usual, Apply::Granular, Apply::Atomic);
    check("core.v1.PodSpec", "containers", Patch::MergeBy("name"), map(&["name"]));
    check("core.v1.PodSpec", "volumes", Patch::MergeRetainKeysBy("name"), map(&["name"]));
    check("core.v1.PodSpec", "tolerations", usual, atomic.clone());
    check("core.v1.PodSpec", "nodeSelector", usual, atomic.clone());
    check("core.v1.PodSpec", "hostNetwork", usual, granular.clone());
    check("core.v1.PodSpec", "securityContext", usual, granular.clone());
    check("core.v1.Container", "ports", Patch::MergeBy("containerPort"), map(&["containerPort", "protocol"]));
    check("core.v1.ServiceSpec", "ports", Patch::MergeBy("port"), map(&["port", "protocol"]));
    check("core.v1.Container", "args", usual, atomic.clone());
    check("core.v1.EnvVarSource", "secretKeyRef", usual, atomic.clone());
    check("core.v1.PersistentVolumeSpec", "claimRef", usual, granular.clone());
    check("apps.v1.DeploymentSpec", "strategy", Patch::RetainKeys, granular.clone());
    check("apps.v1.DeploymentSpec", "selector", usual, atomic.clone());
    check("meta.v1.ObjectMeta", "finalizers", Patch::MergeValues, Apply::Set);
    check("meta.v1.ObjectMeta", "labels", usual, granular);
    check("batch.v1.JobStatus", "conditions", Patch::MergeBy("type"), atomic);
    // Two ports with the same number and no protocol are equal.
    assert_eq!(all().field("core.v1.ContainerPort", "protocol").unwrap().default.clone(), Some("TCP".into()));
    assert_eq!(all().field("core.v1.ContainerPort", "name").unwrap().default, None);
}

#[test]
fn numbers_kinds_and_pointers() {
    fn check(of: &str, name: &str, kind: &Kind, numbers: &[u32], required: bool, pointer: bool) {
        let field = all().field(of, name).unwrap();
        let found = (&field.kind, &*field.numbers, field.required, field.pointer);
        assert_eq!(found, (kind, numbers, required, pointer), "{of}.{name}");
    }
    check("core.v1.Volume", "emptyDir", &Kind::Object("core.v1.EmptyDirVolumeSource"), &[2, 2], false, false);
    check("core.v1.Probe", "exec", &Kind::Object("core.v1.ExecAction"), &[1, 1], false, false);
    check("core.v1.EphemeralContainer", "image", &Kind::String, &[1, 2], false, false);
    check("core.v1.SecretKeySelector", "name", &Kind::String, &[1, 1], false, false);
    let strings = Kind::List(Box::new(Kind::String));
    let rule = "admissionregistration.v1.NamedRuleWithOperations";
    check(rule, "apiGroups", &strings, &[2, 2, 1], false, false);
    check("apps.v1.DeploymentSpec", "replicas", &Kind::Int32, &[1], false, true);
    check("apps.v1.DeploymentSpec", "paused", &Kind::Bool, &[7], false, false);
    check("core.v1.Container", "name", &Kind::String, &[1], true, false);
    check("core.v1.Pod", "metadata", &Kind::Object("meta.v1.ObjectMeta"), &[1], false, false);
    check("core.v1.Pod", "kind", &Kind::String, &[], false, false);
    check("authentication.v1.UserInfo", "extra", &Kind::Map(Box::new(strings)), &[4], false, false);
    check("coordination.v1.LeaseSpec", "renewTime", &Kind::MicroTime, &[4], false, false);
    check("apiextensions.v1.JSONSchemaProps", "maximum", &Kind::Double, &[9], false, true);
}
