//! Names, namespaces, labels and annotations.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::names::{
    dns_label, dns_subdomain, is_qualified_name, label_value, not_negative, qualified_name, required,
};
use crate::fault::{Aim, Faults};
use crate::path::Path;

/// All annotations of an object together, keys and values, in bytes.
const ANNOTATIONS_MAX_BYTES: usize = 256 << 10;

pub(super) fn check(metadata: &ObjectMeta, faults: &mut Faults) {
    let path = &Path::ROOT.field("metadata");
    match metadata.name.as_deref().unwrap_or_default() {
        "" if metadata.generate_name.is_some() => {
            let remedy = "write `name` instead: the object is the same each time the manifest is read";
            faults.add(
                &path.field("generateName"),
                "an object of a manifest needs a name of its own",
                remedy,
            );
        }
        "" => required(&path.field("name"), "give the object a name", faults),
        name => dns_subdomain(name, &path.field("name"), faults),
    }
    if let Some(namespace) = &metadata.namespace {
        dns_label(namespace, &path.field("namespace"), faults);
    }
    let labels_path = path.field("labels");
    for (key, value) in metadata.labels.iter().flatten() {
        key_of(key, &labels_path, faults);
        label_value(value, &labels_path.key(key), faults);
    }
    annotations(metadata, &path.field("annotations"), faults);
    let finalizers_path = path.field("finalizers");
    for (index, finalizer) in metadata.finalizers.iter().flatten().enumerate() {
        qualified_name(finalizer, &finalizers_path.index(index), faults);
    }
    if let Some(generation) = metadata.generation {
        not_negative(generation, &path.field("generation"), faults);
    }
}

/// A wrong key is wrong where it stands, whatever its value.
fn key_of(key: &str, path: &Path<'_>, faults: &mut Faults) {
    if !is_qualified_name(key) {
        faults.aim(
            &path.key(key),
            Aim::Name,
            "the key may hold letters, digits, `-`, `_` and `.`, at most 63, perhaps with `example.com/` in front",
            "begin and end it with a letter or digit, and use no other characters",
        );
    }
}

fn annotations(metadata: &ObjectMeta, path: &Path<'_>, faults: &mut Faults) {
    let mut size_bytes = 0;
    for (key, value) in metadata.annotations.iter().flatten() {
        key_of(&key.to_lowercase(), path, faults);
        size_bytes += key.len() + value.len();
    }
    if size_bytes > ANNOTATIONS_MAX_BYTES {
        let what = format!("annotations hold {size_bytes} bytes, {ANNOTATIONS_MAX_BYTES} are allowed");
        faults.add(path, what, "put large data into a ConfigMap");
    }
}
