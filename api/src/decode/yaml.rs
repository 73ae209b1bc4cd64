//! YAML to JSON values, with every limit set on purpose.

use serde_json::Value;
use serde_yaml::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy, Options};

use super::syntax::SyntaxError;

/// Levels of lists and maps a document may nest. A Pod in a List needs 16; the rest is room. Keeps the stack small.
pub(super) const MAX_DEPTH: usize = 64;
/// Nodes a document may hold before aliases are expanded: a ConfigMap with 100,000 entries fits.
const MAX_NODES: usize = 250_000;
/// Nodes that aliases may add to one document, so that a short text cannot become a huge object.
const MAX_EXPANDED_NODES: usize = 20_000;
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
            max_recorded_anchor_events: MAX_NODES,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: 2 * MAX_EXPANDED_NODES,
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
pub(super) fn parse(text: &str) -> Result<Option<Value>, SyntaxError> {
    match serde_yaml::from_str_with_options::<Option<Value>>(text, options()) {
        Ok(value) => Ok(value.filter(|value| !value.is_null())),
        Err(error) => {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            Err(SyntaxError {
                line: u32::try_from(line).unwrap_or(u32::MAX).max(1),
                column: u32::try_from(column).unwrap_or(u32::MAX).max(1),
                what: error.to_string(),
                remedy: "correct the YAML here".to_owned(),
            })
        }
    }
}
