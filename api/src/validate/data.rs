//! Validates ConfigMaps and Secrets: keys, sizes, and the required keys of each Secret type.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::names::{is_data_key, required};
use crate::field_error::{FieldErrors, Target};
use crate::path::Path;

/// Limit for all values of a ConfigMap or Secret in bytes.
const DATA_MAX_BYTES: usize = 1 << 20;

pub(super) fn config_map(config_map: &ConfigMap, errors: &mut FieldErrors) {
    let (data, binary) = (Path::ROOT.field("data"), Path::ROOT.field("binaryData"));
    let mut size_bytes = 0;
    for (key, value) in config_map.data.iter().flatten() {
        data_key(key, &data, errors);
        size_bytes += value.len();
        if config_map.binary_data.as_ref().is_some_and(|binary| binary.contains_key(key)) {
            let what = format!("`{key}` is also in `binaryData`");
            errors.add_at(&data.key(key), Target::Name, what, "keep one of them");
        }
    }
    for (key, value) in config_map.binary_data.iter().flatten() {
        data_key(key, &binary, errors);
        size_bytes += value.0.len();
    }
    size(size_bytes, errors);
}

pub(super) fn secret(secret: &Secret, errors: &mut FieldErrors) {
    let path = &Path::ROOT.field("data");
    let none = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&none);
    let mut size_bytes = 0;
    for (key, value) in data {
        data_key(key, path, errors);
        size_bytes += value.0.len();
    }
    size(size_bytes, errors);
    match secret.type_.as_deref().unwrap_or_default() {
        "kubernetes.io/dockercfg" => json_key(".dockercfg", data, path, errors),
        "kubernetes.io/dockerconfigjson" => json_key(".dockerconfigjson", data, path, errors),
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            required(
                &path.key("username"),
                "add `username` or `password`: the type of this Secret requires one",
                errors,
            );
        }
        "kubernetes.io/ssh-auth" => filled("ssh-privatekey", data, path, errors),
        "kubernetes.io/tls" => {
            present("tls.crt", data, path, errors);
            present("tls.key", data, path, errors);
        }
        "kubernetes.io/service-account-token" => {
            let annotations = secret.metadata.annotations.as_ref();
            let account = annotations.and_then(|all| all.get("kubernetes.io/service-account.name"));
            if account.is_none_or(String::is_empty) {
                let metadata = Path::ROOT.field("metadata");
                let remedy = "add the annotation with the account's name, or write `type: Opaque`";
                required(
                    &metadata.field("annotations").key("kubernetes.io/service-account.name"),
                    remedy,
                    errors,
                );
            }
        }
        _ => {}
    }
}

fn data_key(key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if !is_data_key(key) {
        errors.add_at(
            &path.key(key),
            Target::Name,
            "the key must be a valid file name: letters, digits, `-`, `_` and `.`, at most 253, not `..` at the start",
            "rename it",
        );
    }
}

fn size(size_bytes: usize, errors: &mut FieldErrors) {
    if size_bytes > DATA_MAX_BYTES {
        let what = format!("the values have {size_bytes} bytes, but at most {DATA_MAX_BYTES} are allowed");
        errors.add(&Path::ROOT.field("data"), what, "split it, or use a volume");
    }
}

fn present(key: &str, data: &BTreeMap<String, ByteString>, path: &Path<'_>, errors: &mut FieldErrors) {
    if !data.contains_key(key) {
        required(&path.key(key), &format!("add `{key}`: the type of this Secret requires it"), errors);
    }
}

fn filled(key: &str, data: &BTreeMap<String, ByteString>, path: &Path<'_>, errors: &mut FieldErrors) {
    if data.get(key).is_none_or(|value| value.0.is_empty()) {
        required(&path.key(key), &format!("add `{key}`: the type of this Secret requires it"), errors);
    }
}

/// Requires that the value of `key` is a JSON object, such as image pull credentials.
fn json_key(key: &str, data: &BTreeMap<String, ByteString>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(value) = data.get(key) else { return present(key, data, path, errors) };
    let read = serde_json::from_slice::<BTreeMap<String, serde::de::IgnoredAny>>(&value.0);
    if read.is_err() {
        // The value is secret: neither it nor the error of the parser may be shown.
        errors.add(
            &path.key(key),
            "the value is not a JSON object",
            "write the content of config.json as `docker login` creates it",
        );
    }
}
