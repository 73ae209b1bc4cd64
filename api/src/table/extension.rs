//! What extends the API: groups that other servers answer for.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Columns, NAME, Object, age, at, field, list, name, shown};

/// APIServices.
pub const API_SERVICES: Columns = Columns {
    heads: &[
        NAME,
        shown("Service", "Who answers for the group."),
        shown("Available", "Whether it does."),
        AGE,
    ],
    cells,
};

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let service = at(object, &["spec", "service"]).map_or_else(
        || "Local".to_owned(),
        |service| format!("{}/{}", field(service, "namespace"), field(service, "name")),
    );
    let mut conditions = list(object, "status", "conditions").iter();
    let available = conditions.find(|condition| field(condition, "type") == "Available").map_or_else(
        || "Unknown".to_owned(),
        |condition| match (field(condition, "status"), field(condition, "reason")) {
            ("True", _) => "True".to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    vec![name(object), service.into(), available.into(), age::of(object, now)]
}
