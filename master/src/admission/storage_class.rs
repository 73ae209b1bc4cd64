//! A claim that names no storage class gets the default one.

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use async_trait::async_trait;
use serde_json::Value;

use super::lookup::Lookup;
use super::pods::{field, text};

/// What marks a class as the default one, today and long ago.
const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// How claims named their class long ago.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The stock server's `DefaultStorageClass`.
#[derive(Clone, Debug)]
pub struct DefaultStorageClass {
    lookup: Lookup,
}

impl DefaultStorageClass {
    /// Chooses of what is there.
    pub fn new(lookup: Lookup) -> Self {
        Self { lookup }
    }
}

fn annotation<'a>(object: &'a Json, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// True when the claim leaves the class open: an empty one is none on purpose.
fn is_open(claim: &Json) -> bool {
    let spec = claim.get("spec").and_then(Value::as_object);
    spec.and_then(|spec| spec.get("storageClassName")).is_none_or(Value::is_null)
        && annotation(claim, OLD_CLASS).is_none()
}

/// The default class: the newest, should there be several.
fn default_class(classes: &[Json]) -> Option<&str> {
    let metadata =
        |class: &'_ Json| class.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_default = |class: &&Json| IS_DEFAULT.iter().any(|name| annotation(class, name) == Some("true"));
    // Of two of one age, the name that comes first.
    let newest = classes.iter().filter(is_default).max_by_key(|class| {
        let of = metadata(class);
        (text(&of, "creationTimestamp").to_owned(), std::cmp::Reverse(text(&of, "name").to_owned()))
    })?;
    newest.get("metadata")?.get("name")?.as_str()
}

#[async_trait]
impl Admission for DefaultStorageClass {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let is_new = attempt.is_of("persistentvolumeclaims")
            && attempt.operation == Operation::Create
            && attempt.subresource.is_none();
        if is_new && is_open(&attempt.object) {
            let classes = self.lookup.list("storageclasses.storage.k8s.io", None);
            if let (Some(class), Some(spec)) = (default_class(&classes), field(&mut attempt.object, "spec")) {
                spec.insert("storageClassName".to_owned(), class.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Which class a claim gets.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_default_class_is_taken_by_claims_that_leave_it_open() {
        let class = |name: &str, default: &str, created: &str| {
            let class = json!({"metadata": {"name": name, "creationTimestamp": created,
                "annotations": {"storageclass.kubernetes.io/is-default-class": default}}});
            class.as_object().unwrap().clone()
        };
        let classes = [
            class("old", "true", "2025"),
            class("b", "true", "2026"),
            class("a", "true", "2026"),
            class("no", "false", "2027"),
        ];
        assert_eq!(default_class(&classes), Some("a"));
        assert_eq!(default_class(&classes[3..]), None);
        for (claim, expected) in [
            (json!({"spec": {}}), true),
            (json!({"spec": {"storageClassName": ""}}), false),
            (json!({"spec": {}, "metadata": {"annotations": {OLD_CLASS: "x"}}}), false),
        ] {
            assert_eq!(is_open(claim.as_object().unwrap()), expected, "{claim}");
        }
    }
}
