//! Validates the metadata of all kinds.

use std::collections::HashSet;

use super::causes::Causes;
use super::field_value::FieldValue;
use super::{Cause, Json};
use crate::validate::names;

/// Limit for all annotations of an object, keys and values, in bytes.
const ANNOTATIONS_MAX_BYTES: usize = 256 << 10;
/// Limit for the name of a CronJob: its Jobs append 11 characters.
const CRON_JOB_NAME_MAX: usize = 52;
/// Limit for the finalizers that an error names.
const NAMED_MAX: usize = 100;
/// Limit for names that are used as label values.
const LABEL_MAX: usize = 63;

/// Validates the metadata of an object, and the changes of an update.
pub fn metadata(object: &Json, before: Option<&Json>, group: &str, kind: &str) -> Vec<Cause> {
    let mut causes = Causes::default();
    let root = FieldValue::root(object);
    let metadata = &root.at("metadata");
    name(group, kind, &metadata.at("name"), &mut causes);
    causes.label(&metadata.at("namespace"));
    causes.not_negative(&metadata.at("generation"));
    labels(&metadata.at("labels"), &mut causes);
    annotations(&metadata.at("annotations"), &mut causes);
    owners(&metadata.at("ownerReferences"), &mut causes);
    for finalizer in metadata.at("finalizers").items() {
        causes.qualified_name(&finalizer);
    }
    if let Some(before) = before {
        let old = FieldValue::root(before);
        no_new_finalizers_while_deleting(metadata, &old.at("metadata"), &mut causes);
    }
    causes.into_vec()
}

/// Validates the name by the rule of the kind.
fn name(group: &str, kind: &str, name: &FieldValue<'_, '_>, causes: &mut Causes) {
    if !causes.required(name, "name or generateName is required") {
        return;
    }
    match (group, kind) {
        ("", "Namespace") | ("apps", "StatefulSet") => causes.label(name),
        ("", "Service") => causes.text(name, is_dns_1035, DNS_1035),
        // These names were never host names, and often contain colons and capital letters.
        ("rbac.authorization.k8s.io" | "apiregistration.k8s.io" | "flowcontrol.apiserver.k8s.io", _)
        | ("certificates.k8s.io", "CertificateSigningRequest")
        | (_, "Event") => causes.path_segment(name),
        ("batch", "CronJob") if name.text().len() > CRON_JOB_NAME_MAX => {
            causes.invalid(name, "must be no more than 52 characters");
        }
        ("storage.k8s.io", "CSIDriver") if name.text().len() > LABEL_MAX => {
            causes.no_longer(name, LABEL_MAX);
        }
        ("networking.k8s.io", "IPAddress") => {
            let is_canonical =
                |text: &str| text.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_string() == text);
            causes.text(name, is_canonical, "must be a valid IP address in canonical form");
        }
        _ => causes.subdomain(name),
    }
}

const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name')";

fn is_dns_1035(name: &str) -> bool {
    names::is_dns_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Validates labels.
pub(super) fn labels(labels: &FieldValue<'_, '_>, causes: &mut Causes) {
    for (key, value) in labels.entries() {
        if !names::is_qualified_name(key) {
            causes.push(Cause::invalid(labels.path(), format!("\"{key}\""), KEY));
        }
        causes.label_value(&value);
    }
}

/// Validates the keys and the total size of annotations.
pub(super) fn annotations(annotations: &FieldValue<'_, '_>, causes: &mut Causes) {
    let mut size_bytes = 0;
    for (key, value) in annotations.entries() {
        if !names::is_qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(annotations.path(), format!("\"{key}\""), KEY));
        }
        size_bytes += key.len() + value.text().len();
    }
    if size_bytes > ANNOTATIONS_MAX_BYTES {
        causes.push(Cause {
            field: annotations.path(),
            reason: super::Reason::TooLong,
            message: format!("Too long: may not be more than {ANNOTATIONS_MAX_BYTES} bytes"),
        });
    }
}

const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName'), after an optional DNS subdomain prefix and '/'";

fn owners(owners: &FieldValue<'_, '_>, causes: &mut Causes) {
    let mut controller = None;
    for owner in owners.items() {
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner.at(field).is_empty() {
                causes.invalid(&owner.at(field), why);
            }
        }
        if owner.at("kind").text() == "Event"
            && matches!(owner.at("apiVersion").text(), "v1" | "events.k8s.io/v1")
        {
            causes.invalid(&owner, "is disallowed from being an owner");
        }
        if owner.at("controller").is_true() {
            let name = owner.at("name").text();
            if let Some(first) = controller.replace(name) {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                causes.invalid(owners, &why);
            }
        }
    }
}

/// Rejects new finalizers of an object that is being deleted.
fn no_new_finalizers_while_deleting(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    if old.at("deletionTimestamp").is_absent() {
        return;
    }
    let kept: HashSet<&str> = old.at("finalizers").items().map(|finalizer| finalizer.text()).collect();
    let added: Vec<&str> = (new.at("finalizers").items().map(|finalizer| finalizer.text()))
        .filter(|finalizer| !kept.contains(finalizer))
        .take(NAMED_MAX)
        .collect();
    if !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
        );
        causes.forbidden(&new.at("finalizers"), &why);
    }
}
