//! Parses YAML with explicit limits.

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_yaml::budget::BudgetBreach;
use serde_yaml::{DuplicateKeyPolicy, Error, MergeKeyPolicy, NonFiniteFloatPolicy, Options};

use super::flow_style;
use super::text::{CHECK_NESTING, SyntaxError, TOO_DEEP};
use super::value::{DecodeLimits, TOO_MUCH};

/// Limit for the nesting of a document. A Pod in a List needs 16 levels. The limit keeps the stack small.
const MAX_DEPTH: usize = 64;
/// Limit for the nodes of one document as written. [`DecodeLimits`] limits the whole manifest with all aliases
/// expanded.
const MAX_NODES: usize = 250_000;
/// Maximum number of YAML nodes under anchors in one document.
const MAX_ALIASED_NODES: usize = 100_000;
/// Limit for aliases inside of aliases.
const MAX_ALIAS_DEPTH: usize = 16;

pub(super) fn options() -> Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES,
            max_documents: 2,
            max_recorded_anchor_events: MAX_ALIASED_NODES,
            // Many uses of one anchor are legitimate; the total is limited instead.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: 2 * MAX_ALIASED_NODES,
            max_replay_stack_depth: MAX_ALIAS_DEPTH,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Merge,
        // `defaultMode: 0644` is octal for all readers of Kubernetes manifests.
        legacy_octal_numbers: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

/// Parses one document. Returns `None` if it contains only comments.
pub(super) fn parse(text: &str, limits: &DecodeLimits) -> Result<Option<Value>, SyntaxError> {
    match serde_yaml::with_deserializer_from_str_with_options(text, options(), |yaml| {
        limits.deserialize(yaml)
    }) {
        Ok(value) => Ok((!value.is_null()).then_some(value)),
        Err(error) => Err(syntax_error(&error, text)),
    }
}

fn syntax_error(error: &Error, text: &str) -> SyntaxError {
    let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
    let line = u32::try_from(line).unwrap_or(u32::MAX).max(1);
    let column = u32::try_from(column).unwrap_or(u32::MAX).max(1);
    let (what, remedy) = explain(innermost(error), text);
    // The parser reports an unclosed bracket only when a later line does not fit. Report the bracket instead.
    let is_late = what.contains("did not find expected ','") || what.contains("illegal placement of ':'");
    if let Some(open) = flow_style::unclosed(text, line).filter(|_| is_late) {
        return SyntaxError {
            line: open.line,
            column: open.column,
            what: format!("the `{}` that opens here is never closed", open.bracket),
            remedy: format!("write `{}` where it ends", open.closer()),
        };
    }
    SyntaxError { line, column, what, remedy: remedy.to_owned() }
}

fn innermost(error: &Error) -> &Error {
    match error {
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => innermost(error),
        error => error,
    }
}

/// The message and the remedy for an error.
fn explain(error: &Error, text: &str) -> (String, &'static str) {
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            let key: String = key.chars().take(60).collect();
            (format!("the key `{key}` is defined twice"), "keep one of them")
        }
        Error::DuplicateMappingKey { key: None, .. } => {
            ("a key is defined twice".to_owned(), "keep one of them")
        }
        Error::UnknownAnchor { .. } => (
            "an alias without an anchor".to_owned(),
            "define the anchor (`&name`) before it is used (`*name`)",
        ),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("an alias inside of its own anchor".to_owned(), "write the value out")
        }
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            (TOO_LARGE.to_owned(), "split it into several files, and write fewer aliases")
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { .. } => {
            (TOO_LARGE.to_owned(), "split it into several files, and write fewer aliases")
        }
        Error::Unexpected { expected: "string scalar", .. } => (
            "expected a name, found a list or map".to_owned(),
            if_template(text, "write a plain name before the colon"),
        ),
        other => syntax(&other.to_string(), text),
    }
}

/// The message of the scanner, without its position.
fn syntax(message: &str, text: &str) -> (String, &'static str) {
    let what = message.rsplit_once(" at line ").map_or(message, |(what, _)| what);
    if what.starts_with(TOO_MUCH) {
        return (what.to_owned(), "split it into several files, and write fewer aliases");
    }
    if what.contains("nesting") || what.contains("recursion") {
        return too_deep();
    }
    let remedy = if what.starts_with("tabs disallowed") {
        "indent with spaces"
    } else if what.starts_with("unclosed") {
        "close it; the file may be truncated"
    } else if what.contains("unexpected character") {
        "put the value in quotes"
    } else if what.contains("mapping values are not allowed") {
        "check the indentation, and put a value that holds `: ` in quotes"
    } else if what.contains("did not find expected") {
        "check the indentation of this line and the one before"
    } else {
        "correct the YAML here"
    };
    (what.to_owned(), if_template(text, remedy))
}

const TOO_LARGE: &str = "the document with all aliases expanded exceeds the limits of a manifest";

fn too_deep() -> (String, &'static str) {
    (TOO_DEEP.to_owned(), CHECK_NESTING)
}

/// The remedy for a text that contains a template, such as those of Helm charts; `otherwise` for any other text.
fn if_template(text: &str, otherwise: &'static str) -> &'static str {
    if text.contains("{{") && text.contains("}}") {
        "this looks like a template: render it first"
    } else {
        otherwise
    }
}
