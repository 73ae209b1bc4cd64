//! The strategies of ConfigMaps, Secrets and ControllerRevisions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::Deserialize as _;
use serde_json::Value;

use super::causes::{Causes, IMMUTABLE};
use super::dotted::{fields_at, fill};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::{Json, from_field_error};
use crate::validate;

/// The strategy of ConfigMaps.
pub(super) static CONFIG_MAP: KindStrategy = KindStrategy {
    check: |map, causes| check_config_map(map.fields().unwrap_or(&Json::new()), causes),
    update: |new, old, causes| immutable_data(new, old, &["data", "binaryData"], causes),
    ..NO_OP
};

/// The strategy of Secrets.
pub(super) static SECRET: KindStrategy = KindStrategy {
    default: default_secret,
    check: |secret, causes| check_secret(secret.fields().unwrap_or(&Json::new()), causes),
    update: |new, old, causes| {
        // The message must not contain the old or new value.
        if new.at("type").value() != old.at("type").value() {
            causes.invalid(&new.at("type"), IMMUTABLE);
        }
        immutable_data(new, old, &["data"], causes);
    },
    ..NO_OP
};

/// The strategy of ControllerRevisions.
pub(super) static REVISION: KindStrategy = KindStrategy {
    check: |revision, causes| {
        if revision.at("data").is_absent() {
            causes.missing(&revision.at("data"), "data is mandatory");
        }
        causes.not_negative(&revision.at("revision"));
    },
    update: |new, old, causes| causes.unchanged(&new.at("data"), &old.at("data")),
    ..NO_OP
};

/// Sets the type `Opaque`, and merges `stringData` into `data`.
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
            for error in validate::config_map_data(&typed) {
                causes.push(from_field_error::cause(&error, map));
            }
        }
        Err(error) => causes.invalid(&FieldValue::root(map).at("data"), &format!("cannot be read: {error}")),
    }
}

fn check_secret(secret: &Json, causes: &mut Causes) {
    match Secret::deserialize(secret) {
        Ok(typed) => {
            for error in validate::secret_data(&typed) {
                causes.push(from_field_error::cause(&error, secret));
            }
        }
        // The error of the parser may contain secret data.
        Err(_) => {
            causes.push(super::Cause::invalid("data", "\"<secret contents redacted>\"", "cannot be read"))
        }
    }
}

/// Requires that an immutable object stays immutable and keeps its data.
fn immutable_data(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, fields: &[&str], causes: &mut Causes) {
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
