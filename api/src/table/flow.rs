//! Which requests wait for which: FlowSchemas and PriorityLevelConfigurations.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Columns, NAME, NONE, Object, age, at, condition, name, or_none, plain, shown, text, text_at,
};

/// FlowSchemas.
pub const FLOW_SCHEMAS: Columns = Columns {
    heads: &[
        NAME,
        shown("PriorityLevel", "How such requests are treated."),
        shown("MatchingPrecedence", "The lower, the sooner it is asked."),
        shown("DistinguisherMethod", "What makes requests of one flow."),
        AGE,
        shown("MissingPL", "Whether there is no such priority level."),
    ],
    cells: flow_schema,
};

/// PriorityLevelConfigurations.
pub const PRIORITY_LEVELS: Columns = Columns {
    heads: &[
        NAME,
        shown("Type", "Whether it is limited at all."),
        shown("NominalConcurrencyShares", "Its share of what can be done at once."),
        shown("Queues", "How many queues it has."),
        shown("HandSize", "Among how many of them a flow is spread."),
        shown("QueueLengthLimit", "How many requests may wait in one."),
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
    let said = |path: &[&str]| Value::from(at(object, path).map_or_else(|| NONE.to_owned(), plain));
    let queuing = |of: &str| said(&["spec", "limited", "limitResponse", "queuing", of]);
    let shares = match text(object, "spec", "type") {
        "Exempt" => said(&["spec", "exempt", "nominalConcurrencyShares"]),
        _ => said(&["spec", "limited", "nominalConcurrencyShares"]),
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
