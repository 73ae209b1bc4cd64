//! The status of a CustomResourceDefinition: accepted names, conditions and stored versions.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::names::{Names, UsedNames};
use crate::strategy::Json;

/// The condition which says that the resource is served.
const ESTABLISHED: &str = "Established";
const NAMES_ACCEPTED: &str = "NamesAccepted";
const TERMINATING: &str = "Terminating";

/// Calculates the status of a definition, given the names that others use.
pub fn calculated_status(definition: &Json, taken: &UsedNames, now: Timestamp) -> Value {
    let at = |room: &str, field: &str| definition.get(room).and_then(|room| room.get(field));
    let wanted = Names::read(at("spec", "names"));
    let (names, conflict) = wanted.accept(&Names::read(at("status", "acceptedNames")), taken);
    let mut status = old(definition);
    match &conflict {
        None => {
            set(&mut status, NAMES_ACCEPTED, true, ("NoConflicts", "no conflicts found"), now);
            let reason_and_message = ("InitialNamesAccepted", "the initial names have been accepted");
            set(&mut status, ESTABLISHED, true, reason_and_message, now);
        }
        Some(conflict) => {
            set(&mut status, NAMES_ACCEPTED, false, (conflict.reason, &conflict.message), now);
            // An established definition stays established under its old names, unless they belong to a built-in kind.
            if conflict.is_final || !has(definition, ESTABLISHED) {
                set(&mut status, ESTABLISHED, false, ("NotAccepted", "not all names are accepted"), now);
            }
        }
    }
    status["acceptedNames"] = names.to_json();
    status["storedVersions"] = stored_versions(definition, &status).into();
    status
}

/// The initial status of a new definition, without accepted names.
pub(super) fn first(definition: &Json) -> Value {
    let stored = stored_versions(definition, &Value::Null);
    json!({"acceptedNames": Names::default().to_json(), "storedVersions": stored})
}

/// All versions in which objects may be stored: `status.storedVersions` and the storage version.
fn stored_versions(definition: &Json, status: &Value) -> Vec<Value> {
    let mut stored: Vec<Value> =
        status.get("storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    let versions = definition.get("spec").and_then(|spec| spec.get("versions")?.as_array());
    let storage =
        versions.into_iter().flatten().filter(|version| version.get("storage").is_some_and(|is| is == true));
    for name in storage.filter_map(|version| version.get("name")) {
        if !stored.contains(name) {
            stored.push(name.clone());
        }
    }
    stored
}

/// The status of a definition whose custom resources are being deleted.
pub fn terminating_status(definition: &Json, now: Timestamp) -> Value {
    let mut status = old(definition);
    let reason_and_message = ("InstanceDeletionInProgress", "CustomResource deletion is in progress");
    set(&mut status, TERMINATING, true, reason_and_message, now);
    status
}

/// Returns the definition with another status.
pub fn with_status(definition: &Json, status: Value) -> Json {
    let mut definition = definition.clone();
    definition.insert("status".to_owned(), status);
    definition
}

/// True if the definition is established, so that its resource is served.
pub fn is_established(definition: &Json) -> bool {
    has(definition, ESTABLISHED)
}

/// True if all names are accepted.
pub fn has_all_names(definition: &Json) -> bool {
    has(definition, NAMES_ACCEPTED)
}

/// True if the definition has a deletion timestamp.
pub fn is_terminating(definition: &Json) -> bool {
    let metadata = definition.get("metadata");
    metadata.and_then(|metadata| metadata.get("deletionTimestamp")).is_some_and(|time| !time.is_null())
}

fn old(definition: &Json) -> Value {
    definition.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}))
}

fn has(definition: &Json, condition: &str) -> bool {
    let conditions = definition.get("status").and_then(|status| status.get("conditions")?.as_array());
    conditions.into_iter().flatten().any(|has| has["type"] == condition && has["status"] == "True")
}

/// Sets a condition. The transition time changes only if the status of the condition changes.
fn set(status: &mut Value, condition: &str, is: bool, (reason, message): (&str, &str), now: Timestamp) {
    let word = if is { "True" } else { "False" };
    let mut all = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let at = all.iter().position(|has| has["type"] == condition);
    let since = at
        .filter(|at| all[*at]["status"] == word)
        .and_then(|at| all[at].get("lastTransitionTime").cloned())
        .unwrap_or_else(|| crate::time::seconds(now).into());
    let new = json!({
        "lastTransitionTime": since, "message": message, "reason": reason, "status": word, "type": condition,
    });
    match at {
        Some(at) => all[at] = new,
        None => all.push(new),
    }
    status["conditions"] = all.into();
}
