//! The DefaultIngressClass plugin: sets the default class of new Ingresses.

use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::auth::INGRESS_CLASS_ANNOTATION;
use async_trait::async_trait;
use serde::Deserialize;

use super::lister::Lister;
use super::pods::field;
use crate::objects;
use crate::objects::meta::{ObjectMeta, newest};
use crate::objects::values::StringMap;

/// The annotation of an IngressClass that marks it as the default class.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// The stock plugin `DefaultIngressClass`.
#[derive(Clone, Debug)]
pub struct DefaultIngressClass {
    lister: Lister,
}

/// The fields of an Ingress and of an IngressClass that the plugin reads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Classed {
    metadata: ObjectMeta<StringMap>,
    spec: ClassedSpec,
}

/// The class of an Ingress; an empty name is a choice too.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClassedSpec {
    ingress_class_name: Option<Box<str>>,
}

impl DefaultIngressClass {
    /// Creates the plugin, which reads IngressClasses from a lister.
    pub fn new(lister: Lister) -> Self {
        Self { lister }
    }
}

#[async_trait]
impl Admission for DefaultIngressClass {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_new = attempt.is_of("ingresses.networking.k8s.io")
            && attempt.operation == Operation::Create
            && attempt.subresource.is_none();
        if is_new && wants_default_class(&objects::read(&attempt.object)) {
            let classes: Vec<Classed> = self.lister.list("ingressclasses.networking.k8s.io", None);
            if let (Some(class), Some(spec)) = (default_of(&classes), field(&mut attempt.object, "spec")) {
                spec.insert("ingressClassName".to_owned(), class.into());
            }
        }
        Ok(())
    }
}

fn wants_default_class(ingress: &Classed) -> bool {
    ingress.spec.ingress_class_name.is_none()
        && ingress.metadata.annotations.get(INGRESS_CLASS_ANNOTATION).is_none()
}

/// The name of the default class.
fn default_of(classes: &[Classed]) -> Option<&str> {
    let is_default = |class: &&Classed| class.metadata.annotations.get(IS_DEFAULT) == Some("true");
    newest(classes.iter().filter(is_default).map(|class| &class.metadata))
}

#[cfg(test)]
mod tests {
    //! Tests of the class set on an Ingress.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn ingress_without_a_class_gets_the_newest_default_class() {
        let class = |name: &str, default: &str, created: &str| {
            let class = json!({"metadata": {"name": name, "creationTimestamp": created,
                "annotations": {IS_DEFAULT: default}}, "spec": {"controller": "example.com/own"}});
            serde_json::from_value::<Classed>(class).unwrap()
        };
        let classes = [
            class("old", "true", "2025-01-01T00:00:00Z"),
            class("b", "true", "2026-01-01T00:00:00Z"),
            class("a", "true", "2026-01-01T00:00:00Z"),
            class("no", "false", "2027-01-01T00:00:00Z"),
        ];
        assert_eq!(default_of(&classes), Some("a"));
        assert_eq!(default_of(&classes[3..]), None);
        for (ingress, expected) in [
            (json!({"spec": {}}), true),
            (json!({}), true),
            (json!({"spec": {"ingressClassName": ""}}), false),
            (json!({"spec": {"ingressClassName": "a"}}), false),
            (json!({"metadata": {"annotations": {INGRESS_CLASS_ANNOTATION: "nginx"}}}), false),
            (json!({"metadata": {"annotations": {"other": "nginx"}}}), true),
        ] {
            let read = objects::read::<Classed>(ingress.as_object().unwrap());
            assert_eq!(wants_default_class(&read), expected, "{ingress}");
        }
    }
}
