//! Tests of the strategies of storage kinds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use crate::strategy::Part;
use crate::strategy::tests::{Case, change, refused, stored};

type Change = fn(&mut Value);

fn claim() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

#[test]
fn bound_claim_may_request_more_storage() {
    let before = stored(&claim());
    let grow = |claim: &mut Value| claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    const ONLY: &str = "spec is immutable after creation except resources.requests";
    assert_eq!(before["status"]["phase"], "Pending");
    change(&before, &Part::Main, grow, "spec", ONLY);
    change(&before, &Part::Main, |claim| claim["spec"]["volumeName"] = "v".into(), "", "");
    let bound = Case::update(&before, &Part::Status, |claim| {
        claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
        claim["spec"]["volumeName"] = "v".into();
    });
    assert_eq!(bound.messages(&Part::Status), [] as [&str; 0]);
    change(&bound.object, &Part::Main, grow, "", "");
    let shrink = |claim: &mut Value| claim["spec"]["resources"]["requests"]["storage"] = "1Mi".into();
    change(&bound.object, &Part::Main, shrink, "spec.resources.requests.storage", "can not be less than");
    change(&bound.object, &Part::Main, |claim| claim["spec"]["volumeName"] = "w".into(), "spec", ONLY);
    refused(
        &claim(),
        |claim| claim["spec"]["accessModes"] = json!([]),
        "spec.accessModes",
        "at least 1 access mode",
    );
    refused(
        &claim(),
        |claim| claim["spec"]["accessModes"][0] = "x".into(),
        "spec.accessModes[0]",
        "Unsupported value",
    );
    refused(
        &claim(),
        |claim| claim["spec"]["resources"] = json!(null),
        "spec.resources.requests.storage",
        "Required value",
    );
}

#[test]
fn volume_has_one_immutable_source() {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "nfs": {"server": "a", "path": "/x"}},
    });
    let case = Case::new(volume.clone());
    assert_eq!(case.at("/spec/persistentVolumeReclaimPolicy"), "Retain");
    assert_eq!(case.at("/spec/volumeMode"), "Filesystem");
    let cases: [(Change, &str, &str); 5] = [
        (|it| drop(it["spec"].as_object_mut().unwrap().remove("nfs")), "spec", "must specify a volume type"),
        (
            |it| it["spec"]["hostPath"] = json!({"path": "/x"}),
            "spec.nfs",
            "may not specify more than 1 volume type",
        ),
        (|it| it["spec"]["nfs"] = json!({}), "spec.nfs.server", "Required value"),
        (|it| it["spec"]["capacity"] = json!({}), "spec.capacity", "Required value"),
        (
            |it| it["spec"]["capacity"]["storage"] = 0.into(),
            "spec.capacity.storage",
            "must be greater than zero",
        ),
    ];
    for (change, field, words) in cases {
        refused(&volume, change, field, words);
    }
    let before = stored(&volume);
    change(
        &before,
        &Part::Main,
        |it| it["spec"]["nfs"]["path"] = "/y".into(),
        "spec.persistentvolumesource",
        "immutable after creation",
    );
    change(&before, &Part::Main, |it| it["spec"]["persistentVolumeReclaimPolicy"] = "Delete".into(), "", "");
}

#[test]
fn storage_classes_are_immutable() {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "a"}, "provisioner": "a.b/c"});
    let before = stored(&class);
    assert_eq!(
        (before["reclaimPolicy"].as_str(), before["volumeBindingMode"].as_str()),
        (Some("Delete"), Some("Immediate"))
    );
    change(
        &before,
        &Part::Main,
        |it| it["parameters"] = json!({"a": "b"}),
        "parameters",
        "updates to parameters are forbidden.",
    );
    change(
        &before,
        &Part::Main,
        |it| it["volumeBindingMode"] = "WaitForFirstConsumer".into(),
        "volumeBindingMode",
        "field is immutable",
    );
    change(&before, &Part::Main, |it| it["allowVolumeExpansion"] = true.into(), "", "");
    refused(&class, |it| it["reclaimPolicy"] = "Recycle".into(), "reclaimPolicy", "Unsupported value");
}

#[test]
fn drivers_and_attachments() {
    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "a.b"}, "spec": {}});
    let before = stored(&driver);
    assert_eq!(before["spec"]["attachRequired"], true);
    assert_eq!(before["spec"]["volumeLifecycleModes"], json!(["Persistent"]));
    change(
        &before,
        &Part::Main,
        |it| it["spec"]["attachRequired"] = false.into(),
        "spec.attachRequired",
        "field is immutable",
    );
    let node = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": [{"name": "a.b", "nodeID": "1"}]}});
    refused(
        &node,
        |it| it["spec"]["drivers"][0]["nodeID"] = "".into(),
        "spec.drivers[0].nodeID",
        "Required value",
    );
    change(
        &stored(&node),
        &Part::Main,
        |it| it["spec"]["drivers"][0]["nodeID"] = "2".into(),
        "spec.drivers[0].nodeID",
        "field is immutable",
    );
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    });
    refused(&attachment, |it| it["spec"]["source"] = json!({}), "spec.source", "must specify exactly one");
    change(
        &stored(&attachment),
        &Part::Main,
        |it| it["spec"]["nodeName"] = "m".into(),
        "spec",
        "field is immutable",
    );
}
