//! YAML to JSON values, with every limit set on purpose.

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_yaml::budget::BudgetBreach;
use serde_yaml::{DuplicateKeyPolicy, Error, MergeKeyPolicy, NonFiniteFloatPolicy, Options};

use super::flow;
use super::syntax::{CHECK_NESTING, SyntaxError, TOO_DEEP};
use super::value::{Allowance, TOO_MUCH};

/// Levels of lists and maps a document may nest. A Pod in a List needs 16; the rest is room. Keeps the stack small.
const MAX_DEPTH: usize = 64;
/// Lists, maps and scalars of one document, as written. What a whole manifest may hold, aliases included, the
/// allowance says.
const MAX_NODES: usize = 250_000;
/// Lists, maps and scalars that anchors of one document hold, and that aliases repeat: a template a hundred times over.
const MAX_ALIASED_NODES: usize = 100_000;
/// Aliases inside what aliases expand to; people write one or two levels.
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
            // Using one anchor a hundred times is honest; what it adds up to is counted.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: 2 * MAX_ALIASED_NODES,
            max_replay_stack_depth: MAX_ALIAS_DEPTH,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Merge,
        // `defaultMode: 0644` means what it means to every other reader of Kubernetes manifests.
        legacy_octal_numbers: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

/// Parses one document; `None` when it holds nothing but comments.
pub(super) fn parse(text: &str, allowance: &Allowance) -> Result<Option<Value>, SyntaxError> {
    match serde_yaml::with_deserializer_from_str_with_options(text, options(), |yaml| {
        allowance.deserialize(yaml)
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
    // What follows an open bracket is read as if it stood inside, until something there cannot.
    let is_late = what.contains("did not find expected ','") || what.contains("illegal placement of ':'");
    if let Some(open) = flow::unclosed(text, line).filter(|_| is_late) {
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

/// What is wrong, and what to write instead.
fn explain(error: &Error, text: &str) -> (String, &'static str) {
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            let key: String = key.chars().take(60).collect();
            (format!("the key `{key}` stands here twice"), "keep one of them")
        }
        Error::DuplicateMappingKey { key: None, .. } => {
            ("a key stands here twice".to_owned(), "keep one of them")
        }
        Error::UnknownAnchor { .. } => (
            "an alias without its anchor".to_owned(),
            "define the anchor (`&name`) before it is used (`*name`)",
        ),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("an alias inside of what it stands for".to_owned(), "write the value out")
        }
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            (MUCH.to_owned(), "split it into several files, and write fewer aliases")
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { .. } => (MUCH.to_owned(), "split it into several files, and write fewer aliases"),
        Error::Unexpected { expected: "string scalar", .. } => (
            "a list or map stands where a name must".to_owned(),
            if_template(text, "write a plain name before the colon"),
        ),
        other => syntax(&other.to_string(), text),
    }
}

/// The scanner's own words, without the place that the problem has already.
fn syntax(said: &str, text: &str) -> (String, &'static str) {
    let what = said.rsplit_once(" at line ").map_or(said, |(what, _)| what);
    if what.starts_with(TOO_MUCH) {
        return (what.to_owned(), "split it into several files, and write fewer aliases");
    }
    if what.contains("nesting") || what.contains("recursion") {
        return too_deep();
    }
    let remedy = if what.starts_with("tabs disallowed") {
        "indent with spaces"
    } else if what.starts_with("unclosed") {
        "close it; the file may be cut off"
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

const MUCH: &str = "the document, with its aliases written out, holds more than a manifest may";

fn too_deep() -> (String, &'static str) {
    (TOO_DEEP.to_owned(), CHECK_NESTING)
}

/// Charts and the like are no manifests before they are rendered.
fn if_template(text: &str, otherwise: &'static str) -> &'static str {
    if text.contains("{{") && text.contains("}}") {
        "this looks like a template: render it first"
    } else {
        otherwise
    }
}
