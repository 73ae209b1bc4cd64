//! Defaults of a Pod's spec and its volumes.

use serde_json::{Map, Value};

use super::container;
use crate::dotted::{at, each, fill, object_at, text};

/// Default of `terminationGracePeriodSeconds`.
const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;
/// Default mode of files in volumes: `rw-r--r--`.
const FILE_MODE: i32 = 0o644;
/// Default lifetime of projected service-account tokens.
const TOKEN_EXPIRATION_SECONDS: i64 = 3600;
/// Volume types that write files with a mode.
const OF_FILES: [&str; 4] = ["configMap", "downwardAPI", "projected", "secret"];
/// Default strings of network volume types.
const NETWORKED: [(&str, &[(&str, &str)]); 4] = [
    ("azureDisk", &[("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("kind", "Shared")]),
    ("iscsi", &[("iscsiInterface", "default")]),
    ("rbd", &[("keyring", "/etc/ceph/keyring"), ("pool", "rbd"), ("user", "admin")]),
    ("scaleIO", &[("fsType", "xfs"), ("storageMode", "ThinProvisioned")]),
];

/// Sets the defaults of a Pod's spec. Idempotent; values of the wrong type and unknown fields stay unchanged.
pub fn pod_spec(spec: &mut Map<String, Value>) {
    template_spec(spec);
    fill(spec, "enableServiceLinks", true);
    let in_network_of_host = at(spec, "hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in each(spec, list) {
            container::requests(container);
            if in_network_of_host {
                host_ports(container);
            }
        }
    }
}

/// Sets the defaults of the spec of a Pod or a pod template. Fields that depend on other fields stay unset in a
/// template, so that later updates of those fields take effect.
pub fn template_spec(spec: &mut Map<String, Value>) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "securityContext", Map::new());
    fill(spec, "terminationGracePeriodSeconds", TERMINATION_GRACE_PERIOD_SECONDS);
    account(spec);
    each(spec, "volumes").for_each(volume);
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(container::container);
    }
    each(spec, "ephemeralContainers").for_each(container::any);
}

/// Sets both `serviceAccountName` and `serviceAccount`, its deprecated alias.
fn account(spec: &mut Map<String, Value>) {
    let named = |field: &str| Some(text(spec, field)).filter(|name| !name.is_empty()).map(str::to_owned);
    if let Some(name) = named("serviceAccountName").or_else(|| named("serviceAccount")) {
        for field in ["serviceAccountName", "serviceAccount"] {
            spec.insert(field.to_owned(), name.as_str().into());
        }
    }
}

/// Sets missing host ports to the container port, because they are equal with `hostNetwork`.
fn host_ports(container: &mut Map<String, Value>) {
    let is_number = |port: &Value| port.as_i64().is_some_and(|port| port != 0);
    for port in each(container, "ports") {
        if let Some(own) = port.get("containerPort").filter(|own| is_number(own)).cloned() {
            container::fill_number(port, "hostPort", own);
        }
    }
}

fn volume(volume: &mut Map<String, Value>) {
    if volume.iter().all(|(field, value)| field == "name" || value.is_null()) {
        fill(volume, "emptyDir", Map::new());
    }
    for source in OF_FILES {
        if let Some(source) = object_at(volume, source) {
            fill(source, "defaultMode", FILE_MODE);
        }
    }
    each(volume, "downwardAPI.items").for_each(container::field_ref);
    each(volume, "projected.sources").for_each(projection);
    if let Some(host_path) = object_at(volume, "hostPath") {
        fill(host_path, "type", "");
    }
    if let Some(image) = object_at(volume, "image") {
        let policy = container::pull_policy(text(image, "reference"));
        fill(image, "pullPolicy", policy);
    }
    for (source, texts) in NETWORKED {
        if let Some(source) = object_at(volume, source) {
            texts.iter().for_each(|(field, value)| fill(source, field, *value));
        }
    }
    if let Some(disk) = object_at(volume, "azureDisk") {
        fill(disk, "readOnly", false);
    }
    if let Some(claim) = object_at(volume, "ephemeral.volumeClaimTemplate") {
        fill(claim, "spec.volumeMode", "Filesystem");
    }
}

fn projection(source: &mut Map<String, Value>) {
    if let Some(token) = object_at(source, "serviceAccountToken") {
        fill(token, "expirationSeconds", TOKEN_EXPIRATION_SECONDS);
    }
    each(source, "downwardAPI.items").for_each(container::field_ref);
}
