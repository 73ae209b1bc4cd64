//! Tests of the plans for claims and volumes, from the Kubernetes documentation.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod simulation;

use serde_json::{Value, json};

use super::claim_plan::{ClaimInput, ClaimStep, plan};
use super::volume_plan::{self, VolumeStep};
use super::{Notice, local_path};
use crate::controllers::object::Object;
use crate::objects::volume::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// Merges the fields of `more` into `base`.
fn merged(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        for (field, value) in more {
            let before = base.remove(&field).unwrap_or(json!({}));
            let value = if before.is_object() && value.is_object() { merged(before, value) } else { value };
            base.insert(field, value);
        }
    }
    base
}

/// A claim for 5Gi, ReadWriteOnce, of the class `manual`.
pub(super) fn claim(more: Value) -> PersistentVolumeClaim {
    let base = json!({
        "metadata": {"namespace": "shop", "name": "data", "uid": "c-1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "resources": {"requests": {"storage": "5Gi"}}},
        "status": {"phase": "Pending"},
    });
    serde_json::from_value(merged(base, more)).unwrap()
}

/// A free volume of this size, ReadWriteOnce, of the class `manual`.
pub(super) fn volume(name: &str, size: &str, more: Value) -> PersistentVolume {
    let base = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "capacity": {"storage": size}},
        "status": {"phase": "Available"},
    });
    serde_json::from_value(merged(base, more)).unwrap()
}

fn class(more: Value) -> StorageClass {
    let base = json!({"metadata": {"name": "manual"}, "provisioner": "kubernetes.io/no-provisioner"});
    serde_json::from_value(merged(base, more)).unwrap()
}

/// The step of an unbound claim in one line: the volume, or the reason and message of the event.
fn step(claim: &PersistentVolumeClaim, volumes: &[PersistentVolume], class: Option<&StorageClass>) -> String {
    let volumes: Vec<&PersistentVolume> = volumes.iter().collect();
    let named = volumes.iter().copied().find(|volume| volume.metadata.name == claim.spec.volume_name);
    match plan(&ClaimInput { claim, named, volumes: &volumes, class, default_class: Some("local-path") }) {
        ClaimStep::Bind(volume) => format!("bind {}", volume.metadata.name),
        ClaimStep::Wait(None) => "wait".to_owned(),
        ClaimStep::Wait(Some(Notice { reason, message, .. })) => format!("{reason}: {message}"),
        ClaimStep::Lost(notice) => format!("lost, {}: {}", notice.reason, notice.message),
        ClaimStep::SetClass(class) => format!("class {class}"),
        ClaimStep::Announce(provisioner) => format!("announce {provisioner}"),
        ClaimStep::Provision { node, .. } => format!("provision on {node}"),
    }
}

#[test]
fn a_claim_that_is_older_than_the_default_class_gets_it() {
    let open = claim(json!({"spec": {"storageClassName": null}}));
    assert_eq!(step(&open, &[], None), "class local-path");
    // A volume without a class is used first.
    let none = json!({"spec": {"storageClassName": ""}});
    assert_eq!(step(&open, &[volume("free", "6Gi", none.clone())], None), "bind free");
    assert_eq!(step(&claim(none), &[], None), NONE);
    let beta = json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}, "spec": {"storageClassName": null}});
    assert_eq!(step(&claim(beta), &[], None), NONE);
}

const NONE: &str =
    "FailedBinding: no persistent volumes available for this claim and no storage class is set";

#[test]
fn a_claim_gets_the_smallest_volume_that_fits() {
    let none = json!({"spec": {"storageClassName": ""}});
    let of = |name: &str, size: &str, more: Value| volume(name, size, merged(none.clone(), more));
    let plain = claim(none.clone());
    let sizes = [of("big", "100Gi", json!({})), of("fits", "6Gi", json!({})), of("small", "4Gi", json!({}))];
    assert_eq!(step(&plain, &sizes, None), "bind fits");
    assert_eq!(step(&plain, &sizes[2..], None), NONE);
    for unusable in [
        json!({"status": {"phase": "Pending"}}),
        json!({"status": {"phase": "Released"}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"spec": {"claimRef": {"namespace": "shop", "name": "other"}}}),
        json!({"spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "c-0"}}}),
        json!({"spec": {"storageClassName": "manual"}}),
        json!({"spec": {"volumeMode": "Block"}}),
        json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
    ] {
        assert_eq!(step(&plain, &[of("v", "9Gi", unusable.clone())], None), NONE, "{unusable}");
    }
    let more_modes = json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}});
    assert_eq!(step(&plain, &[of("v", "9Gi", more_modes)], None), "bind v");
}

#[test]
fn a_selector_chooses_volumes_by_labels() {
    let wanted = claim(json!({"spec": {"selector": {"matchLabels": {"release": "stable"}}}}));
    let manual = class(json!({}));
    let stable = json!({"metadata": {"labels": {"release": "stable"}}});
    let volumes = [volume("a", "5Gi", json!({})), volume("b", "50Gi", stable)];
    assert_eq!(step(&wanted, &volumes, Some(&manual)), "bind b");
    let missing = "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner";
    assert_eq!(step(&wanted, &volumes[..1], Some(&manual)), missing);
}

#[test]
fn a_reserved_volume_goes_to_its_claim_only() {
    let reserved = json!({"spec": {"claimRef": {"namespace": "shop", "name": "data"}}});
    let volumes = [volume("any", "5Gi", json!({})), volume("mine", "50Gi", reserved.clone())];
    let (manual, delayed) = (class(json!({})), class(json!({"volumeBindingMode": "WaitForFirstConsumer"})));
    assert_eq!(step(&claim(json!({})), &volumes, Some(&manual)), "bind mine");
    assert_eq!(step(&claim(json!({})), &volumes, Some(&delayed)), "bind mine");
    let other = claim(json!({"metadata": {"name": "other"}}));
    assert_eq!(step(&other, &volumes, Some(&manual)), "bind any");
    let too_small = [volume("mine", "1Gi", reserved)];
    assert!(step(&claim(json!({})), &too_small, Some(&manual)).starts_with("ProvisioningFailed"));
}

#[test]
fn a_claim_that_names_its_volume_gets_no_other() {
    let named = claim(json!({"spec": {"volumeName": "mine"}}));
    let any = volume("any", "5Gi", json!({}));
    let of = |more: Value| step(&named, &[any.clone(), volume("mine", "9Gi", more)], None);
    assert_eq!(step(&named, std::slice::from_ref(&any), None), "wait");
    assert_eq!(of(json!({})), "bind mine");
    assert_eq!(of(json!({"spec": {"claimRef": {"namespace": "shop", "name": "data"}}})), "bind mine");
    assert_eq!(
        of(json!({"spec": {"claimRef": {"namespace": "shop", "name": "other", "uid": "x"}}})),
        "FailedBinding: volume \"mine\" already bound to a different claim."
    );
    for (more, why) in [
        (json!({"capacity": {"storage": "1Gi"}}), "requested PV is too small"),
        (json!({"storageClassName": "slow"}), "storageClassName does not match"),
        (json!({"volumeMode": "Block"}), "incompatible volumeMode"),
        (json!({"accessModes": ["ReadOnlyMany"]}), "incompatible accessMode"),
    ] {
        let expected = format!("VolumeMismatch: Cannot bind to requested volume \"mine\": {why}");
        assert_eq!(of(json!({"spec": more})), expected);
    }
}

#[test]
fn a_claim_may_wait_for_its_first_consumer() {
    let delayed = class(json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let volumes = [volume("any", "5Gi", json!({}))];
    let waits = "WaitForFirstConsumer: waiting for first consumer to be created before binding";
    assert_eq!(step(&claim(json!({})), &volumes, Some(&delayed)), waits);
    let local = json!({"provisioner": local_path::PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"});
    let local = class(local);
    assert_eq!(step(&claim(json!({})), &[], Some(&local)), waits);
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}});
    assert_eq!(step(&claim(selected.clone()), &[], Some(&local)), "provision on n1");
    // A free volume may be on another node.
    let free = volume("free", "5Gi", json!({}));
    assert_eq!(step(&claim(selected.clone()), &[free], Some(&local)), "provision on n1");
    for refused in [json!({"accessModes": ["ReadWriteMany"]}), json!({"volumeMode": "Block"})] {
        let wanted = claim(merged(selected.clone(), json!({"spec": refused})));
        assert!(step(&wanted, &[], Some(&local)).starts_with("ProvisioningFailed: "), "{wanted:?}");
    }
    let immediate = class(json!({"provisioner": local_path::PROVISIONER}));
    assert!(
        step(&claim(json!({})), &[], Some(&immediate)).contains("set volumeBindingMode WaitForFirstConsumer")
    );
}

#[test]
fn a_class_decides_who_provisions() {
    let external = class(json!({"provisioner": "example.com/disk"}));
    assert_eq!(step(&claim(json!({})), &[], Some(&external)), "announce example.com/disk");
    let missing = "ProvisioningFailed: storageclass.storage.k8s.io \"manual\" not found";
    assert_eq!(step(&claim(json!({})), &[], None), missing);
    let terminating = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(step(&claim(terminating), &[], Some(&external)), "wait");
}

#[test]
fn a_bound_claim_stays_bound_or_is_lost() {
    let bound = |volume: &str| {
        claim(json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume},
            "status": {"phase": "Bound"},
        }))
    };
    let of = |uid: &str| json!({"spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": uid}}});
    assert_eq!(step(&bound("v"), &[volume("v", "1Gi", of("c-1"))], None), "bind v");
    assert_eq!(step(&bound("v"), &[volume("v", "1Gi", json!({}))], None), "bind v");
    assert!(step(&bound("v"), &[], None).starts_with("lost, ClaimLost: Bound claim has lost its"));
    assert!(step(&bound(""), &[], None).starts_with("lost, ClaimLost: Bound claim has lost reference"));
    assert!(
        step(&bound("v"), &[volume("v", "1Gi", of("c-2"))], None)
            .starts_with("lost, ClaimMisbound: Two claims")
    );
}

#[test]
fn the_phase_of_a_volume_follows_its_claim() {
    let of = |uid: &str| json!({"claimRef": {"namespace": "shop", "name": "data", "uid": uid}});
    let plan = |spec: Value, phase: &str, claim: Option<&PersistentVolumeClaim>| {
        let more = json!({"spec": spec, "status": {"phase": phase}});
        volume_plan::plan(&volume("v", "5Gi", more), claim)
    };
    assert_eq!(plan(json!({}), "Pending", None), VolumeStep::Phase("Available"));
    assert_eq!(plan(json!({}), "Available", None), VolumeStep::Nothing);
    let reserved = json!({"claimRef": {"namespace": "shop", "name": "data"}});
    assert_eq!(plan(reserved, "Pending", None), VolumeStep::Phase("Available"));
    let bound = claim(json!({"spec": {"volumeName": "v"}}));
    assert_eq!(plan(of("c-1"), "Available", Some(&bound)), VolumeStep::Phase("Bound"));
    assert_eq!(plan(of("c-1"), "Bound", Some(&bound)), VolumeStep::Nothing);
    assert_eq!(plan(of("c-1"), "Available", Some(&claim(json!({})))), VolumeStep::ReconcileClaim);
    // The claim is gone, or another one has its name.
    assert_eq!(plan(of("c-1"), "Bound", None), VolumeStep::Phase("Released"));
    assert_eq!(plan(of("c-0"), "Bound", Some(&bound)), VolumeStep::Phase("Released"));
    let elsewhere = claim(json!({"spec": {"volumeName": "w"}}));
    assert_eq!(plan(of("c-1"), "Available", Some(&elsewhere)), VolumeStep::Unbind { keeps_name: true });
}

#[test]
fn a_released_volume_is_reclaimed_by_its_policy() {
    let of = |policy: &str, provisioner: Option<&str>, phase: &str| {
        let reference = json!({"namespace": "shop", "name": "data", "uid": "c-1"});
        let mut more = json!({
            "spec": {"claimRef": reference, "persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase},
        });
        if let Some(provisioner) = provisioner {
            more["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = provisioner.into();
        }
        volume_plan::plan(&volume("v", "5Gi", more), None)
    };
    let local = Some(local_path::PROVISIONER);
    assert_eq!(of("Retain", local, "Released"), VolumeStep::Nothing);
    assert_eq!(of("Delete", local, "Bound"), VolumeStep::Phase("Released"));
    assert_eq!(of("Delete", local, "Released"), VolumeStep::DeleteLocal);
    assert_eq!(of("Delete", local, "Failed"), VolumeStep::DeleteLocal);
    assert_eq!(of("Delete", Some("example.com/disk"), "Released"), VolumeStep::Nothing);
    assert!(
        matches!(of("Delete", None, "Released"), VolumeStep::Fail(notice) if notice.reason == "VolumeFailedDelete")
    );
    assert!(
        matches!(of("Recycle", None, "Released"), VolumeStep::Fail(notice) if notice.reason == "VolumeFailedRecycle")
    );
    assert_eq!(of("Delete", None, "Failed"), VolumeStep::Nothing);
}

/// A Node as the informers have it.
fn node(annotations: &Value) -> Object {
    let node = json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host-1"}, "annotations": annotations}});
    Object::decode("nodes", node.as_object().unwrap()).unwrap()
}

#[test]
fn a_local_path_volume_is_tied_to_its_node_and_claim() {
    let local = class(json!({"provisioner": local_path::PROVISIONER, "reclaimPolicy": "Retain"}));
    let made =
        local_path::volume(&claim(json!({})), &local, &node(&json!({local_path::DIRECTORY: "/data/"})))
            .unwrap();
    assert_eq!(made["metadata"]["name"], "pvc-c-1");
    assert_eq!(made["spec"]["local"]["path"], "/data/pvc-c-1");
    assert_eq!(made["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    let json = made.as_object().unwrap();
    assert_eq!(local_path::node_of(json), Some("n1"));
    let made: PersistentVolume = serde_json::from_value(made.clone()).unwrap();
    assert!(made.is_claimed_by(&claim(json!({}))) && made.mismatch(&claim(json!({}))).is_none());
    let affinity = made.spec.node_affinity.unwrap().required.unwrap();
    assert!(affinity.node_selector_terms[0].match_expressions[0].matches(&node(&json!({})).labels));
    let why = local_path::volume(&claim(json!({})), &local, &node(&json!({}))).unwrap_err();
    assert!(why.starts_with("the node \"n1\" has no directory"), "{why}");
}

#[test]
fn a_deleted_local_path_volume_goes_without_its_data_if_the_policy_keeps_it_or_it_has_no_claim() {
    let provisioned = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"pv.kubernetes.io/provisioned-by": local_path::PROVISIONER}}});
    let of = |policy: &str, has_claim: bool| {
        let mut spec = json!({"persistentVolumeReclaimPolicy": policy});
        if has_claim {
            spec["claimRef"] = json!({"namespace": "shop", "name": "data", "uid": "c-0"});
        }
        let more = merged(provisioned.clone(), json!({"spec": spec, "status": {"phase": "Released"}}));
        volume_plan::plan(&volume("v", "5Gi", more), None)
    };
    assert_eq!(of("Retain", true), VolumeStep::Abandon);
    assert_eq!(of("Delete", false), VolumeStep::Abandon);
    assert_eq!(of("Delete", true), VolumeStep::DeleteLocal);
}

#[test]
fn the_path_of_the_data_encodes_the_name_of_the_node() {
    assert_eq!(local_path::data_path("n1?/x", "pvc-1"), "/api/v1/nodes/n1%3F%2Fx/proxy/localVolumes/pvc-1");
}
