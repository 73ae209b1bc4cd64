//! Who is given which role.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Columns, NAME, Object, age, field, name, shown, text, wide};

/// RoleBindings and ClusterRoleBindings.
pub const ROLE_BINDINGS: Columns = Columns {
    heads: &[
        NAME,
        shown("Role", "What they may do."),
        AGE,
        wide("Users", "Users who may."),
        wide("Groups", "Groups that may."),
        wide("ServiceAccounts", "ServiceAccounts that may."),
    ],
    cells,
};

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "roleRef", "kind"), text(object, "roleRef", "name"));
    let subjects = object.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of = |kind: &str| {
        let found = subjects.iter().filter(|subject| field(subject, "kind") == kind);
        let names = found.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", field(subject, "namespace"), field(subject, "name")),
            _ => field(subject, "name").to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    vec![name(object), role.into(), age::of(object, now), of("User"), of("Group"), of("ServiceAccount")]
}
