//! Validates the `spec` of a definition.

use std::collections::HashSet;

use serde_json::Value;

use super::{Causes, list, names, text, versions};
use crate::crd::status::is_established;
use crate::path::Path;
use crate::strategy::{Cause, Json};

/// Validates a definition, or an update of one.
pub(in crate::crd) fn definition(definition: &Json, before: Option<&Json>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let spec = definition.get("spec");
    let (root, metadata) = (Path::ROOT, definition.get("metadata"));
    let path = root.field("spec");
    let (group, plural) = (text(spec, "group"), text(spec.and_then(|spec| spec.get("names")), "plural"));
    let name = text(metadata, "name");
    if name != format!("{plural}.{group}") {
        causes.invalid(
            &root.field("metadata").field("name"),
            &name.into(),
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    names::group(group, &path.field("group"), &mut causes);
    names::approval(group, metadata.and_then(Value::as_object), &mut causes);
    match text(spec, "scope") {
        "Cluster" | "Namespaced" => {}
        "" => causes.required(&path.field("scope"), ""),
        other => causes.not_supported(&path.field("scope"), other, &["Cluster", "Namespaced"]),
    }
    names::names(spec.and_then(|spec| spec.get("names")), &path.field("names"), &mut causes);
    if spec.and_then(|spec| spec.get("preserveUnknownFields")).is_some_and(|flag| *flag == true) {
        causes.invalid(
            &path.field("preserveUnknownFields"),
            &true.into(),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    all_versions(spec, &path.field("versions"), &mut causes);
    conversion(spec.and_then(|spec| spec.get("conversion")), &path.field("conversion"), &mut causes);
    if let Some(before) = before {
        changes(definition, before, &mut causes);
    }
    causes.0
}

fn all_versions(spec: Option<&Value>, path: &Path<'_>, causes: &mut Causes) {
    let all = list(spec, "versions");
    let mut seen = HashSet::new();
    let mut stored = 0;
    for (at, version) in all.iter().enumerate() {
        let name = text(Some(version), "name");
        if !seen.insert(name) {
            causes.add(Cause::duplicate(
                path.index(at).field("name").to_owned().to_string(),
                Value::from(name),
            ));
        }
        stored += usize::from(version.get("storage").is_some_and(|storage| *storage == true));
        versions::version(version, &path.index(at), causes);
    }
    if stored != 1 {
        let shown: Value = all.iter().map(|version| Value::from(text(Some(version), "name"))).collect();
        causes.invalid(path, &shown, "must have exactly one version marked as storage version");
    }
}

fn conversion(conversion: Option<&Value>, path: &Path<'_>, causes: &mut Causes) {
    match text(conversion, "strategy") {
        // Defaulting sets `None` if the field is missing.
        "None" | "" => {
            if conversion
                .and_then(|conversion| conversion.get("webhook"))
                .is_some_and(|webhook| !webhook.is_null())
            {
                causes.forbidden(
                    &path.field("webhook"),
                    "should not be set when strategy is not set to Webhook",
                );
            }
        }
        "Webhook" => {
            let config = conversion.and_then(|conversion| conversion.pointer("/webhook/clientConfig"));
            if !config.is_some_and(Value::is_object) {
                let why = "required when strategy is set to Webhook";
                causes.required(&path.field("webhook").field("clientConfig"), why);
            }
        }
        other => causes.not_supported(&path.field("strategy"), other, &["None", "Webhook"]),
    }
}

/// Reports changes of immutable fields: scope, names, and versions that are still stored.
fn changes(definition: &Json, before: &Json, causes: &mut Causes) {
    const SCOPE: &[&str] = &["scope"];
    const KIND: &[&str] = &["names", "kind"];
    const GROUP: &[&str] = &["group"];
    const PLURAL: &[&str] = &["names", "plural"];
    fn at<'a>(of: &'a Json, path: &[&str]) -> Option<&'a Value> {
        path.iter().try_fold(of.get("spec")?, |value, step| value.get(step))
    }
    let fixed: &[&[&str]] =
        if is_established(before) { &[SCOPE, KIND, GROUP, PLURAL] } else { &[GROUP, PLURAL] };
    for path in fixed {
        let (now, then) = (at(definition, path), at(before, path));
        if now != then {
            let field = format!("spec.{}", path.join("."));
            causes.add(Cause::invalid(field, now.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
    let names: HashSet<&str> =
        list(definition.get("spec"), "versions").iter().map(|version| text(Some(version), "name")).collect();
    for (at, version) in list(before.get("status"), "storedVersions").iter().enumerate() {
        if version.as_str().is_some_and(|version| !names.contains(version)) {
            let field = format!("status.storedVersions[{at}]");
            causes.add(Cause::invalid(
                field,
                version,
                "missing from spec.versions; \
                 may not be removed while it is in status.storedVersions",
            ));
        }
    }
}
