//! Validates names, namespaces, labels, annotations and finalizers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::names::{
    dns_label, dns_subdomain, is_qualified_name, label_value, not_negative, qualified_name, required,
};
use crate::field_error::{FieldErrors, Target};
use crate::path::Path;

/// Limit for all annotations of an object, keys and values, in bytes.
const ANNOTATIONS_MAX_BYTES: usize = 256 << 10;

pub(super) fn check(metadata: &ObjectMeta, errors: &mut FieldErrors) {
    let path = &Path::ROOT.field("metadata");
    match metadata.name.as_deref().unwrap_or_default() {
        "" if metadata.generate_name.is_some() => {
            let remedy = "write `name` instead: the object is the same each time the manifest is read";
            errors.add(&path.field("generateName"), "an object in a manifest needs a fixed name", remedy);
        }
        "" => required(&path.field("name"), "give the object a name", errors),
        name => dns_subdomain(name, &path.field("name"), errors),
    }
    if let Some(namespace) = &metadata.namespace {
        dns_label(namespace, &path.field("namespace"), errors);
    }
    let labels_path = path.field("labels");
    for (key, value) in metadata.labels.iter().flatten() {
        key_of(key, &labels_path, errors);
        label_value(value, &labels_path.key(key), errors);
    }
    annotations(metadata, &path.field("annotations"), errors);
    let finalizers_path = path.field("finalizers");
    for (index, finalizer) in metadata.finalizers.iter().flatten().enumerate() {
        qualified_name(finalizer, &finalizers_path.index(index), errors);
    }
    if let Some(generation) = metadata.generation {
        not_negative(generation, &path.field("generation"), errors);
    }
}

/// Reports an invalid key at the position of the key.
fn key_of(key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if !is_qualified_name(key) {
        errors.add_at(
            &path.key(key),
            Target::Name,
            "the key may hold letters, digits, `-`, `_` and `.`, at most 63, optionally with a prefix such as `example.com/`",
            "begin and end it with a letter or digit, and use no other characters",
        );
    }
}

fn annotations(metadata: &ObjectMeta, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut size_bytes = 0;
    for (key, value) in metadata.annotations.iter().flatten() {
        key_of(&key.to_lowercase(), path, errors);
        size_bytes += key.len() + value.len();
    }
    if size_bytes > ANNOTATIONS_MAX_BYTES {
        let what =
            format!("annotations have {size_bytes} bytes, but at most {ANNOTATIONS_MAX_BYTES} are allowed");
        errors.add(path, what, "put large data into a ConfigMap");
    }
}
