//! What metadata may hold, whatever the kind: names, labels, annotations, owners, finalizers.

use super::causes::Causes;
use super::place::Place;
use super::{Cause, Json};
use crate::validate::names;

/// All annotations of an object together, keys and values, in bytes.
const ANNOTATIONS_MAX_BYTES: usize = 256 << 10;
/// Characters of the name of a CronJob: the name of a Job has 11 more.
const CRON_JOB_NAME_MAX: usize = 52;
/// Characters of a name that becomes the value of a label.
const LABEL_MAX: usize = 63;

/// Everything that is wrong with the metadata of an object of that kind, or with what the update changes of it.
pub fn metadata(object: &Json, before: Option<&Json>, group: &str, kind: &str) -> Vec<Cause> {
    let mut causes = Causes::default();
    let root = Place::root(object);
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
        let old = Place::root(before);
        finalizers_of_the_doomed(metadata, &old.at("metadata"), &mut causes);
    }
    causes.into_vec()
}

/// Names become host names, labels or parts of URLs: each kind has its rule.
fn name(group: &str, kind: &str, name: &Place<'_, '_>, causes: &mut Causes) {
    if !causes.required(name, "name or generateName is required") {
        return;
    }
    match (group, kind) {
        ("", "Namespace") | ("apps", "StatefulSet") => causes.label(name),
        ("", "Service") => causes.text(name, is_dns_1035, DNS_1035),
        // These were never host names: colons and capitals are common in them.
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

/// Notes keys and values that no label may have.
pub(super) fn labels(labels: &Place<'_, '_>, causes: &mut Causes) {
    for (key, value) in labels.entries() {
        if !names::is_qualified_name(key) {
            causes.push(Cause::invalid(labels.path(), format!("\"{key}\""), KEY));
        }
        causes.label_value(&value);
    }
}

/// Notes keys that no annotation may have, and too many of them.
pub(super) fn annotations(annotations: &Place<'_, '_>, causes: &mut Causes) {
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

fn owners(owners: &Place<'_, '_>, causes: &mut Causes) {
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

/// An object that is being deleted waits for the finalizers it has, and for no others.
fn finalizers_of_the_doomed(new: &Place<'_, '_>, old: &Place<'_, '_>, causes: &mut Causes) {
    if old.at("deletionTimestamp").is_absent() {
        return;
    }
    let old_list = old.at("finalizers");
    let added: Vec<&str> = (new.at("finalizers").items().map(|finalizer| finalizer.text()))
        .filter(|finalizer| !old_list.items().any(|old| old.text() == *finalizer))
        .collect();
    if !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
        );
        causes.forbidden(&new.at("finalizers"), &why);
    }
}
