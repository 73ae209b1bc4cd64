//! Events: what happened, to what; nothing that is rewritten later.

use super::causes::Causes;
use super::place::Place;
use super::rules::{NONE, Rules};

/// Event of the core group, as it always was.
pub(super) static CORE: Rules = Rules { check: check_core, ..NONE };

/// Event of events.k8s.io, which says who reports and what was done.
pub(super) static NEW: Rules = Rules {
    check: check_new,
    create: create_new,
    frozen: &[
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
    ..NONE
};

const WORD_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// Events lie in the namespace of what they tell of; of what lies in none, in `default` or `kube-system`.
fn check_core(event: &Place<'_, '_>, causes: &mut Causes) {
    let (place, about) = (event.at("metadata.namespace").text(), event.at("involvedObject.namespace"));
    let fits = match about.text() {
        "" => matches!(place, "" | "default" | "kube-system"),
        namespace => namespace == place,
    };
    if !fits {
        causes.invalid(&about, "does not match event.namespace");
    }
}

/// What the newer fields say is not said by the older ones as well.
fn create_new(event: &Place<'_, '_>, causes: &mut Causes) {
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

fn check_new(event: &Place<'_, '_>, causes: &mut Causes) {
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
