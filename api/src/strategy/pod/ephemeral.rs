//! The subresource `pods/ephemeralcontainers`: ephemeral containers can be added, but not changed or removed.

use serde_json::Value;

use super::check_whole;
use crate::dotted::{at, fields_at, set};
use crate::field_error::FieldError;
use crate::path::{OwnedStep, PathBuf};
use crate::strategy::Json;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::template;
use crate::validate;

const LIST: &str = "spec.ephemeralContainers";
/// Fields that an ephemeral container cannot have.
const NOT_FOR_EPHEMERAL: [&str; 7] =
    ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources", "resizePolicy"];

/// Takes over only the ephemeral containers of the request.
pub(super) fn prepare(pod: &mut Json, before: &Json) {
    let list = at(pod, LIST).cloned();
    for part in ["spec", "status"] {
        set(pod, part, before.get(part).cloned());
    }
    set(pod, LIST, list);
    template::default_pod(pod);
}

/// Validates new ephemeral containers, and rejects changes of existing ones.
pub(super) fn check(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    check_whole(new, causes);
    check_each(new, causes);
    let list = &new.at(LIST);
    for was in old.at(LIST).items() {
        let name = was.at("name").text();
        match list.items().find(|now| now.at("name").text() == name) {
            None => causes
                .forbidden(list, &format!("existing ephemeral containers \"{name}\" may not be removed")),
            Some(now) if now.value() != was.value() => {
                let why = format!("existing ephemeral containers \"{name}\" may not be changed");
                causes.forbidden(list, &why);
            }
            Some(_) => {}
        }
    }
}

fn check_each(pod: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = &pod.at("spec");
    for container in spec.at("ephemeralContainers").items() {
        for field in NOT_FOR_EPHEMERAL {
            let given = container.at(field);
            // Clients write `resources: {}` for no resources.
            let is_none = field == "resources" && given.fields().is_some_and(Json::is_empty);
            if !given.is_absent() && !is_none {
                causes.forbidden(&given, "cannot be set for an Ephemeral Container");
            }
        }
        let target = container.at("targetContainerName");
        let is_there = ["containers", "initContainers"]
            .iter()
            .any(|list| spec.at(list).items().any(|other| other.at("name").text() == target.text()));
        if !target.text().is_empty() && !is_there {
            causes.push(crate::strategy::Cause {
                field: target.path(),
                reason: crate::strategy::Reason::NotFound,
                message: format!("Not found: \"{}\"", target.text()),
            });
        }
    }
    as_containers(pod, causes);
}

/// Runs the checks of ordinary containers for ephemeral containers.
fn as_containers(pod: &FieldValue<'_, '_>, causes: &mut Causes) {
    let Some(whole) = pod.fields() else { return };
    let mut copy = whole.clone();
    let added = match at(&copy, LIST).cloned() {
        Some(Value::Array(list)) => list,
        _ => return,
    };
    let Some(spec) = fields_at(&mut copy, "spec") else { return };
    let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) else { return };
    let first = containers.len();
    for mut container in added {
        if let Some(fields) = container.as_object_mut() {
            fields.remove("targetContainerName");
        }
        containers.push(container);
    }
    let Ok(typed) = template::typed(&FieldValue::root(&copy)) else { return };
    for error in validate::pod_spec(&typed) {
        let Some(path) = moved(&error.path, first) else { continue };
        causes.push(crate::strategy::from_field_error::cause(&FieldError { path, ..error }, whole));
    }
}

/// Translates the path of an error to the ephemeral container. For the check, ephemeral containers were appended to
/// the containers.
fn moved(path: &PathBuf, first: usize) -> Option<PathBuf> {
    match path.steps() {
        [spec, OwnedStep::Field(list), OwnedStep::Index(at), rest @ ..]
            if list == "containers" && *at >= first =>
        {
            let here = [
                spec.clone(),
                OwnedStep::Field("ephemeralContainers".to_owned()),
                OwnedStep::Index(at - first),
            ];
            Some(PathBuf(here.into_iter().chain(rest.iter().cloned()).collect()))
        }
        _ => None,
    }
}
