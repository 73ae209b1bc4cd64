//! Labels, and what selects by them, read once.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read::{labels, list, text, texts};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requirement {
    /// It has one of these values.
    In(String, Vec<String>),
    /// It has none of these values.
    NotIn(String, Vec<String>),
    /// It is there.
    Exists(String),
    /// It is not there.
    Missing(String),
    /// It is a larger number.
    Above(String, i64),
    /// It is a smaller number.
    Below(String, i64),
    /// Something this version does not know, which nothing fulfils.
    Unknown,
}

impl Requirement {
    /// Reads `key`, `operator` and `values`.
    pub fn of(expression: &Value) -> Self {
        let key = || text(expression, "key").to_owned();
        let values = || texts(expression.get("values"));
        let number = || values().first().and_then(|first| first.parse::<i64>().ok());
        match text(expression, "operator") {
            "In" => Self::In(key(), values()),
            "NotIn" => Self::NotIn(key(), values()),
            "Exists" => Self::Exists(key()),
            "DoesNotExist" => Self::Missing(key()),
            "Gt" => number().map_or(Self::Unknown, |number| Self::Above(key(), number)),
            "Lt" => number().map_or(Self::Unknown, |number| Self::Below(key(), number)),
            _ => Self::Unknown,
        }
    }

    /// Whether what has these labels fulfils it.
    pub fn holds(&self, labels: &Labels) -> bool {
        self.holds_of(|key| labels.get(key).map(String::as_str))
    }

    /// The same of what has these values.
    pub fn holds_of<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        let number = |key: &str| value(key).and_then(|value| value.parse::<i64>().ok());
        let is_one = |values: &[String], value: &str| values.iter().any(|one| one == value);
        match self {
            Self::In(key, values) => value(key).is_some_and(|value| is_one(values, value)),
            Self::NotIn(key, values) => value(key).is_none_or(|value| !is_one(values, value)),
            Self::Exists(key) => value(key).is_some(),
            Self::Missing(key) => value(key).is_none(),
            Self::Above(key, than) => number(key).is_some_and(|has| has > *than),
            Self::Below(key, than) => number(key).is_some_and(|has| has < *than),
            Self::Unknown => false,
        }
    }
}

/// A label selector; all of its requirements hold, and an empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector(pub Vec<Requirement>);

impl Selector {
    /// Reads `matchLabels` and `matchExpressions`; one that is not there selects nothing.
    pub fn of(selector: Option<&Value>) -> Self {
        let Some(selector) = selector.filter(|selector| selector.is_object()) else {
            return Self(vec![Requirement::Unknown]);
        };
        let exact = labels(selector.get("matchLabels")).into_iter();
        let exact = exact.map(|(key, value)| Requirement::In(key, vec![value]));
        Self(exact.chain(list(selector.get("matchExpressions")).map(Requirement::of)).collect())
    }

    /// Whether it selects what has these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels))
    }

    /// A label without which nothing is selected, where there is such a one.
    pub fn exact(&self) -> Option<(&str, &str)> {
        self.0.iter().find_map(|requirement| match requirement {
            Requirement::In(key, values) if values.len() == 1 => Some((key.as_str(), values[0].as_str())),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    //! What selectors select.
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select_by_all_they_ask_for() {
        let has: Labels = labels(Some(&json!({"app": "web", "size": "3"})));
        for (selector, selects) in [
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
            assert_eq!(Selector::of(Some(&selector)).selects(&has), selects, "{selector}");
        }
        assert!(!Selector::of(None).selects(&has));
    }
}
