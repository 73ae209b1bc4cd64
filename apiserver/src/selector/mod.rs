//! Label and field selectors in query syntax.

mod object;
#[cfg(test)]
mod tests;

pub use self::object::{matches as matches_selector, text};
use crate::object::{FieldValue, NODE_NAME, Object};
use crate::status::Status;

/// A label selector. An object matches if it fulfils all requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<LabelRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelRequirement {
    Exists(String),
    Missing(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    ///
    /// # Errors
    /// 400 that quotes the invalid requirement.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                if text.trim().is_empty() {
                    continue;
                }
                return Err(unreadable("label", text, "a requirement between two commas is empty"));
            }
            requirements.push(LabelRequirement::parse(part)?);
        }
        Ok(Self(requirements))
    }

    /// True when the selector matches.
    pub fn matches(&self, object: &Object) -> bool {
        self.0.iter().all(|requirement| requirement.holds(|name| object.label(name)))
    }

    /// True when the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl LabelRequirement {
    fn parse(part: &str) -> Result<Self, Status> {
        if let Some(name) = part.strip_prefix('!') {
            return Ok(Self::Missing(label_name(name, part)?));
        }
        if let Some((name, value)) = part.split_once("!=") {
            return Ok(Self::NotIn(label_name(name, part)?, vec![label_value(value, part)?]));
        }
        if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            return Ok(Self::In(label_name(name, part)?, vec![label_value(value, part)?]));
        }
        let Some((left, values)) = part.split_once('(') else {
            return Ok(Self::Exists(label_name(part, part)?));
        };
        let Some(values) = values.trim_end().strip_suffix(')') else {
            return Err(unreadable("label", part, "the parenthesis is not closed"));
        };
        let values = values.split(',').map(|value| label_value(value, part)).collect::<Result<_, _>>()?;
        match left.trim().rsplit_once(char::is_whitespace) {
            Some((name, "in")) => Ok(Self::In(label_name(name, part)?, values)),
            Some((name, "notin")) => Ok(Self::NotIn(label_name(name, part)?, values)),
            _ => Err(unreadable("label", part, "in or notin is missing before the parenthesis")),
        }
    }

    fn holds<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let among = |values: &[String], value: &str| values.iter().any(|v| v == value);
        match self {
            Self::Exists(name) => label(name).is_some(),
            Self::Missing(name) => label(name).is_none(),
            Self::In(name, values) => label(name).is_some_and(|value| among(values, value)),
            Self::NotIn(name, values) => label(name).is_none_or(|value| !among(values, value)),
        }
    }
}

fn label_name(text: &str, part: &str) -> Result<String, Status> {
    let name = text.trim();
    let (prefix, bare) = name.rsplit_once('/').unwrap_or(("", name));
    if is_word(bare) && !bare.is_empty() && prefix.len() <= 253 && bare.len() <= 63 {
        Ok(name.to_owned())
    } else {
        Err(unreadable("label", part, &format!("\"{name}\" is not the name of a label")))
    }
}

fn label_value(text: &str, part: &str) -> Result<String, Status> {
    let value = text.trim();
    if is_word(value) && value.len() <= 63 {
        Ok(value.to_owned())
    } else {
        Err(unreadable("label", part, &format!("\"{value}\" is not the value of a label")))
    }
}

/// True for an empty text, and for one with letters or digits at both ends and `-`, `_` and `.` between.
fn is_word(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

fn unreadable(what: &str, part: &str, why: &str) -> Status {
    Status::bad_request(format!("unable to parse requirement: {what} selector \"{part}\": {why}"))
}

/// A field selector. An object matches if it fulfils all requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses `a.b=c,d!=e`. A backslash escapes `,`, `=` and itself.
    ///
    /// # Errors
    /// 400 that quotes the invalid requirement.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut requirements = Vec::new();
        for part in split_unescaped(text).filter(|part| !part.is_empty()) {
            let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
                (path, value, false)
            } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (path, value, true)
            } else {
                return Err(unreadable("field", part, "it has neither = nor !="));
            };
            requirements.push(FieldRequirement { path: path.to_owned(), value: unescape(value), equal });
        }
        Ok(Self(requirements))
    }

    /// Adds a requirement on the object name.
    pub fn require_name(&mut self, name: &str) {
        self.require("metadata.name", name);
    }

    /// Adds a requirement on a field.
    pub fn require(&mut self, path: &str, value: &str) {
        self.0.push(FieldRequirement { path: path.to_owned(), value: value.to_owned(), equal: true });
    }

    /// Translates every field label with `name`.
    ///
    /// # Errors
    /// If `name` does not support a label. The error is that of `name`.
    pub fn rename(&mut self, name: impl Fn(&str) -> Result<String, Status>) -> Result<(), Status> {
        for requirement in &mut self.0 {
            requirement.path = name(&requirement.path)?;
        }
        Ok(())
    }

    /// The required object name, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.wanted("metadata.name").next()
    }

    /// True if the selector requires that the field has this value.
    pub fn demands(&self, path: &str, value: &str) -> bool {
        self.wanted(path).any(|wanted| wanted == value)
    }

    /// The required node name, if there is one.
    pub fn node(&self) -> Option<&str> {
        self.wanted(NODE_NAME).find(|node| !node.is_empty())
    }

    /// The requirement by which an indexed watch is found: the name if there is one, otherwise another equality
    /// requirement.
    pub fn field_value(&self) -> Option<FieldValue> {
        let mut equal = self.0.iter().filter(|it| it.equal && it.path != "metadata.namespace");
        let found = equal.clone().find(|it| it.path == "metadata.name").or_else(|| equal.next())?;
        Some(FieldValue { path: found.path.clone(), value: found.value.clone() })
    }

    /// The required values of a field.
    fn wanted(&self, path: &str) -> impl Iterator<Item = &str> {
        let of_path = self.0.iter().filter(move |requirement| requirement.equal && requirement.path == path);
        of_path.map(|requirement| requirement.value.as_str())
    }

    /// True if the selector uses only name and namespace, which never change.
    pub fn select_by_name_only(&self) -> bool {
        self.0
            .iter()
            .all(|requirement| matches!(requirement.path.as_str(), "metadata.name" | "metadata.namespace"))
    }

    /// True when the selector matches.
    pub fn matches(&self, object: &Object) -> bool {
        self.0
            .iter()
            .all(|requirement| (object.value(&requirement.path) == requirement.value) == requirement.equal)
    }

    /// True when the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn split_unescaped(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
}

fn unescape(text: &str) -> String {
    let mut escaped = false;
    text.chars()
        .filter(|c| {
            escaped = *c == '\\' && !escaped;
            !escaped
        })
        .collect()
}
