//! What a server says of a definition: which names it has, whether its objects can be written, how it is stored.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::names::{Names, Taken};
use crate::strategy::Json;

/// The condition that says that objects can be written.
const ESTABLISHED: &str = "Established";
const NAMES_ACCEPTED: &str = "NamesAccepted";
const TERMINATING: &str = "Terminating";

/// The status a definition comes to have while others hold the names that are `taken`.
pub fn settled(definition: &Json, taken: &Taken, now: Timestamp) -> Value {
    let at = |room: &str, field: &str| definition.get(room).and_then(|room| room.get(field));
    let wanted = Names::read(at("spec", "names"));
    let (names, conflict) = wanted.accept(&Names::read(at("status", "acceptedNames")), taken);
    let mut status = old(definition);
    match &conflict {
        None => {
            set(&mut status, NAMES_ACCEPTED, true, ("NoConflicts", "no conflicts found"), now);
            let said = ("InitialNamesAccepted", "the initial names have been accepted");
            set(&mut status, ESTABLISHED, true, said, now);
        }
        Some(conflict) => {
            set(&mut status, NAMES_ACCEPTED, false, (conflict.reason, &conflict.message), now);
            // Whoever was established goes on under the old names, unless those never were for a definition.
            if conflict.is_final || !has(definition, ESTABLISHED) {
                set(&mut status, ESTABLISHED, false, ("NotAccepted", "not all names are accepted"), now);
            }
        }
    }
    status["acceptedNames"] = names.to_json();
    status["storedVersions"] = stored_versions(definition, &status).into();
    status
}

/// The status of a new definition, before it is looked at: it has no name yet.
pub(super) fn first(definition: &Json) -> Value {
    let stored = stored_versions(definition, &Value::Null);
    json!({"acceptedNames": Names::default().to_json(), "storedVersions": stored})
}

/// The versions in which objects were ever stored: those the status has, and the one that is stored now.
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

/// The status of a definition whose objects are being deleted.
pub fn terminating(definition: &Json, now: Timestamp) -> Value {
    let mut status = old(definition);
    let said = ("InstanceDeletionInProgress", "CustomResource deletion is in progress");
    set(&mut status, TERMINATING, true, said, now);
    status
}

/// The definition with another status.
pub fn with_status(definition: &Json, status: Value) -> Json {
    let mut definition = definition.clone();
    definition.insert("status".to_owned(), status);
    definition
}

/// True when objects can be written.
pub fn is_established(definition: &Json) -> bool {
    has(definition, ESTABLISHED)
}

/// True when the definition has every name it asks for.
pub fn has_all_names(definition: &Json) -> bool {
    has(definition, NAMES_ACCEPTED)
}

/// True when the definition is being deleted.
pub fn is_doomed(definition: &Json) -> bool {
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

/// Sets a condition; its time is that of the last change of what it says.
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
