//! Expands `$(NAME)` in commands, arguments and environment variables.

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

#[cfg(test)]
mod tests {
    //! Tests of variable expansion.

    use std::borrow::Cow;

    use super::{expand, expand_all};

    fn lookup(name: &str) -> Option<&'static str> {
        match name {
            "A" => Some("a"),
            "EMPTY" => Some(""),
            "REF" => Some("$(A)"),
            "odd name" => Some("odd"),
            _ => None,
        }
    }

    #[test]
    fn each_form() {
        for (text, expanded) in [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "a"),
            ("x$(A)y$(A)", "xaya"),
            ("[$(EMPTY)]", "[]"),
            ("$(NONE)", "$(NONE)"),
            ("$(REF)", "$(A)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$(A)", "$$(A)"),
            ("$", "$"),
            ("$$", "$"),
            ("end$", "end$"),
            ("$A ${A}", "$A ${A}"),
            ("$(A", "$(A"),
            ("$()", "$()"),
            ("$(odd name)", "odd"),
            ("$($(A))", "$($(A))"),
            ("é$(A)é", "éaé"),
        ] {
            assert_eq!(expand(text, lookup), expanded, "{text}");
        }
        assert!(matches!(expand("plain", lookup), Cow::Borrowed(_)));
    }

    #[test]
    fn unknown_variable_is_reported_where_it_is_required() {
        assert_eq!(expand_all("$(A)/$(NONE)/$(OTHER)", lookup), Err("NONE".to_owned()));
        assert_eq!(expand_all("logs/$(A)/$$(NONE)", lookup), Ok("logs/a/$(NONE)".to_owned()));
        assert_eq!(expand_all("plain", lookup), Ok("plain".to_owned()));
    }
}
