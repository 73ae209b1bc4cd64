//! Cluster role aggregation: computes the rules of aggregated roles. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::index::text;
use super::rule::Rule;

/// Maximum number of passes over roles that aggregate other aggregated roles. Roles that form a cycle may still be
/// incomplete after them.
const MAX_PASSES: usize = 16;

/// Computed rules by role name.
pub type AggregatedRules = BTreeMap<String, Vec<Rule>>;

/// Returns the aggregated roles whose stored rules differ from the computed ones, with the computed rules.
pub fn outdated(roles: &[Map<String, Value>]) -> AggregatedRules {
    let mut rules: BTreeMap<&str, Vec<Rule>> =
        roles.iter().map(|role| (text(role, "name"), Rule::all_of(role))).collect();
    for _ in 0..MAX_PASSES {
        let mut moved = false;
        for role in roles.iter().filter(|role| is_aggregated(role)) {
            let gathered = gather(role, roles, &rules);
            let name = text(role, "name");
            if rules.get(name) != Some(&gathered) {
                rules.insert(name, gathered);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let own = |name: &str| roles.iter().find(|role| text(role, "name") == name).map(Rule::all_of);
    let is_new = |(name, rules): &(&str, Vec<Rule>)| own(name).as_ref() != Some(rules);
    rules.into_iter().filter(is_new).map(|(name, rules)| (name.to_owned(), rules)).collect()
}

/// Whether the rules of a role are aggregated from other roles.
pub fn is_aggregated(role: &Map<String, Value>) -> bool {
    role.get("aggregationRule").is_some_and(|rule| !rule.is_null())
}

/// The rules of all selected roles, in order of role name, without duplicates.
fn gather(
    role: &Map<String, Value>,
    roles: &[Map<String, Value>],
    rules: &BTreeMap<&str, Vec<Rule>>,
) -> Vec<Rule> {
    let selectors = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    let selectors = selectors.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let own = text(role, "name");
    let mut selected: Vec<&str> = roles
        .iter()
        .filter(|other| selectors.iter().any(|selector| selects(selector, other)))
        .map(|other| text(other, "name"))
        .filter(|name| *name != own)
        .collect();
    selected.sort_unstable();
    let mut gathered: Vec<Rule> = Vec::new();
    for rule in selected.into_iter().filter_map(|name| rules.get(name)).flatten() {
        if !gathered.contains(rule) {
            gathered.push(rule.clone());
        }
    }
    gathered
}

/// Whether a `LabelSelector` matches an object. An unknown operator matches nothing.
fn selects(selector: &Value, object: &Map<String, Value>) -> bool {
    let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
    let label = |name: &str| labels.and_then(|labels| labels.get(name)).and_then(Value::as_str);
    let is_equal = |(name, value): (&String, &Value)| label(name).is_some() && label(name) == value.as_str();
    let holds = |requirement: &Value| {
        let key = requirement.get("key").and_then(Value::as_str).unwrap_or_default();
        let values =
            requirement.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_among = label(key).is_some_and(|label| values.iter().any(|value| value == label));
        match requirement.get("operator").and_then(Value::as_str) {
            Some("In") => is_among,
            Some("NotIn") => !is_among,
            Some("Exists") => label(key).is_some(),
            Some("DoesNotExist") => label(key).is_none(),
            _ => false,
        }
    };
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    let more = selector.get("matchExpressions").and_then(Value::as_array);
    equal.into_iter().flatten().all(is_equal) && more.into_iter().flatten().all(holds)
}

#[cfg(test)]
mod tests;
