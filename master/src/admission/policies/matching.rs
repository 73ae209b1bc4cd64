//! Matches requests against the rules and selectors of policies and bindings. Pure.

use api::strategy::Json;
use apiserver::admission::AdmissionRequest;
use apiserver::selector::matches_selector;
use serde_json::{Map, Value};

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
    pub fn matches(&self, matched: Option<&Value>) -> bool {
        let Some(matched) = matched.filter(|matched| matched.is_object()) else { return true };
        let is_exact = matched["matchPolicy"] == "Exact";
        let rules = |field: &str| matched[field].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_selected = |selector: &str, objects: &[Option<&Json>]| {
            let Some(selector) = matched.get(selector).filter(|selector| !is_empty(selector)) else {
                return true;
            };
            objects.iter().flatten().any(|object| matches_selector(selector, labels(object)))
        };
        // A deletion has no new object to match.
        let object = Some(self.object).filter(|object| !object.is_empty());
        let included = rules("resourceRules");
        (self.namespace.is_none() || is_selected("namespaceSelector", &[self.namespace]))
            && is_selected("objectSelector", &[object, self.old])
            && !rules("excludeResourceRules").iter().any(|rule| self.is_meant(rule, is_exact))
            && (included.is_empty() || included.iter().any(|rule| self.is_meant(rule, is_exact)))
    }

    fn is_meant(&self, rule: &Value, is_exact: bool) -> bool {
        let has = |field: &str, value: &str| {
            let mut words = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            words.any(|word| word == "*" || word == value)
        };
        let names = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_in_scope = match rule["scope"].as_str() {
            Some("Cluster") => !self.is_namespaced,
            Some("Namespaced") => self.is_namespaced,
            _ => true,
        };
        is_in_scope
            && has("operations", self.operation)
            && has("apiGroups", self.group)
            // Another version of the resource matches, unless the policy is `Exact`.
            && (!is_exact || has("apiVersions", self.version))
            && (names.is_empty() || names.iter().any(|name| *name == *self.name))
            && rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str).any(|word| {
                let (resource, part) = word.split_once('/').unwrap_or((word, ""));
                (resource == "*" || resource == self.resource) && (part == "*" || part == self.subresource)
            })
    }
}

fn is_empty(selector: &Value) -> bool {
    selector.as_object().is_none_or(Map::is_empty)
}

fn labels(object: &Json) -> &Json {
    static NONE: std::sync::LazyLock<Json> = std::sync::LazyLock::new(Json::new);
    let metadata = object.get("metadata").and_then(Value::as_object);
    metadata.and_then(|metadata| metadata.get("labels")?.as_object()).unwrap_or(&NONE)
}
