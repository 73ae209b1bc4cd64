//! ConfigMaps, Secrets and ControllerRevisions: data that may be made to last.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::Deserialize as _;
use serde_json::Value;

use super::causes::{Causes, IMMUTABLE};
use super::fill::{fields_at, fill};
use super::place::Place;
use super::rules::{NONE, Rules};
use super::{Json, found};
use crate::validate;

/// ConfigMap.
pub(super) static CONFIG_MAP: Rules = Rules {
    check: |map, causes| check_config_map(map.fields().unwrap_or(&Json::new()), causes),
    update: |new, old, causes| lasting(new, old, &["data", "binaryData"], causes),
    ..NONE
};

/// Secret.
pub(super) static SECRET: Rules = Rules {
    default: default_secret,
    check: |secret, causes| check_secret(secret.fields().unwrap_or(&Json::new()), causes),
    update: |new, old, causes| {
        // Neither is shown what was there.
        if new.at("type").value() != old.at("type").value() {
            causes.invalid(&new.at("type"), IMMUTABLE);
        }
        lasting(new, old, &["data"], causes);
    },
    ..NONE
};

/// ControllerRevision.
pub(super) static REVISION: Rules = Rules {
    check: |revision, causes| {
        if revision.at("data").is_absent() {
            causes.missing(&revision.at("data"), "data is mandatory");
        }
        causes.not_negative(&revision.at("revision"));
    },
    update: |new, old, causes| causes.unchanged(&new.at("data"), &old.at("data")),
    ..NONE
};

/// The type `Opaque`, and `stringData` encoded over `data`.
fn default_secret(secret: &mut Json) {
    fill(secret, "type", "Opaque");
    let Some(Value::Object(strings)) = secret.get("stringData").cloned() else { return };
    if !strings.values().all(Value::is_string) {
        return;
    }
    let Some(data) = fields_at(secret, "data") else { return };
    for (key, value) in strings {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
    }
    secret.remove("stringData");
}

fn check_config_map(map: &Json, causes: &mut Causes) {
    match ConfigMap::deserialize(map) {
        Ok(typed) => {
            for fault in validate::config_map_data(&typed) {
                causes.push(found::cause(&fault, map));
            }
        }
        Err(error) => causes.invalid(&Place::root(map).at("data"), &format!("cannot be read: {error}")),
    }
}

fn check_secret(secret: &Json, causes: &mut Causes) {
    match Secret::deserialize(secret) {
        Ok(typed) => {
            for fault in validate::secret_data(&typed) {
                causes.push(found::cause(&fault, secret));
            }
        }
        // The parser's words may hold what is secret.
        Err(_) => {
            causes.push(super::Cause::invalid("data", "\"<secret contents redacted>\"", "cannot be read"))
        }
    }
}

/// What was made to last stays, and stays lasting.
fn lasting(new: &Place<'_, '_>, old: &Place<'_, '_>, fields: &[&str], causes: &mut Causes) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !old.at("immutable").is_true() {
        return;
    }
    if !new.at("immutable").is_true() {
        causes.forbidden(&new.at("immutable"), WHY);
    }
    for field in fields {
        if new.at(field).value() != old.at(field).value() {
            causes.forbidden(&new.at(field), WHY);
        }
    }
}
