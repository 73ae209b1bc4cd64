//! Validates the group and the names of a custom resource.

use serde_json::{Map, Value};

use super::{Causes, list, text};
use crate::path::Path;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                         for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Reports a text that is not a DNS-1035 label.
pub(super) fn label(value: &str, path: &Path<'_>, causes: &mut Causes) {
    labelled(value, value, "", path, causes);
}

fn labelled(value: &str, shown: &str, intro: &str, path: &Path<'_>, causes: &mut Causes) {
    if value.len() > LABEL_MAX {
        causes.invalid(path, &shown.into(), &format!("{intro}must be no more than {LABEL_MAX} characters"));
    }
    if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        causes.invalid(path, &shown.into(), &format!("{intro}{LABEL}"));
    }
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Requires that the group is a domain with at least two labels.
pub(super) fn group(group: &str, path: &Path<'_>, causes: &mut Causes) {
    if group.is_empty() {
        causes.required(path, "");
    } else if group.len() > SUBDOMAIN_MAX || !group.split('.').all(is_label) {
        causes.invalid(path, &group.into(), SUBDOMAIN);
    } else if !group.contains('.') {
        causes.invalid(path, &group.into(), "should be a domain with at least one dot");
    }
}

/// Validates `spec.names`.
pub(super) fn names(names: Option<&Value>, path: &Path<'_>, causes: &mut Causes) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let (name, path) = (text(names, field), &path.field(field));
        match field {
            _ if name.is_empty() => causes.required(path, ""),
            "plural" | "singular" => label(name, path, causes),
            _ => {
                let intro = "may have mixed case, but should otherwise match: ";
                labelled(&name.to_lowercase(), name, intro, path, causes);
            }
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        causes.invalid(&path.field("listKind"), &kind.into(), "kind and listKind may not be the same");
    }
    for field in ["shortNames", "categories"] {
        for (at, name) in list(names, field).iter().enumerate() {
            label(name.as_str().unwrap_or_default(), &path.field(field).index(at), causes);
        }
    }
}

/// Requires an approval annotation for the groups of the Kubernetes community.
pub(super) fn approval(group: &str, metadata: Option<&Map<String, Value>>, causes: &mut Causes) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|sub| sub.is_empty() || sub.ends_with('.')));
    let approved = metadata.and_then(|metadata| metadata.get("annotations")?.get(ANNOTATION)?.as_str());
    if is_protected && approved.unwrap_or_default().is_empty() {
        let metadata = Path::ROOT;
        let metadata = metadata.field("metadata");
        let annotations = metadata.field("annotations");
        causes.required(
            &annotations.key(ANNOTATION),
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        );
    }
}
