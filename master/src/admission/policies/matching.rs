//! Matches requests against the rules and selectors of policies and bindings. Pure.

use api::strategy::Json;
use apiserver::admission::AdmissionRequest;
use serde_json::Value;

use super::objects::{MatchResources, MatchRule};
use crate::objects::{self, LabelSelector, PartialObject};

/// The properties of a request that match rules use.
pub struct Target<'a> {
    pub operation: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    /// Whether the object is namespaced. False for namespaces themselves.
    pub is_namespaced: bool,
    /// The new object. Empty for a deletion.
    pub object: &'a Json,
    pub old: Option<&'a Json>,
    /// The namespace. `namespaceSelector` matches its labels.
    pub namespace: Option<&'a Json>,
}

impl<'a> Target<'a> {
    /// The properties of a request in this namespace.
    pub fn of(attempt: &'a AdmissionRequest<'a>, namespace: Option<&'a Value>) -> Self {
        let is_namespace = attempt.is_of("namespaces");
        // A Namespace is matched by its own labels.
        let own = is_namespace
            .then(|| if attempt.object.is_empty() { attempt.old } else { Some(&*attempt.object) });
        Self {
            operation: attempt.operation.as_str(),
            group: &attempt.resource.group,
            version: &attempt.resource.version,
            resource: &attempt.resource.plural,
            subresource: attempt.subresource.unwrap_or_default(),
            name: attempt.name,
            is_namespaced: attempt.namespace.is_some() && !is_namespace,
            object: &attempt.object,
            old: attempt.old,
            namespace: own.flatten().or(namespace.and_then(Value::as_object)),
        }
    }

    /// Whether `matchConstraints` or `matchResources` match; a missing field matches everything.
    pub fn matches(&self, matched: Option<&MatchResources>) -> bool {
        let Some(matched) = matched else { return true };
        let is_exact = &*matched.match_policy == "Exact";
        // A deletion has no new object to match.
        let object = Some(self.object).filter(|object| !object.is_empty());
        let included = &matched.resource_rules;
        (self.namespace.is_none() || is_selected(&matched.namespace_selector, &[self.namespace]))
            && is_selected(&matched.object_selector, &[object, self.old])
            && !matched.exclude_resource_rules.iter().any(|rule| self.is_meant(rule, is_exact))
            && (included.is_empty() || included.iter().any(|rule| self.is_meant(rule, is_exact)))
    }

    fn is_meant(&self, rule: &MatchRule, is_exact: bool) -> bool {
        let has =
            |words: &[Box<str>], value: &str| words.iter().any(|word| &**word == "*" || **word == *value);
        let is_in_scope = match &*rule.scope {
            "Cluster" => !self.is_namespaced,
            "Namespaced" => self.is_namespaced,
            _ => true,
        };
        let names = &rule.resource_names;
        is_in_scope
            && has(&rule.operations, self.operation)
            && has(&rule.api_groups, self.group)
            // Another version of the resource matches, unless the policy is `Exact`.
            && (!is_exact || has(&rule.api_versions, self.version))
            && (names.is_empty() || names.iter().any(|name| **name == *self.name))
            && rule.resources.iter().any(|word| {
                let (resource, part) = word.split_once('/').unwrap_or((word, ""));
                (resource == "*" || resource == self.resource) && (part == "*" || part == self.subresource)
            })
    }
}

/// Whether the selector matches one of the objects. An empty selector matches everything.
fn is_selected(selector: &LabelSelector, all: &[Option<&Json>]) -> bool {
    *selector == LabelSelector::default()
        || all.iter().flatten().any(|object| {
            let PartialObject { metadata } = objects::read(object);
            selector.matches(&metadata.labels)
        })
}
