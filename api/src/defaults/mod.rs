//! What the API fills in where a manifest is silent.
//!
//! A Pod's spec is filled in as the JSON it was sent or written as, before it is typed: beside what is filled in stands
//! whatever else was there.

mod container;
mod pod;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Secret;

pub use self::pod::{pod_spec, template_spec};
use crate::object::Object;

/// The namespace of objects that name none.
pub const NAMESPACE: &str = "default";

/// Fills in everything the API would, but for a Pod's spec, which [`pod_spec`] has filled in: the object then says all
/// it means.
pub fn object(object: &mut Object) {
    fill(&mut object.metadata_mut().namespace, NAMESPACE);
    match object {
        Object::Pod(_) | Object::ConfigMap(_) => {}
        Object::Secret(inner) => secret(inner),
    }
}

/// The type `Opaque`, and `stringData` merged over `data`, as a write to the API does.
pub fn secret(secret: &mut Secret) {
    fill(&mut secret.type_, "Opaque");
    if let Some(strings) = secret.string_data.take() {
        let data = secret.data.get_or_insert_default();
        for (key, value) in strings {
            data.insert(key, k8s_openapi::ByteString(value.into_bytes()));
        }
    }
}

/// An empty string counts as silence, as it does for the API.
fn fill(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}
