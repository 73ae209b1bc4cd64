//! Labels and parsed label selectors.

use super::selector::{self, LabelSelector};
use super::values::StringMap;

/// Labels of an object.
pub type Labels = StringMap;

/// A requirement of a label selector or a node selector term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requirement {
    /// The value of the label is one of the list.
    In(String, Vec<String>),
    /// The value of the label is not in the list, or the label is missing.
    NotIn(String, Vec<String>),
    /// The label exists.
    Exists(String),
    /// The label does not exist.
    DoesNotExist(String),
    /// The value of the label is a number greater than the given one.
    Gt(String, i64),
    /// The value of the label is a number less than the given one.
    Lt(String, i64),
    /// An unsupported operator, which matches nothing.
    Unknown,
}

impl Requirement {
    /// Parses `key`, `operator` and `values`.
    pub fn of(requirement: &selector::Requirement) -> Self {
        let key = || requirement.key.to_string();
        let values = || requirement.values.iter().map(|value| value.to_string()).collect();
        let number = || requirement.values.first().and_then(|first| first.parse::<i64>().ok());
        match &*requirement.operator {
            "In" => Self::In(key(), values()),
            "NotIn" => Self::NotIn(key(), values()),
            "Exists" => Self::Exists(key()),
            "DoesNotExist" => Self::DoesNotExist(key()),
            "Gt" => number().map_or(Self::Unknown, |number| Self::Gt(key(), number)),
            "Lt" => number().map_or(Self::Unknown, |number| Self::Lt(key(), number)),
            _ => Self::Unknown,
        }
    }

    /// Whether the labels fulfil the requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_value(|key| labels.get(key))
    }

    /// Whether the values that `value` returns by key fulfil the requirement.
    pub fn matches_value<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        let number = |key: &str| value(key).and_then(|value| value.parse::<i64>().ok());
        let is_one = |values: &[String], value: &str| values.iter().any(|one| one == value);
        match self {
            Self::In(key, values) => value(key).is_some_and(|value| is_one(values, value)),
            Self::NotIn(key, values) => value(key).is_none_or(|value| !is_one(values, value)),
            Self::Exists(key) => value(key).is_some(),
            Self::DoesNotExist(key) => value(key).is_none(),
            Self::Gt(key, than) => number(key).is_some_and(|has| has > *than),
            Self::Lt(key, than) => number(key).is_some_and(|has| has < *than),
            Self::Unknown => false,
        }
    }
}

/// A label selector. All requirements must match; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector(pub Vec<Requirement>);

impl Selector {
    /// Parses `matchLabels` and `matchExpressions`. A missing selector matches nothing.
    pub fn of(selector: Option<&LabelSelector>) -> Self {
        let Some(selector) = selector else { return Self(vec![Requirement::Unknown]) };
        let Self(mut requirements) = Self::equal(&selector.match_labels);
        requirements.extend(selector.match_expressions.iter().map(Requirement::of));
        Self(requirements)
    }

    /// Creates a selector that requires all of the labels with their values.
    pub fn equal(labels: &Labels) -> Self {
        let equal = |(key, value): (&str, &str)| Requirement::In(key.to_owned(), vec![value.to_owned()]);
        Self(labels.iter().map(equal).collect())
    }

    /// Whether the selector matches the labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// Returns a label (key and value) that every matching object has, if the selector requires one.
    pub fn exact_label(&self) -> Option<(&str, &str)> {
        self.0.iter().find_map(|requirement| match requirement {
            Requirement::In(key, values) if values.len() == 1 => Some((key.as_str(), values[0].as_str())),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Tests of label selectors.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selector_requires_every_requirement() {
        let has: Labels = [("app", "web"), ("size", "3")].into_iter().collect();
        for (selector, matches) in [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["2"]}]}), true),
            (json!({"matchExpressions": [{"key": "size", "operator": "Lt", "values": ["3"]}]}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["2"]}]}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "Perhaps"}]}), false),
        ] {
            let parsed = Option::<LabelSelector>::deserialize(&selector).unwrap();
            assert_eq!(Selector::of(parsed.as_ref()).matches(&has), matches, "{selector}");
        }
        assert!(!Selector::of(None).matches(&has));
    }
}
