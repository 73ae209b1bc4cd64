//! Variables of a Compose file: interpolation of `${VAR:-default}`, and the files `.env` and `env_file`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Findings;

/// Maximum nesting of `${A:-${B}}`.
const MAX_DEPTH: usize = 16;

/// A line of an environment file: a variable, and its value if the line has one.
pub type EnvLine = (String, Option<String>);

/// The variables that a Compose file can use: those of the process take precedence over those of `.env`.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    pub process: BTreeMap<String, String>,
    pub dot_env: BTreeMap<String, String>,
}

impl Variables {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.process.get(name).or_else(|| self.dot_env.get(name)).map(String::as_str)
    }
}

/// Expands the variables in all strings of a value. `path` is the path of the value.
pub fn expand_all(value: &mut Value, path: &str, variables: &Variables, findings: &mut Findings) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut().filter(|(name, _)| !name.starts_with("x-")) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                expand_all(value, &path, variables, findings);
            }
        }
        Value::Array(elements) => {
            for (at, value) in elements.iter_mut().enumerate() {
                expand_all(value, &format!("{path}[{at}]"), variables, findings);
            }
        }
        Value::String(text) if text.contains('$') => {
            let mut unset = Vec::new();
            match expand(text, &|name| variables.get(name).map(str::to_owned), &mut unset) {
                Ok(expanded) => *text = expanded,
                Err(what) => {
                    findings.problem(path, what, "set the variable, or write `$$` for a literal `$`")
                }
            }
            for name in unset {
                let what = format!("the variable {name} is not set, so its value is empty");
                findings.warning(path, what, format!("set it, or write `${{{name}:-DEFAULT}}`"));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Expands the variables of one text. Names without a value are added to `unset`.
///
/// # Errors
/// If the syntax is invalid, or a variable with `?` has no value.
pub fn expand(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    unset: &mut Vec<String>,
) -> Result<String, String> {
    expand_within(text, lookup, unset, 0)
}

fn expand_within(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    unset: &mut Vec<String>,
    depth: usize,
) -> Result<String, String> {
    if depth > MAX_DEPTH {
        return Err(format!("variables are nested more than {MAX_DEPTH} times"));
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some(inside) = after.strip_prefix('{') {
            let end = closing_brace(inside).ok_or_else(|| format!("`{text}` lacks a closing `}}`"))?;
            out.push_str(&braced(&inside[..end], lookup, unset, depth)?);
            rest = &inside[end + 1..];
        } else {
            let (name, tail) = after.split_at(name_length(after));
            if name.is_empty() {
                return Err(format!("`{text}` has a `$` without the name of a variable"));
            }
            out.push_str(&lookup(name).unwrap_or_else(|| missing(name, unset)));
            rest = tail;
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Expands the text between the braces of `${...}`.
fn braced(
    inside: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    unset: &mut Vec<String>,
    depth: usize,
) -> Result<String, String> {
    let (name, operation) = inside.split_at(name_length(inside));
    if name.is_empty() {
        return Err(format!("`${{{inside}}}` does not begin with the name of a variable"));
    }
    let value = lookup(name);
    // With a colon, an empty value counts as missing.
    let (needs_content, operation) =
        operation.strip_prefix(':').map_or((false, operation), |operation| (true, operation));
    let value = value.filter(|value| !needs_content || !value.is_empty());
    let operand = operation.get(1..).unwrap_or_default();
    match operation.chars().next() {
        None if !needs_content => Ok(value.unwrap_or_else(|| missing(name, unset))),
        Some('-') => match value {
            Some(value) => Ok(value),
            None => expand_within(operand, lookup, unset, depth + 1),
        },
        Some('+') => match value {
            Some(_) => expand_within(operand, lookup, unset, depth + 1),
            None => Ok(String::new()),
        },
        Some('?') => value.ok_or_else(|| format!("the variable {name} is required: {operand}")),
        _ => Err(format!("`${{{inside}}}` has an unknown operator")),
    }
}

fn missing(name: &str, unset: &mut Vec<String>) -> String {
    unset.push(name.to_owned());
    String::new()
}

/// The byte position of the `}` that ends the text, which may contain further `${...}`.
fn closing_brace(text: &str) -> Option<usize> {
    let (mut depth, mut previous) = (0_usize, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '{' if previous == '$' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
        previous = c;
    }
    None
}

fn name_length(text: &str) -> usize {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !text.starts_with(is_first) {
        return 0;
    }
    text.find(|c: char| !is_first(c) && !c.is_ascii_digit()).unwrap_or(text.len())
}

/// Parses the lines of a `.env` file or `env_file`, in order. A key without `=` has no value. Variables in values are
/// expanded with `lookup` and the lines before, unless `raw`.
///
/// # Errors
/// The 1-based line and its mistake.
pub fn env_lines(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    raw: bool,
) -> Result<Vec<EnvLine>, (usize, String)> {
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            found.push((line.trim_end().to_owned(), None));
            continue;
        };
        let key = key.trim();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err((at + 1, format!("`{key}` is not the name of a variable")));
        }
        let value = if raw {
            value.to_owned()
        } else {
            let known = |name: &str| {
                let earlier = found.iter().rev().find(|(key, _)| key == name);
                lookup(name).or_else(|| earlier.and_then(|(_, value)| value.clone()))
            };
            env_value(value.trim(), &known).map_err(|what| (at + 1, what))?
        };
        found.push((key.to_owned(), Some(value)));
    }
    Ok(found)
}

/// The value of a line: single quotes are literal, double quotes permit escapes, and ` #` begins a comment outside
/// quotes.
fn env_value(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let quoted = |quote: char| {
        let inside = text.strip_prefix(quote)?;
        let mut escaped = false;
        let end = inside.char_indices().find(|(_, c)| {
            let ends = *c == quote && !escaped;
            escaped = *c == '\\' && !escaped && quote == '"';
            ends
        });
        Some(end.map(|(end, _)| &inside[..end]).ok_or_else(|| format!("a value lacks its closing {quote}")))
    };
    if let Some(literal) = quoted('\'') {
        return literal.map(str::to_owned);
    }
    let mut unset = Vec::new();
    if let Some(inside) = quoted('"') {
        let expanded = expand(inside?, lookup, &mut unset)?;
        let (mut out, mut escaped) = (String::new(), false);
        for c in expanded.chars() {
            match (escaped, c) {
                (false, '\\') => {
                    escaped = true;
                    continue;
                }
                (true, 'n') => out.push('\n'),
                (true, 'r') => out.push('\r'),
                (true, 't') => out.push('\t'),
                (_, c) => out.push(c),
            }
            escaped = false;
        }
        return Ok(out);
    }
    let plain = text.split_once(" #").map_or(text, |(value, _)| value).trim_end();
    expand(plain, lookup, &mut unset)
}

#[cfg(test)]
mod tests {
    //! Tests of interpolation and environment files.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{env_lines, expand};

    fn lookup(name: &str) -> Option<String> {
        match name {
            "SET" => Some("value".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn interpolation_follows_the_compose_specification() {
        for (text, expected) in [
            ("plain", "plain"),
            ("$SET-x", "value-x"),
            ("${SET}", "value"),
            ("$$SET and $${SET}", "$SET and ${SET}"),
            ("${NONE:-default}", "default"),
            ("${EMPTY:-default}", "default"),
            ("${EMPTY-default}", ""),
            ("${NONE-default}", "default"),
            ("${SET:?needed}", "value"),
            ("${EMPTY?needed}", ""),
            ("${SET:+replacement}", "replacement"),
            ("${EMPTY:+replacement}", ""),
            ("${EMPTY+replacement}", "replacement"),
            ("${NONE:-${SET}}!", "value!"),
            ("${NONE:-${OTHER-${SET}x}}!", "valuex!"),
            ("${NONE}.", "."),
        ] {
            assert_eq!(expand(text, &lookup, &mut Vec::new()).unwrap(), expected, "{text}");
        }
        for text in ["${NONE:?tell me}", "${EMPTY:?tell me}", "${SET", "${}", "${SET!x}", "a $ b", "${SET:}"]
        {
            assert!(expand(text, &lookup, &mut Vec::new()).is_err(), "{text}");
        }
        let mut unset = Vec::new();
        expand("$NONE ${OTHER} ${THIRD:-x}", &lookup, &mut unset).unwrap();
        assert_eq!(unset, ["NONE", "OTHER"]);
    }

    #[test]
    fn environment_files_are_read_line_by_line() {
        let text = "\u{feff}# comment\n\nA=1\nexport B = two # comment\nC='a $SET'\nD=\"a\\n${SET} \\\"q\\\"\"\nE=${A}x$SET\nF\nG=a#b\nH=\n";
        let lines = env_lines(text, &lookup, false).unwrap();
        let lines: Vec<(&str, Option<&str>)> =
            lines.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        let expected = [
            ("A", Some("1")),
            ("B", Some("two")),
            ("C", Some("a $SET")),
            ("D", Some("a\nvalue \"q\"")),
            ("E", Some("1xvalue")),
            ("F", None),
            ("G", Some("a#b")),
            ("H", Some("")),
        ];
        assert_eq!(lines, expected);
        assert_eq!(env_lines("A='$B' # c", &lookup, true).unwrap()[0].1.as_deref(), Some("'$B' # c"));
        assert_eq!(env_lines("A=1\nB C=1", &lookup, false).unwrap_err().0, 2);
        assert_eq!(env_lines("A='x", &lookup, false).unwrap_err().0, 1);
    }
}
