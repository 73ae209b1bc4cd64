//! Expands `$(NAME)` in commands, arguments and environment variables.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

/// Replaces each `$(NAME)` by the value that `lookup` returns. Unknown names stay unchanged, and `$$` is an escaped
/// `$`.
pub fn expand<'a, 'v>(text: &'a str, lookup: impl Fn(&str) -> Option<&'v str>) -> Cow<'a, str> {
    match walk(text, |name| lookup(name)) {
        None => Cow::Borrowed(text),
        Some((expanded, _)) => Cow::Owned(expanded),
    }
}

/// Does the same as [`expand`], but fails for unknown names, as fields such as `subPathExpr` require.
///
/// # Errors
/// If a name is unknown. The error is the first such name.
pub fn expand_all<'v>(text: &str, lookup: impl Fn(&str) -> Option<&'v str>) -> Result<String, String> {
    match walk(text, |name| lookup(name)) {
        None => Ok(text.to_owned()),
        Some((expanded, None)) => Ok(expanded),
        Some((_, Some(unknown))) => Err(unknown),
    }
}

/// The expanded text and the first unknown name, or `None` if there is no `$`.
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
