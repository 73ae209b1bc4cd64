//! The writes of the PV controller. Each takes an object as it was read, so that a change in between is a conflict.

use client::{Client, Error, Json};
use serde_json::{Value, json};

use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, CLAIM, SELECTED_NODE, VOLUME};
use crate::objects::volume::{PersistentVolume, PersistentVolumeClaim};

/// The annotations with the provisioner of a claim, current and beta.
const STORAGE_PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// Binds a claim and a volume: reference and phase of the volume, then volume name and phase of the claim. Each step
/// is omitted if it is done, so an interrupted binding continues. Returns whether the claim became `Bound`.
pub async fn bind(
    client: &Client,
    claim: (&PersistentVolumeClaim, Json),
    volume: (&PersistentVolume, Json),
) -> Result<bool, Error> {
    let ((claim, claim_json), (volume, volume_json)) = (claim, volume);
    let mut reserved = volume_json.clone();
    reserve(&mut reserved, claim);
    let written = update_if_changed(client, &VOLUME, &volume_json, reserved).await?;
    set_phase(client, written, "Bound", None).await?;

    let mut named = claim_json.clone();
    name_volume(&mut named, claim, &volume.metadata.name);
    let written = update_if_changed(client, &CLAIM, &claim_json, named).await?;
    let mut bound = written.clone();
    let spec = volume_json.get("spec");
    let of_volume = |field: &str| spec.and_then(|spec| spec.get(field)).cloned().unwrap_or_default();
    edit(&mut bound, "status", |status| {
        status.insert("phase".to_owned(), "Bound".into());
        status.insert("accessModes".to_owned(), of_volume("accessModes"));
        status.insert("capacity".to_owned(), of_volume("capacity"));
    });
    if bound == written {
        return Ok(false);
    }
    client.update(&CLAIM, "status", bound).await?;
    Ok(&*claim.status.phase != "Bound")
}

/// Sets the phase of a claim, unless it is set.
pub async fn set_claim_phase(client: &Client, mut claim: Json, phase: &str) -> Result<(), Error> {
    let before = edit(&mut claim, "status", |status| status.insert("phase".to_owned(), phase.into()));
    if before.is_some_and(|before| before == phase) {
        return Ok(());
    }
    client.update(&CLAIM, "status", claim).await.map(drop)
}

/// Writes the provisioner of a claim into its annotations. Returns the claim.
pub async fn announce(client: &Client, claim: Json, provisioner: &str) -> Result<Json, Error> {
    let mut announced = claim.clone();
    for name in STORAGE_PROVISIONER {
        set_annotation(&mut announced, name, provisioner);
    }
    update_if_changed(client, &CLAIM, &claim, announced).await
}

/// Sets the storage class of a claim that has none.
pub async fn set_class(client: &Client, mut claim: Json, class: &str) -> Result<(), Error> {
    edit(&mut claim, "spec", |spec| spec.insert("storageClassName".to_owned(), class.into()));
    client.update(&CLAIM, "", claim).await.map(drop)
}

/// Removes the selected node of a claim, so that the scheduler chooses another one.
pub async fn reschedule(client: &Client, mut claim: Json) -> Result<(), Error> {
    remove_annotation(&mut claim, SELECTED_NODE);
    client.update(&CLAIM, "", claim).await.map(drop)
}

/// Sets the phase of a volume, with the reason of a failure.
pub async fn set_phase(
    client: &Client,
    mut volume: Json,
    phase: &str,
    why: Option<&str>,
) -> Result<(), Error> {
    let before = edit(&mut volume, "status", |status| {
        match why {
            Some(why) => drop(status.insert("message".to_owned(), why.into())),
            None => drop(status.remove("message")),
        }
        status.insert("phase".to_owned(), phase.into())
    });
    if before.is_some_and(|before| before == phase) {
        return Ok(());
    }
    client.update(&VOLUME, "status", volume).await.map(drop)
}

/// Frees a volume whose claim has another one.
pub async fn unbind(client: &Client, mut volume: Json, keeps_name: bool) -> Result<(), Error> {
    edit(&mut volume, "spec", |spec| {
        if keeps_name {
            edit(spec, "claimRef", |reference| {
                reference.remove("uid");
                reference.remove("resourceVersion");
            });
        } else {
            spec.remove("claimRef");
        }
    });
    if !keeps_name {
        remove_annotation(&mut volume, BOUND_BY_CONTROLLER);
    }
    client.update(&VOLUME, "", volume).await.map(drop)
}

/// Adds a finalizer to an object.
pub async fn add_finalizer(
    client: &Client,
    kind: &client::Kind,
    mut object: Json,
    finalizer: &str,
) -> Result<(), Error> {
    edit(&mut object, "metadata", |metadata| {
        let all = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.push(finalizer.into());
        }
    });
    client.update(kind, "", object).await.map(drop)
}

/// Removes a finalizer of an object.
pub async fn remove_finalizer(
    client: &Client,
    kind: &client::Kind,
    mut object: Json,
    finalizer: &str,
) -> Result<(), Error> {
    edit(&mut object, "metadata", |metadata| {
        if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
            finalizers.retain(|own| own != finalizer);
        }
    });
    match client.update(kind, "", object).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Completes the reference of a volume to its claim.
fn reserve(volume: &mut Json, claim: &PersistentVolumeClaim) {
    let metadata = &claim.metadata;
    let wanted = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata.namespace, "name": metadata.name,
        "uid": metadata.uid, "resourceVersion": metadata.resource_version,
    });
    let is_new = edit(volume, "spec", |spec| {
        let is_new = !spec.contains_key("claimRef");
        edit(spec, "claimRef", |reference| {
            if reference.get("uid").is_none_or(|uid| *uid != *metadata.uid) {
                reference.extend(wanted.as_object().cloned().unwrap_or_default());
            }
        });
        is_new
    });
    if is_new {
        set_annotation(volume, BOUND_BY_CONTROLLER, "yes");
    }
}

/// Writes the name of the volume into the claim.
fn name_volume(json: &mut Json, claim: &PersistentVolumeClaim, volume: &str) {
    if claim.spec.volume_name.is_empty() {
        edit(json, "spec", |spec| spec.insert("volumeName".to_owned(), volume.into()));
        set_annotation(json, BOUND_BY_CONTROLLER, "yes");
    }
    set_annotation(json, BIND_COMPLETED, "yes");
}

async fn update_if_changed(
    client: &Client,
    kind: &client::Kind,
    before: &Json,
    now: Json,
) -> Result<Json, Error> {
    if *before == now { Ok(now) } else { client.update(kind, "", now).await }
}

fn set_annotation(of: &mut Json, name: &str, value: &str) {
    edit(of, "metadata", |metadata| {
        edit(metadata, "annotations", |all| all.insert(name.to_owned(), value.into()));
    });
}

fn remove_annotation(of: &mut Json, name: &str) {
    edit(of, "metadata", |metadata| edit(metadata, "annotations", |all| drop(all.remove(name))));
}

/// Changes the object in a field. It is created if it is missing.
fn edit<T>(of: &mut Json, field: &str, change: impl FnOnce(&mut Json) -> T) -> T {
    let mut fields = match of.remove(field) {
        Some(Value::Object(fields)) => fields,
        _ => Json::new(),
    };
    let result = change(&mut fields);
    of.insert(field.to_owned(), Value::Object(fields));
    result
}
