//! A policy rule: what it allows, and whether it covers another rule. Pure.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::auth::attributes::{Attributes, On, ResourceAttributes};

/// Wildcard that every list of a rule may contain.
const ALL: &str = "*";

/// A `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// Verbs such as `get` and `list`, or `*`.
    pub verbs: Vec<String>,
    /// API groups (empty string for the core group), or `*`.
    pub groups: Vec<String>,
    /// Resources such as `pods`, `pods/log` and `*/scale`, or `*`.
    pub resources: Vec<String>,
    /// Resource names; empty for all objects.
    pub names: Vec<String>,
    /// Non-resource paths such as `/healthz` and `/healthz/*`.
    pub paths: Vec<String>,
}

impl Rule {
    /// Parses a rule of a role; entries that are not strings are ignored.
    pub fn read(rule: &Value) -> Self {
        Self {
            verbs: texts(rule, "verbs"),
            groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            names: texts(rule, "resourceNames"),
            paths: texts(rule, "nonResourceURLs"),
        }
    }

    /// All rules of a role.
    pub fn all_of(role: &Map<String, Value>) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::read).collect()
    }

    /// The rule as JSON.
    pub fn json(&self) -> Value {
        let mut rule = json!({});
        for (field, texts) in self.parts() {
            // `verbs` is required and conventionally first.
            if field == "verbs" || !texts.is_empty() {
                rule[field] = texts.clone().into();
            }
        }
        rule
    }

    /// Whether the rule allows a request.
    pub fn allows(&self, attributes: &Attributes) -> bool {
        has(&self.verbs, &attributes.verb)
            && match &attributes.on {
                On::Path(path) => self.paths.iter().any(|own| path_holds(own, path)),
                On::Resource(on) => self.allows_on(on),
            }
    }

    fn allows_on(&self, on: &ResourceAttributes) -> bool {
        has(&self.groups, &on.group)
            && self.resources.iter().any(|own| resource_holds(own, &on.resource, &on.subresource))
            && (self.names.is_empty() || self.names.contains(&on.name))
    }

    /// Whether the rule allows everything that `other` allows. `other` must come from [`Self::broken_down`].
    pub fn covers(&self, other: &Self) -> bool {
        let all = |own: &[String], others: &[String]| others.iter().all(|other| has(own, other));
        let has_resource = |other: &String| {
            let (resource, subresource) = other.split_once('/').unwrap_or((other, ""));
            self.resources.iter().any(|own| own == other || resource_holds(own, resource, subresource))
        };
        let has_path = |other: &String| self.paths.iter().any(|own| own == other || path_holds(own, other));
        let has_names = self.names.is_empty()
            || (!other.names.is_empty() && other.names.iter().all(|name| self.names.contains(name)));
        all(&self.verbs, &other.verbs)
            && all(&self.groups, &other.groups)
            && other.resources.iter().all(has_resource)
            && other.paths.iter().all(has_path)
            && has_names
    }

    /// Splits the rule into rules with one verb, group, resource and name, or one verb and path.
    pub fn broken_down(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> =
            if self.names.is_empty() { vec![Vec::new()] } else { self.names.iter().map(one).collect() };
        let mut all = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    all.extend(names.iter().map(|names| Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        names: names.clone(),
                        paths: Vec::new(),
                    }));
                }
            }
        }
        for path in &self.paths {
            all.extend(self.verbs.iter().map(|verb| Self {
                verbs: one(verb),
                paths: one(path),
                ..Self::default()
            }));
        }
        all
    }

    /// The number of rules that [`Self::broken_down`] returns.
    pub fn parts_count(&self) -> usize {
        let names = self.names.len().max(1);
        let on = [&self.groups, &self.resources, &self.verbs].map(Vec::len);
        let on = on.into_iter().fold(names, usize::saturating_mul);
        on.saturating_add(self.paths.len().saturating_mul(self.verbs.len()))
    }

    fn parts(&self) -> [(&'static str, &Vec<String>); 5] {
        [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ]
    }
}

/// Returns the parts of the requested rules that the user's own rules do not cover.
pub fn missing(own: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let wanted = wanted.iter().flat_map(Rule::broken_down);
    wanted.filter(|one| !own.iter().any(|own| own.covers(one))).collect()
}

/// Merges rules that differ only in their verbs.
pub fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut fewer: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = |other: &&mut Rule| {
            Rule { verbs: Vec::new(), ..(**other).clone() } == Rule { verbs: Vec::new(), ..rule.clone() }
        };
        match fewer.iter_mut().find(same) {
            Some(found) => found.verbs.extend(rule.verbs),
            None => fewer.push(rule),
        }
    }
    fewer
}

/// Prints a rule as kube-apiserver does: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = parts
            .into_iter()
            .filter(|(_, texts)| !texts.is_empty())
            .map(|(name, texts)| format!("{name}:{}", quoted(texts)))
            .collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

/// Formats a list of strings as Go does: `["a" "b"]`.
pub fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn texts(of: &Value, field: &str) -> Vec<String> {
    let list = of.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(own: &[String], one: &str) -> bool {
    own.iter().any(|own| own == ALL || own == one)
}

/// Whether the resource of a rule (`pods`, `pods/log`, `*/scale` or `*`) matches a resource and subresource.
fn resource_holds(own: &str, resource: &str, subresource: &str) -> bool {
    if own == ALL {
        return true;
    }
    match own.split_once('/') {
        None => own == resource && subresource.is_empty(),
        Some((of, part)) => part == subresource && !subresource.is_empty() && (of == ALL || of == resource),
    }
}

/// Whether the path of a rule (`/healthz`, `/healthz/*` or `*`) matches a path.
fn path_holds(own: &str, path: &str) -> bool {
    match own.strip_suffix('*') {
        None => own == path,
        Some(begin) => path.starts_with(begin.trim_end_matches('*')),
    }
}

#[cfg(test)]
mod tests;
