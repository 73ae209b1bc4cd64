//! Object metadata that the server sets: UID, timestamps, generation, names.

use api::equal::{beside, equal};
use api::strategy::{Cause, Part};
use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::resource::{Resource, UpdateFields};
use crate::status::Status;

/// Random values and the current time, passed as arguments.
#[derive(Clone, Debug)]
pub(super) struct Generated {
    /// `metadata.uid`.
    pub uid: String,
    /// Suffix for `metadata.generateName`.
    pub suffix: String,
    /// Current time.
    pub now: Timestamp,
}

/// Maximum length of a `generateName` prefix, as in kube-apiserver.
const GENERATE_NAME_MAX: usize = 58;

/// The metadata, created if absent.
pub(super) fn metadata(object: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was made an object two lines above")
}

/// Returns a string of the metadata; empty if it is absent.
pub(super) fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    let metadata = object.get("metadata").and_then(Value::as_object);
    metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Sets the metadata of an object to be created.
///
/// # Errors
/// 400 or 422 for invalid metadata.
pub(super) fn created(
    resource: &Resource,
    object: &mut Map<String, Value>,
    namespace: Option<&str>,
    fresh: &Generated,
) -> Result<(), Status> {
    if resource.has_status() && !resource.keeps_initial_status {
        object.remove("status");
    }
    let metadata = metadata(object);
    if metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    set_namespace(resource, metadata, namespace)?;
    let own = |metadata: &Map<String, Value>, field: &str| {
        metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if own(metadata, "name").is_empty() {
        let mut name = own(metadata, "generateName");
        if name.is_empty() {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            return Err(Status::invalid(resource, "", &[cause]));
        }
        name.truncate(name.floor_char_boundary(GENERATE_NAME_MAX));
        metadata.insert("name".to_owned(), (name + &fresh.suffix).into());
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), fresh.uid.clone().into());
    metadata.insert("creationTimestamp".to_owned(), seconds(fresh.now).into());
    metadata.remove("generation");
    // The generation counts spec changes of objects with a status.
    if resource.has_status() {
        metadata.insert("generation".to_owned(), 1.into());
    }
    Ok(())
}

/// Copies the UID and the creation timestamp from the placeholder.
pub(super) fn inherit_identity(object: &mut Map<String, Value>, there: &Map<String, Value>) {
    for field in ["uid", "creationTimestamp"] {
        metadata(object).insert(field.to_owned(), text(there, field).into());
    }
}

/// Prepares an object that an update creates.
///
/// # Errors
/// 400 for another name. 409 if the object has a UID, because that object no longer exists.
pub(super) fn created_by_update(
    resource: &Resource,
    object: &mut Map<String, Value>,
    name: &str,
) -> Result<(), Status> {
    check_given_name(object, name)?;
    let uid = text(object, "uid");
    if !uid.is_empty() {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        return Err(Status::conflict(resource, name, &why));
    }
    // As in kube-apiserver, the revision of the deleted object is ignored.
    metadata(object).remove("resourceVersion");
    Ok(())
}

/// Rejects a name that differs from the name in the path.
pub(super) fn check_given_name(object: &Map<String, Value>, name: &str) -> Result<(), Status> {
    match text(object, "name") {
        given if given == name => Ok(()),
        given => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Sets the namespace, or checks the one in the object.
fn set_namespace(
    resource: &Resource,
    metadata: &mut Map<String, Value>,
    namespace: Option<&str>,
) -> Result<(), Status> {
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    match namespace {
        Some(namespace) if given.is_empty() || given == namespace => {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        None if given.is_empty() => drop(metadata.remove("namespace")),
        None if resource.namespaced => {}
        Some(_) | None => {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(message));
        }
    }
    Ok(())
}

/// Prepares an update. It merges the fields that the subresource may change, and keeps the metadata that the server
/// sets.
///
/// # Errors
/// 400, 409 or 422 for a mismatch with the stored object.
pub(super) fn updated(
    resource: &Resource,
    before: &Map<String, Value>,
    mut object: Map<String, Value>,
    part: &Part<'_>,
    update_fields: Option<UpdateFields>,
) -> Result<Map<String, Value>, Status> {
    let name = text(before, "name").to_owned();
    check_given_name(&object, &name)?;
    let namespace = text(before, "namespace").to_owned();
    set_namespace(
        resource,
        metadata(&mut object),
        Some(namespace.as_str()).filter(|namespace| !namespace.is_empty()),
    )?;
    let uid = text(&object, "uid");
    if !uid.is_empty() && uid != text(before, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(before, "uid")
        );
        return Err(Status::conflict(resource, &name, &why));
    }
    let version = text(&object, "resourceVersion");
    if !version.is_empty() && version != text(before, "resourceVersion") {
        return Err(Status::changed(resource, &name));
    }
    let managed = metadata(&mut object).remove("managedFields");
    let mut object = match part {
        Part::Main => object,
        Part::Status => of_status(resource, before, object),
        Part::Sub(_) => match update_fields {
            Some(update_fields) => update_fields(before, object),
            // Built by the server.
            None => object,
        },
    };
    if let Some(managed) = managed {
        metadata(&mut object).insert("managedFields".to_owned(), managed);
    }
    if *part == Part::Main {
        keep_server_metadata(before, &mut object);
        if resource.has_status() {
            object = with(object, "status", before.get("status").cloned());
        }
    }
    Ok(object)
}

/// Metadata that clients may change.
const CLIENT_METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];
/// Kinds whose status updates change no metadata (`ResetObjectMetaForStatus` of the stock strategies).
const STATUS_WITHOUT_METADATA: &[&str] = &[
    "APIService",
    "CustomResourceDefinition",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ResourceClaim",
    "ServiceCIDR",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

/// Returns the stored object with the new status, and with the metadata that the stock strategy accepts.
fn of_status(
    resource: &Resource,
    before: &Map<String, Value>,
    mut sent: Map<String, Value>,
) -> Map<String, Value> {
    let object = with(before.clone(), "status", sent.remove("status"));
    let taken: &[&str] = match &*resource.kind {
        // Custom resources.
        _ if resource.schema.is_some() && resource.conversion.is_none() => &[],
        kind if STATUS_WITHOUT_METADATA.contains(&kind) => &[],
        "Deployment" => &["annotations", "finalizers", "ownerReferences"],
        "Pod" => &["labels", "annotations", "finalizers"],
        _ => &CLIENT_METADATA,
    };
    with_metadata(object, &sent, taken)
}

/// Copies these metadata fields from `sent`.
fn with_metadata(
    mut object: Map<String, Value>,
    sent: &Map<String, Value>,
    fields: &[&str],
) -> Map<String, Value> {
    let sent = sent.get("metadata").and_then(Value::as_object);
    let metadata = metadata(&mut object);
    for field in fields {
        let value = sent.and_then(|sent| sent.get(*field)).cloned();
        *metadata = with(std::mem::take(metadata), field, value);
    }
    object
}

/// Copies all client metadata from `sent`.
pub(super) fn with_client_metadata(
    object: Map<String, Value>,
    sent: &Map<String, Value>,
) -> Map<String, Value> {
    with_metadata(object, sent, &CLIENT_METADATA)
}

/// Sets or removes a field.
fn with(mut object: Map<String, Value>, field: &str, value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(value) => drop(object.insert(field.to_owned(), value)),
        None => drop(object.remove(field)),
    }
    object
}

/// Increments the generation if the spec changed.
pub(super) fn count_generation(
    resource: &Resource,
    before: &Map<String, Value>,
    object: &mut Map<String, Value>,
) {
    if resource.has_status() && is_new_generation(before, object) {
        let metadata = metadata(object);
        let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Restores the metadata that the server sets.
fn keep_server_metadata(before: &Map<String, Value>, object: &mut Map<String, Value>) {
    let nothing = Map::new();
    let old = before.get("metadata").and_then(Value::as_object).unwrap_or(&nothing);
    let metadata = metadata(object);
    for field in [
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        match old.get(field) {
            Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
    metadata.insert("resourceVersion".to_owned(), text(before, "resourceVersion").into());
}

/// True if fields other than metadata and status differ.
fn is_new_generation(before: &Map<String, Value>, object: &Map<String, Value>) -> bool {
    let is_spec_field = |field: &str| !matches!(field, "metadata" | "status");
    let spec_fields =
        |object: &Map<String, Value>| object.keys().filter(|field| is_spec_field(field)).count();
    let is_new = |(field, old, new): (&String, &Value, Option<&Value>)| {
        is_spec_field(field) && !new.is_some_and(|new| equal(old, new))
    };
    spec_fields(before) != spec_fields(object) || beside(before, object).any(is_new)
}

/// Marks an object as terminating. This increments the generation, as in kube-apiserver.
pub(crate) fn mark_deleted(object: &mut Map<String, Value>, grace_seconds: i64, now: Timestamp) {
    let metadata = metadata(object);
    if !metadata.contains_key("deletionTimestamp") {
        end(metadata, now, grace_seconds);
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".to_owned(), (generation + 1).into());
        }
    }
}

/// Shortens the grace period of a terminating object. A longer grace period has no effect.
pub(super) fn shorten_grace(object: &mut Map<String, Value>, grace_seconds: i64) {
    let metadata = metadata(object);
    let grace = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    let ends = metadata.get("deletionTimestamp").and_then(Value::as_str).and_then(|ends| ends.parse().ok());
    if let (Some(grace), Some(ends)) = (grace, ends)
        && grace_seconds < grace
    {
        let began = Timestamp::checked_sub(ends, jiff::SignedDuration::from_secs(grace)).unwrap_or(ends);
        end(metadata, began, grace_seconds);
    }
}

/// Sets the deletion timestamp and the grace period.
fn end(metadata: &mut Map<String, Value>, began: Timestamp, grace_seconds: i64) {
    let ends = began.checked_add(jiff::SignedDuration::from_secs(grace_seconds)).unwrap_or(Timestamp::MAX);
    metadata.insert("deletionTimestamp".to_owned(), seconds(ends).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace_seconds.into());
}

/// Sets a condition of the status. Its transition time changes only with its status.
pub(super) fn put_condition(object: &mut Map<String, Value>, condition: &Value) {
    let status = object.entry("status").or_insert_with(|| Value::Object(Map::new()));
    let Some(status) = status.as_object_mut() else { return };
    let all = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let Some(all) = all.as_array_mut() else { return };
    let mut condition = condition.clone();
    match all.iter_mut().find(|one| one.get("type") == condition.get("type")) {
        Some(found) => {
            if found.get("status") == condition.get("status")
                && let (Some(time), Some(to)) = (found.get("lastTransitionTime"), condition.as_object_mut())
            {
                to.insert("lastTransitionTime".to_owned(), time.clone());
            }
            *found = condition;
        }
        None => all.push(condition),
    }
}

/// Returns `metadata.finalizers`.
pub(super) fn finalizers(object: &Map<String, Value>) -> Vec<&str> {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let list = metadata.and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// True if the object is terminating.
pub(super) fn is_terminating(object: &Map<String, Value>) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}
