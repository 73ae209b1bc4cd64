//! Pod templates: their labels, and a digest with which controllers compare them.

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::values::StringMap;

/// The label that distinguishes the pods of a Deployment's ReplicaSets. Templates are compared without it.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Fields that are no pointers in the Go types. Stock clients write them as `{}`, which is the same as absent.
const EMPTY_IS_ABSENT: &[&str] = &["metadata", "resources"];

/// The fields of a pod template that controllers read. The content is copied from the JSON of its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub struct PodTemplate {
    /// `metadata.labels`.
    pub labels: StringMap,
    pub digest: TemplateDigest,
}

/// A digest that is equal for equal templates, regardless of the order of their fields and the value of
/// [`POD_TEMPLATE_HASH`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TemplateDigest([u8; 16]);

impl TemplateDigest {
    /// Computes the digest of a template.
    pub fn of(template: &Value) -> Self {
        let mut hasher = Sha256::new();
        hash_value(template, &mut hasher);
        let mut digest = Self::default();
        for (to, from) in digest.0.iter_mut().zip(hasher.finalize()) {
            *to = from;
        }
        digest
    }

    /// Returns the bytes, which are evenly distributed.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl From<Value> for PodTemplate {
    fn from(template: Value) -> Self {
        let labels = template.pointer("/metadata/labels");
        let labels = labels.and_then(|labels| StringMap::deserialize(labels).ok()).unwrap_or_default();
        Self { labels, digest: TemplateDigest::of(&template) }
    }
}

/// Hashes a value with sorted keys. The API server has normalized its scalars.
fn hash_value(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> =
                fields.iter().filter(|(name, value)| !is_absent(name, value)).collect();
            fields.sort_by_key(|(name, _)| *name);
            hash_length(b'{', fields.len(), hasher);
            for (name, value) in fields {
                hash_text(name, hasher);
                hash_value(value, hasher);
            }
        }
        Value::Array(elements) => {
            hash_length(b'[', elements.len(), hasher);
            elements.iter().for_each(|element| hash_value(element, hasher));
        }
        Value::String(text) => hash_text(text, hasher),
        other => {
            hasher.update(b"#");
            hash_text(&other.to_string(), hasher);
        }
    }
}

fn is_absent(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => {
            EMPTY_IS_ABSENT.contains(&name) && fields.iter().all(|(name, value)| is_absent(name, value))
        }
        Value::String(_) => name == POD_TEMPLATE_HASH,
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn hash_text(text: &str, hasher: &mut Sha256) {
    hash_length(b'"', text.len(), hasher);
    hasher.update(text);
}

fn hash_length(kind: u8, length: usize, hasher: &mut Sha256) {
    hasher.update([kind]);
    hasher.update(u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes());
}

#[cfg(test)]
mod tests {
    //! Tests of templates that are equal, and of templates that differ.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_compared_by_content() {
        let template = json!({
            "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {}, "args": []}], "volumes": null},
        });
        let digest = |template: &Value| PodTemplate::from(template.clone()).digest;
        let same = json!({
            "spec": {"containers": [{"image": "i", "name": "c"}]},
            "metadata": {"labels": {"pod-template-hash": "5d4f", "app": "web"}},
        });
        assert_eq!(digest(&template), digest(&same));
        assert_eq!(PodTemplate::from(same).labels.get(POD_TEMPLATE_HASH), Some("5d4f"));
        for (pointer, value) in [
            ("/metadata/labels/app", json!("db")),
            ("/spec/containers/0/image", json!("j")),
            ("/spec/containers/0/args", json!(["x"])),
            ("/spec/volumes", json!([{"name": "v", "emptyDir": {}}])),
            ("/spec/containers/0/resources", json!({"limits": {"cpu": "1"}})),
        ] {
            let mut other = template.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_ne!(digest(&template), digest(&other), "{pointer}");
        }
        // A selector without requirements selects all, an absent one selects none.
        let (all, none) = (json!({"namespaceSelector": {}}), json!({}));
        assert_ne!(digest(&all), digest(&none));
    }
}
