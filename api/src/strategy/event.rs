//! The strategies of Events.

use super::causes::Causes;
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};

/// Event of the core group.
pub(super) static CORE: KindStrategy = KindStrategy { check: check_core, ..NO_OP };

/// Event of events.k8s.io.
pub(super) static NEW: KindStrategy = KindStrategy {
    check: check_new,
    create: create_new,
    immutable: &[
        "regarding",
        "related",
        "reason",
        "action",
        "note",
        "type",
        "eventTime",
        "reportingController",
        "reportingInstance",
    ],
    ..NO_OP
};

const WORD_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// Requires that an event is in the namespace of its object. The event of a cluster-scoped object is in `default`
/// or `kube-system`.
fn check_core(event: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (place, about) = (event.at("metadata.namespace").text(), event.at("involvedObject.namespace"));
    let fits = match about.text() {
        "" => matches!(place, "" | "default" | "kube-system"),
        namespace => namespace == place,
    };
    if !fits {
        causes.invalid(&about, "does not match event.namespace");
    }
}

/// Requires that the deprecated fields are not set.
fn create_new(event: &FieldValue<'_, '_>, causes: &mut Causes) {
    for field in [
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "deprecatedCount",
        "deprecatedSource.component",
        "deprecatedSource.host",
    ] {
        if !event.at(field).value().is_null() {
            causes.invalid(&event.at(field), "needs to be unset");
        }
    }
}

fn check_new(event: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (place, about) = (event.at("metadata.namespace").text(), event.at("regarding.namespace"));
    if !about.is_empty() && about.text() != place {
        causes.invalid(&about, "does not match event.namespace");
    }
    causes.required(&event.at("eventTime"), "");
    if causes.required(&event.at("reportingController"), "") {
        causes.qualified_name(&event.at("reportingController"));
    }
    for field in ["reportingInstance", "action", "reason"] {
        if causes.required(&event.at(field), "") {
            causes.no_longer(&event.at(field), WORD_MAX);
        }
    }
    causes.one_of(&event.at("type"), &["Normal", "Warning"]);
    causes.no_longer(&event.at("note"), NOTE_MAX);
}
