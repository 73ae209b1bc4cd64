//! JSONPath for CustomResourceDefinitions: names, indices, wildcards, `..`, slices and simple filters.

use serde_json::Value;

/// Limit for the steps of a path, and for the values that each step may select. Users write these paths.
const MAX_STEPS: usize = 64;
const MAX_VALUES: usize = 10_000;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// Why a path is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{path}\" is not a valid JSONPath: {what}")]
pub struct JsonPathError {
    path: String,
    what: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Selects the field with this name: `.name` or `['name']`.
    Name(String),
    /// Selects all fields with this name at any depth: `..name`.
    Anywhere(String),
    /// All elements or values: `.*` or `[*]`.
    All,
    /// One element, counted from the end if negative: `[0]`, `[-1]`.
    Index(i64),
    /// A range of elements: `[1:3]`.
    Slice(Option<i64>, Option<i64>),
    /// The elements that pass a test: `[?(@.type=="Ready")]`.
    Filter { path: JsonPath, test: Option<(Test, Value)> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Equal,
    Different,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`, with or without braces.
    ///
    /// # Errors
    /// If the path is invalid or not supported.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let inner = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
        steps(inner).map_err(|what| JsonPathError { path: text.to_owned(), what })
    }

    /// Creates a path from field names.
    pub fn of_names(names: &[&str]) -> Self {
        Self { steps: names.iter().map(|name| Step::Name((*name).to_owned())).collect() }
    }

    /// All values at the path, in order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        self.steps.iter().fold(vec![root], |found, step| {
            let mut next = Vec::new();
            for value in found {
                step.follow(value, &mut next);
                if next.len() >= MAX_VALUES {
                    break;
                }
            }
            next.truncate(MAX_VALUES);
            next
        })
    }
}

fn steps(mut rest: &str) -> Result<JsonPath, &'static str> {
    let mut steps = Vec::new();
    rest = rest.strip_prefix(['$', '@']).unwrap_or(rest);
    while !rest.is_empty() {
        if steps.len() == MAX_STEPS {
            return Err("it has too many steps");
        }
        let step;
        (step, rest) = if let Some(after) = rest.strip_prefix("..") {
            let (name, after) = name(after)?;
            (Step::Anywhere(name), after)
        } else if let Some(after) = rest.strip_prefix('[') {
            brackets(after)?
        } else if let Some(after) = rest.strip_prefix(".*") {
            (Step::All, after)
        } else if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() && steps.is_empty() {
                break;
            }
            if after.starts_with('[') {
                rest = after;
                continue;
            }
            let (name, after) = name(after)?;
            (Step::Name(name), after)
        } else {
            return Err("a step begins with \".\" or \"[\"");
        };
        steps.push(step);
    }
    Ok(JsonPath { steps })
}

/// Parses a name up to the next step; `\` escapes a character.
fn name(text: &str) -> Result<(String, &str), &'static str> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let end = loop {
        match chars.next() {
            None => break text.len(),
            Some((at, '.' | '[')) => break at,
            Some((_, '\\')) => name.push(chars.next().ok_or("it ends with a backslash")?.1),
            Some((_, char)) => name.push(char),
        }
    };
    if name.is_empty() { Err("a name is empty") } else { Ok((name, &text[end..])) }
}

/// Parses the content of brackets, after the opening one.
fn brackets(text: &str) -> Result<(Step, &str), &'static str> {
    if let Some(filter) = text.strip_prefix("?(") {
        let end = outside_quotes(filter, ")]").ok_or("a filter is not closed")?;
        return Ok((self::filter(filter[..end].trim())?, &filter[end + 2..]));
    }
    let end = outside_quotes(text, "]").ok_or("a bracket is not closed")?;
    let (inner, rest) = (text[..end].trim(), &text[end + 1..]);
    let number = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| "a bracket must contain a number, a name or a filter"),
    };
    let step = match inner.split_once(':') {
        _ if inner == "*" => Step::All,
        _ if quoted(inner).is_some() => Step::Name(quoted(inner).unwrap_or_default()),
        Some((from, to)) => Step::Slice(number(from)?, number(to)?),
        None => Step::Index(number(inner)?.ok_or("a bracket is empty")?),
    };
    Ok((step, rest))
}

fn filter(text: &str) -> Result<Step, &'static str> {
    const TESTS: [(&str, Test); 6] = [
        ("==", Test::Equal),
        ("!=", Test::Different),
        ("<=", Test::LessOrEqual),
        (">=", Test::MoreOrEqual),
        ("<", Test::Less),
        (">", Test::More),
    ];
    if !text.starts_with('@') {
        return Err("a filter begins with \"@\"");
    }
    // Nested filters are not supported, because parsing them would be recursive.
    if text.contains("?(") {
        return Err("nested filters are not supported");
    }
    let found = TESTS.into_iter().filter_map(|(sign, test)| Some((outside_quotes(text, sign)?, sign, test)));
    match found.min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len())) {
        None => Ok(Step::Filter { path: steps(text)?, test: None }),
        Some((at, sign, test)) => {
            let right = text[at + sign.len()..].trim();
            let value = match quoted(right) {
                Some(text) => Value::String(text),
                None => serde_json::from_str(right).map_err(|_| "a filter compares with an invalid value")?,
            };
            Ok(Step::Filter { path: steps(text[..at].trim())?, test: Some((test, value)) })
        }
    }
}

/// The first position of `wanted` outside of quotes.
fn outside_quotes(text: &str, wanted: &str) -> Option<usize> {
    let mut quote = None;
    for (at, char) in text.char_indices() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (Some(_), _) => {}
            (None, _) if text[at..].starts_with(wanted) => return Some(at),
            (None, '"' | '\'') => quote = Some(char),
            (None, _) => {}
        }
    }
    None
}

fn quoted(text: &str) -> Option<String> {
    let inner = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))?;
    Some(inner.replace("\\\"", "\"").replace("\\'", "'"))
}

impl Step {
    fn follow<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) {
        match self {
            Self::Name(name) => found.extend(value.get(name)),
            Self::Anywhere(name) => anywhere(value, name, found),
            Self::All => match value {
                Value::Array(values) => found.extend(values),
                Value::Object(fields) => found.extend(fields.values()),
                _ => {}
            },
            Self::Index(index) => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                found.extend(place(*index, list.len()).and_then(|at| list.get(at)));
            }
            Self::Slice(from, to) => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let end = |index: &Option<i64>, usual: usize| match index {
                    None => usual,
                    Some(index) => place(*index, list.len()).unwrap_or(0).min(list.len()),
                };
                found.extend(list.get(end(from, 0)..end(to, list.len())).unwrap_or_default());
            }
            Self::Filter { path, test } => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                found.extend(list.iter().filter(|element| {
                    let left = path.find(element);
                    match test {
                        None => !left.is_empty(),
                        Some((test, right)) => left.iter().any(|left| test.holds(left, right)),
                    }
                }));
            }
        }
    }
}

/// Converts an index to a position in a list. Negative indices count from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    if index < 0 {
        length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    } else {
        usize::try_from(index).ok()
    }
}

fn anywhere<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    let mut ahead = vec![value];
    while let Some(value) = ahead.pop() {
        if found.len() >= MAX_VALUES {
            return;
        }
        match value {
            Value::Object(fields) => {
                found.extend(fields.get(name));
                ahead.extend(fields.values().rev());
            }
            Value::Array(values) => ahead.extend(values.iter().rev()),
            _ => {}
        }
    }
}

impl Test {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            _ => left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right)),
        };
        match self {
            Self::Equal => left == right || order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Different => !(left == right || order.is_some_and(std::cmp::Ordering::is_eq)),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::More => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::MoreOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

#[cfg(test)]
mod tests;
