//! The parameters requests take, and which operation takes which.

use serde_json::{Value, json};

use super::schema::Dialect;

/// A parameter of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    name: &'static str,
    of_type: &'static str,
    said: &'static str,
}

const fn text(name: &'static str, said: &'static str) -> Parameter {
    Parameter { name, of_type: "string", said }
}

const fn flag(name: &'static str, said: &'static str) -> Parameter {
    Parameter { name, of_type: "boolean", said }
}

const fn number(name: &'static str, said: &'static str) -> Parameter {
    Parameter { name, of_type: "integer", said }
}

const DRY_RUN: Parameter = text("dryRun", "\"All\": everything is checked and nothing is stored.");
const FIELD_MANAGER: Parameter =
    text("fieldManager", "The name under which the fields that this request sets are owned.");
const FIELD_VALIDATION: Parameter = text(
    "fieldValidation",
    "What happens to unknown and duplicate fields: \"Strict\" refuses them, \"Warn\" warns and drops them, \"Ignore\" drops them.",
);
const FORCE: Parameter =
    flag("force", "Only for apply patches: take over fields that are owned by someone else.");
const LABEL_SELECTOR: Parameter = text("labelSelector", "Only objects with such labels.");
const FIELD_SELECTOR: Parameter = text("fieldSelector", "Only objects with such fields.");
const LIMIT: Parameter =
    number("limit", "At most so many objects in one answer; its metadata.continue asks for the rest.");
const CONTINUE: Parameter = text("continue", "The token of the answer that this one continues.");
const RESOURCE_VERSION: Parameter =
    text("resourceVersion", "How new the answer is to be, or where a watch begins.");
const RESOURCE_VERSION_MATCH: Parameter =
    text("resourceVersionMatch", "What resourceVersion means: \"Exact\" or \"NotOlderThan\".");
const TIMEOUT_SECONDS: Parameter = number("timeoutSeconds", "A watch ends after so many seconds.");
const WATCH: Parameter = flag("watch", "Send what changes, one event after the other.");
const ALLOW_WATCH_BOOKMARKS: Parameter =
    flag("allowWatchBookmarks", "A watch may send events of type BOOKMARK, which say how far it has come.");
const SEND_INITIAL_EVENTS: Parameter =
    flag("sendInitialEvents", "A watch begins with every object there is, and a bookmark after the last.");
const GRACE_PERIOD_SECONDS: Parameter =
    number("gracePeriodSeconds", "How long the object may take to end; 0 removes it at once.");
const PROPAGATION_POLICY: Parameter = text(
    "propagationPolicy",
    "What becomes of objects that the object owns: \"Orphan\", \"Background\" or \"Foreground\".",
);
const ORPHAN_DEPENDENTS: Parameter =
    flag("orphanDependents", "Deprecated, use propagationPolicy: objects that the object owns stay.");

/// Of lists and watches.
pub(super) const LIST: &[Parameter] = &[
    ALLOW_WATCH_BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    TIMEOUT_SECONDS,
    WATCH,
];
/// Of creations and updates.
pub(super) const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
/// Of patches.
pub(super) const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
/// Of the deletion of one object.
pub(super) const DELETE: &[Parameter] =
    &[DRY_RUN, GRACE_PERIOD_SECONDS, ORPHAN_DEPENDENTS, PROPAGATION_POLICY];
/// Of the deletion of many objects.
pub(super) const DELETE_COLLECTION: &[Parameter] = &[
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD_SECONDS,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN_DEPENDENTS,
    PROPAGATION_POLICY,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
];

impl Parameter {
    /// As it stands in an operation.
    pub(super) fn document(self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::V2 => json!({
                "description": self.said,
                "in": "query",
                "name": self.name,
                "type": self.of_type,
                "uniqueItems": true,
            }),
            Dialect::V3 => json!({
                "description": self.said,
                "in": "query",
                "name": self.name,
                "schema": {"type": self.of_type, "uniqueItems": true},
            }),
        }
    }
}

/// A part of a path that is a parameter.
pub(super) fn of_path(name: &str, said: &str, dialect: Dialect) -> Value {
    let mut parameter = json!({"description": said, "in": "path", "name": name, "required": true});
    match dialect {
        Dialect::V2 => parameter["type"] = "string".into(),
        Dialect::V3 => parameter["schema"] = json!({"type": "string"}),
    }
    parameter
}
