//! Sets the defaults of the API.
//!
//! The defaults of a Pod are set in its JSON before it is deserialized, so that unknown fields are kept.

mod container;
mod pod;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Secret;

pub use self::pod::{pod_spec, template_spec};
use crate::object::Object;

/// The namespace of objects whose manifest names none.
pub const NAMESPACE: &str = "default";

/// Sets the defaults of an object, except those of a Pod's spec, which [`pod_spec`] sets.
pub fn object(object: &mut Object) {
    fill(&mut object.metadata_mut().namespace, NAMESPACE);
    match object {
        Object::Pod(_) | Object::ConfigMap(_) | Object::Service(_) => {}
        Object::Secret(inner) => secret(inner),
    }
}

/// Sets the type `Opaque`, and merges `stringData` into `data`.
pub fn secret(secret: &mut Secret) {
    fill(&mut secret.type_, "Opaque");
    if let Some(strings) = secret.string_data.take() {
        let data = secret.data.get_or_insert_default();
        for (key, value) in strings {
            data.insert(key, k8s_openapi::ByteString(value.into_bytes()));
        }
    }
}

/// Sets a string if the field is missing or empty.
fn fill(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}
