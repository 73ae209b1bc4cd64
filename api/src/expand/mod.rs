//! `$(NAME)` in commands, arguments and values becomes the variable's value.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

/// Replaces each `$(NAME)` that `lookup` knows. An unknown one stays as it is, `$$` is one `$` and hides what follows
/// from expansion, and any other `$` is itself.
pub fn expand<'a, 'v>(text: &'a str, lookup: impl Fn(&str) -> Option<&'v str>) -> Cow<'a, str> {
    match walk(text, |name| lookup(name)) {
        None => Cow::Borrowed(text),
        Some((expanded, _)) => Cow::Owned(expanded),
    }
}

/// As [`expand`], for texts that make no sense with an unknown variable left in, such as `subPathExpr`.
///
/// # Errors
/// The name of the first unknown variable.
pub fn expand_all<'v>(text: &str, lookup: impl Fn(&str) -> Option<&'v str>) -> Result<String, String> {
    match walk(text, |name| lookup(name)) {
        None => Ok(text.to_owned()),
        Some((expanded, None)) => Ok(expanded),
        Some((_, Some(unknown))) => Err(unknown),
    }
}

/// The expanded text and the first unknown name; `None` when there is no `$` at all.
fn walk<'v>(text: &str, lookup: impl Fn(&str) -> Option<&'v str>) -> Option<(String, Option<String>)> {
    let first = text.find('$')?;
    let mut expanded = String::with_capacity(text.len());
    let mut unknown = None;
    expanded.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(after) = rest.strip_prefix('$') {
        rest = if let Some(literal) = after.strip_prefix('$') {
            expanded.push('$');
            literal
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|open| open.split_once(')')) {
            match lookup(name) {
                Some(value) => expanded.push_str(value),
                None => {
                    expanded.push_str(&rest[..name.len() + 3]);
                    unknown.get_or_insert_with(|| name.to_owned());
                }
            }
            tail
        } else {
            expanded.push('$');
            after
        };
        let next = rest.find('$').unwrap_or(rest.len());
        expanded.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    Some((expanded, unknown))
}
