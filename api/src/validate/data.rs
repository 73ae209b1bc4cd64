//! ConfigMaps and Secrets: keys, sizes, and what each type of Secret must hold.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::names::{is_data_key, required};
use crate::fault::{Aim, Faults};
use crate::path::Path;

/// All values of a ConfigMap or Secret together, in bytes.
const DATA_MAX_BYTES: usize = 1 << 20;

pub(super) fn config_map(config_map: &ConfigMap, faults: &mut Faults) {
    let (data, binary) = (Path::ROOT.field("data"), Path::ROOT.field("binaryData"));
    let mut size_bytes = 0;
    for (key, value) in config_map.data.iter().flatten() {
        data_key(key, &data, faults);
        size_bytes += value.len();
        if config_map.binary_data.as_ref().is_some_and(|binary| binary.contains_key(key)) {
            let what = format!("`{key}` stands in `binaryData`, too");
            faults.aim(&data.key(key), Aim::Name, what, "keep one of them");
        }
    }
    for (key, value) in config_map.binary_data.iter().flatten() {
        data_key(key, &binary, faults);
        size_bytes += value.0.len();
    }
    size(size_bytes, faults);
}

pub(super) fn secret(secret: &Secret, faults: &mut Faults) {
    let path = &Path::ROOT.field("data");
    let none = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&none);
    let mut size_bytes = 0;
    for (key, value) in data {
        data_key(key, path, faults);
        size_bytes += value.0.len();
    }
    size(size_bytes, faults);
    match secret.type_.as_deref().unwrap_or_default() {
        "kubernetes.io/dockercfg" => json_key(".dockercfg", data, path, faults),
        "kubernetes.io/dockerconfigjson" => json_key(".dockerconfigjson", data, path, faults),
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            required(
                &path.key("username"),
                "add `username` or `password`: the type of this Secret asks for one",
                faults,
            );
        }
        "kubernetes.io/ssh-auth" => filled("ssh-privatekey", data, path, faults),
        "kubernetes.io/tls" => {
            present("tls.crt", data, path, faults);
            present("tls.key", data, path, faults);
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
                    faults,
                );
            }
        }
        _ => {}
    }
}

fn data_key(key: &str, path: &Path<'_>, faults: &mut Faults) {
    if !is_data_key(key) {
        faults.aim(
            &path.key(key),
            Aim::Name,
            "the key must make a file name: letters, digits, `-`, `_` and `.`, at most 253, not `..` at the start",
            "rename it",
        );
    }
}

fn size(size_bytes: usize, faults: &mut Faults) {
    if size_bytes > DATA_MAX_BYTES {
        let what = format!("the values hold {size_bytes} bytes, {DATA_MAX_BYTES} are allowed");
        faults.add(&Path::ROOT.field("data"), what, "split it, or use a volume");
    }
}

fn present(key: &str, data: &BTreeMap<String, ByteString>, path: &Path<'_>, faults: &mut Faults) {
    if !data.contains_key(key) {
        required(&path.key(key), &format!("add `{key}`: the type of this Secret asks for it"), faults);
    }
}

fn filled(key: &str, data: &BTreeMap<String, ByteString>, path: &Path<'_>, faults: &mut Faults) {
    if data.get(key).is_none_or(|value| value.0.is_empty()) {
        required(&path.key(key), &format!("add `{key}`: the type of this Secret asks for it"), faults);
    }
}

/// A key whose value is a JSON object, such as pull credentials.
fn json_key(key: &str, data: &BTreeMap<String, ByteString>, path: &Path<'_>, faults: &mut Faults) {
    let Some(value) = data.get(key) else { return present(key, data, path, faults) };
    let read = serde_json::from_slice::<BTreeMap<String, serde::de::IgnoredAny>>(&value.0);
    if read.is_err() {
        // The value is secret: neither it nor the parser's words about it are shown.
        faults.add(
            &path.key(key),
            "the value is not a JSON object",
            "write what `docker login` leaves in config.json",
        );
    }
}
