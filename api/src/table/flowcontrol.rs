//! Printer columns of FlowSchemas and PriorityLevelConfigurations.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Columns, NAME, NONE, Object, age, at, condition, name, or_none, plain, shown, text, text_at,
};

/// The printer columns of FlowSchemas.
pub const FLOW_SCHEMAS: Columns = Columns {
    heads: &[
        NAME,
        shown("PriorityLevel", "The priority level of the requests."),
        shown("MatchingPrecedence", "The precedence; lower numbers are matched first."),
        shown("DistinguisherMethod", "How requests are assigned to flows."),
        AGE,
        shown("MissingPL", "Whether the priority level does not exist."),
    ],
    cells: flow_schema,
};

/// The printer columns of PriorityLevelConfigurations.
pub const PRIORITY_LEVELS: Columns = Columns {
    heads: &[
        NAME,
        shown("Type", "Whether the priority level is limited."),
        shown("NominalConcurrencyShares", "The nominal share of the concurrency limit."),
        shown("Queues", "The number of queues."),
        shown("HandSize", "The number of queues that a flow can use."),
        shown("QueueLengthLimit", "The maximum number of requests in a queue."),
        AGE,
    ],
    cells: priority_level,
};

fn flow_schema(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text_at(object, &["spec", "priorityLevelConfiguration", "name"]).into(),
        at(object, &["spec", "matchingPrecedence"]).map(plain).unwrap_or_default().into(),
        or_none(text_at(object, &["spec", "distinguisherMethod", "type"])),
        age::of(object, now),
        condition(object, "Dangling").unwrap_or("?").into(),
    ]
}

fn priority_level(object: &Object, now: Timestamp) -> Vec<Value> {
    let value_at = |path: &[&str]| Value::from(at(object, path).map_or_else(|| NONE.to_owned(), plain));
    let queuing = |of: &str| value_at(&["spec", "limited", "limitResponse", "queuing", of]);
    let shares = match text(object, "spec", "type") {
        "Exempt" => value_at(&["spec", "exempt", "nominalConcurrencyShares"]),
        _ => value_at(&["spec", "limited", "nominalConcurrencyShares"]),
    };
    vec![
        name(object),
        text(object, "spec", "type").into(),
        shares,
        queuing("queues"),
        queuing("handSize"),
        queuing("queueLengthLimit"),
        age::of(object, now),
    ]
}
