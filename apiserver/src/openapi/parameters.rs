//! Query parameters of each operation.

use serde_json::{Value, json};

use super::schema::Dialect;

/// A query parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    name: &'static str,
    of_type: &'static str,
    description: &'static str,
}

const fn text(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, of_type: "string", description }
}

const fn flag(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, of_type: "boolean", description }
}

const fn number(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, of_type: "integer", description }
}

const DRY_RUN: Parameter = text("dryRun", "\"All\": validate the request without storing it.");
const FIELD_MANAGER: Parameter =
    text("fieldManager", "Field manager that owns the fields set by this request.");
const FIELD_VALIDATION: Parameter = text(
    "fieldValidation",
    "What happens to unknown and duplicate fields: \"Strict\" refuses them, \"Warn\" warns and drops them, \"Ignore\" drops them.",
);
const FORCE: Parameter = flag("force", "Only for apply patches: take over fields that other managers own.");
const LABEL_SELECTOR: Parameter = text("labelSelector", "Label selector of the objects.");
const FIELD_SELECTOR: Parameter = text("fieldSelector", "Field selector of the objects.");
const LIMIT: Parameter =
    number("limit", "Maximum number of objects in a response; its metadata.continue requests the next page.");
const CONTINUE: Parameter = text("continue", "Continue token of the previous response.");
const RESOURCE_VERSION: Parameter =
    text("resourceVersion", "Minimum revision of the response, or start revision of a watch.");
const RESOURCE_VERSION_MATCH: Parameter =
    text("resourceVersionMatch", "What resourceVersion means: \"Exact\" or \"NotOlderThan\".");
const TIMEOUT_SECONDS: Parameter = number("timeoutSeconds", "Timeout of a watch in seconds.");
const WATCH: Parameter = flag("watch", "Watch: send changes as a stream of events.");
const ALLOW_WATCH_BOOKMARKS: Parameter =
    flag("allowWatchBookmarks", "A watch may send events of type BOOKMARK, which report its progress.");
const SEND_INITIAL_EVENTS: Parameter =
    flag("sendInitialEvents", "A watch starts with all current objects, followed by a bookmark.");
const GRACE_PERIOD_SECONDS: Parameter =
    number("gracePeriodSeconds", "Grace period in seconds; 0 deletes the object immediately.");
const PROPAGATION_POLICY: Parameter = text(
    "propagationPolicy",
    "What happens to dependents of the object: \"Orphan\", \"Background\" or \"Foreground\".",
);
const ORPHAN_DEPENDENTS: Parameter =
    flag("orphanDependents", "Deprecated, use propagationPolicy: dependents of the object are orphaned.");

const CONTAINER: Parameter =
    text("container", "Container name; optional if the pod has one container or a default container.");
const COMMAND: Parameter =
    text("command", "The command and its arguments, one parameter each. No shell is started.");
const STDIN: Parameter = flag("stdin", "Sends standard input to the process.");
const STDOUT: Parameter = flag("stdout", "Returns the standard output of the process.");
const STDERR: Parameter = flag("stderr", "Returns the standard error of the process.");
const TTY: Parameter = flag("tty", "Allocates a terminal for the process.");

/// Parameters of attach.
pub(super) const ATTACH: &[Parameter] = &[CONTAINER, STDERR, STDIN, STDOUT, TTY];
/// Parameters of exec.
pub(super) const EXEC: &[Parameter] = &[COMMAND, CONTAINER, STDERR, STDIN, STDOUT, TTY];
/// Parameters of log.
pub(super) const LOG: &[Parameter] = &[
    CONTAINER,
    flag("follow", "Follows the log and returns new lines as the container writes them."),
    flag("insecureSkipTLSVerifyBackend", "Does not verify the serving certificate of the node."),
    number("limitBytes", "Maximum number of bytes of the response."),
    flag("previous", "Returns the log of the previous container."),
    number("sinceSeconds", "Returns only lines that are newer than this number of seconds."),
    text("sinceTime", "Returns only lines written after this time."),
    text("stream", "Returns only lines of this stream: \"All\", \"Stdout\" or \"Stderr\"."),
    number("tailLines", "Maximum number of lines, counted from the end of the log."),
    flag("timestamps", "Prefixes each line with its time."),
];
/// Parameters of portforward.
pub(super) const PORT_FORWARD: &[Parameter] =
    &[number("ports", "Ports to forward, if the protocol sends them in the query.")];
/// Parameters of proxy.
pub(super) const PROXY: &[Parameter] = &[text("path", "The path of the request behind the proxy.")];

/// Parameters of list and watch.
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
/// Parameters of create and update.
pub(super) const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
/// Parameters of patch.
pub(super) const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
/// Parameters of delete.
pub(super) const DELETE: &[Parameter] =
    &[DRY_RUN, GRACE_PERIOD_SECONDS, ORPHAN_DEPENDENTS, PROPAGATION_POLICY];
/// Parameters of deletecollection.
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
    /// The JSON of the parameter.
    pub(super) fn document(self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::V2 => json!({
                "description": self.description,
                "in": "query",
                "name": self.name,
                "type": self.of_type,
                "uniqueItems": true,
            }),
            Dialect::V3 => json!({
                "description": self.description,
                "in": "query",
                "name": self.name,
                "schema": {"type": self.of_type, "uniqueItems": true},
            }),
        }
    }
}

/// The JSON of a path parameter.
pub(super) fn of_path(name: &str, description: &str, dialect: Dialect) -> Value {
    let mut parameter = json!({"description": description, "in": "path", "name": name, "required": true});
    match dialect {
        Dialect::V2 => parameter["type"] = "string".into(),
        Dialect::V3 => parameter["schema"] = json!({"type": "string"}),
    }
    parameter
}
