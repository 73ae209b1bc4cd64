//! What the server decides about an object's metadata, whatever its kind.

use api::equal::{beside, equal};
use api::strategy::{Cause, Part};
use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::resource::{Pick, Resource};
use crate::status::Status;

/// What is random or of the moment, so that the rest can be told from its arguments.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    /// `metadata.uid`.
    pub uid: String,
    /// What is put after `metadata.generateName`.
    pub suffix: String,
    /// Now.
    pub now: Timestamp,
}

/// How long a name may be that a suffix is put after; the stock server's.
const GENERATE_NAME_MAX: usize = 58;

/// The metadata of an object, made if it has none.
pub(super) fn metadata(object: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was made an object two lines above")
}

/// A text of the metadata, empty when it is not there.
pub(super) fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    let metadata = object.get("metadata").and_then(Value::as_object);
    metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Prepares an object to be created in a namespace.
///
/// # Errors
/// 400 or 422 for what a client may not decide, or has to.
pub(super) fn created(
    resource: &Resource,
    object: &mut Map<String, Value>,
    namespace: Option<&str>,
    fresh: &Fresh,
) -> Result<(), Status> {
    if resource.has_status() && !resource.made_with_status {
        object.remove("status");
    }
    let metadata = metadata(object);
    if metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    place(resource, metadata, namespace)?;
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
    // Objects with a status have a generation that counts what was asked of them.
    if resource.has_status() {
        metadata.insert("generation".to_owned(), 1.into());
    }
    Ok(())
}

/// Makes a new object the same that has kept its place.
pub(super) fn goes_on(object: &mut Map<String, Value>, there: &Map<String, Value>) {
    for field in ["uid", "creationTimestamp"] {
        metadata(object).insert(field.to_owned(), text(there, field).into());
    }
}

/// Prepares an object to be created by an update of that name.
///
/// # Errors
/// 400 for another name, 409 for an identity: what it was told of has gone meanwhile.
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
    // As with the stock server: the revision of what has gone says nothing of what is made.
    metadata(object).remove("resourceVersion");
    Ok(())
}

/// Refuses an object of another name than the path has.
pub(super) fn check_given_name(object: &Map<String, Value>, name: &str) -> Result<(), Status> {
    match text(object, "name") {
        given if given == name => Ok(()),
        given => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Sees to it that the object names the namespace it is written to.
fn place(
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

/// Prepares an object to be written over the one that is there.
///
/// # Errors
/// 400, 409 or 422 for what does not fit the one that is there.
pub(super) fn updated(
    resource: &Resource,
    before: &Map<String, Value>,
    mut object: Map<String, Value>,
    part: &Part<'_>,
    pick: Option<Pick>,
) -> Result<Map<String, Value>, Status> {
    let name = text(before, "name").to_owned();
    check_given_name(&object, &name)?;
    let namespace = text(before, "namespace").to_owned();
    place(
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
        Part::Sub(_) => match pick {
            Some(pick) => pick(before, object),
            // The server itself has made it.
            None => object,
        },
    };
    if let Some(managed) = managed {
        metadata(&mut object).insert("managedFields".to_owned(), managed);
    }
    if *part == Part::Main {
        keep(before, &mut object);
        if resource.has_status() {
            object = with(object, "status", before.get("status").cloned());
        }
    }
    Ok(object)
}

/// Kinds whose status takes no annotations along; those of users are others.
const BARE_STATUS: &[&str] = &[
    "CustomResourceDefinition",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

/// The object with the status that was sent, and its annotations: controllers note with a status what it was made of.
fn of_status(
    resource: &Resource,
    before: &Map<String, Value>,
    mut sent: Map<String, Value>,
) -> Map<String, Value> {
    let annotations = metadata(&mut sent).remove("annotations");
    let mut object = with(before.clone(), "status", sent.remove("status"));
    if resource.schema.is_none() && !BARE_STATUS.contains(&&*resource.kind) {
        let kept = with(std::mem::take(metadata(&mut object)), "annotations", annotations);
        *metadata(&mut object) = kept;
    }
    object
}

/// The object with that field, or without it.
fn with(mut object: Map<String, Value>, field: &str, value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(value) => drop(object.insert(field.to_owned(), value)),
        None => drop(object.remove(field)),
    }
    object
}

/// Counts what was asked of an object with a status: anything but metadata and status.
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

/// Keeps what no client may change.
fn keep(before: &Map<String, Value>, object: &mut Map<String, Value>) {
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

/// True when anything but metadata and status differs.
fn is_new_generation(before: &Map<String, Value>, object: &Map<String, Value>) -> bool {
    let is_asked = |field: &str| !matches!(field, "metadata" | "status");
    let asked = |object: &Map<String, Value>| object.keys().filter(|field| is_asked(field)).count();
    let is_new = |(field, old, new): (&String, &Value, Option<&Value>)| {
        is_asked(field) && !new.is_some_and(|new| equal(old, new))
    };
    asked(before) != asked(object) || beside(before, object).any(is_new)
}

/// Marks an object as one that is being deleted, as it waits for its finalizers or its grace to end. That counts as asking something
/// of it, as it does on a stock server.
pub(crate) fn doomed(object: &mut Map<String, Value>, grace_seconds: i64, now: Timestamp) {
    let metadata = metadata(object);
    if !metadata.contains_key("deletionTimestamp") {
        end(metadata, now, grace_seconds);
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".to_owned(), (generation + 1).into());
        }
    }
}

/// Shortens the grace of an object that is being deleted; a longer one changes nothing.
pub(super) fn hurry(object: &mut Map<String, Value>, grace_seconds: i64) {
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

/// Notes when an object is to be gone whose deletion began then.
fn end(metadata: &mut Map<String, Value>, began: Timestamp, grace_seconds: i64) {
    let ends = began.checked_add(jiff::SignedDuration::from_secs(grace_seconds)).unwrap_or(Timestamp::MAX);
    metadata.insert("deletionTimestamp".to_owned(), seconds(ends).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace_seconds.into());
}

/// Puts a condition into the status of an object, in place of the one of its type, whose time stays when it says the same.
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

/// The names of what has to be done before the object goes.
pub(super) fn finalizers(object: &Map<String, Value>) -> Vec<&str> {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let list = metadata.and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// True when the object is being deleted.
pub(super) fn is_doomed(object: &Map<String, Value>) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}
