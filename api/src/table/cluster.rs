//! Printer columns of kinds that every cluster has: Namespaces, ServiceAccounts, Leases, PriorityClasses, RuntimeClasses,
//! ComponentStatuses, ConfigMaps, Secrets, APIServices and role bindings.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, Columns, NAME, Object, age, at, field, flag, list, name, number, shown, text, wide,
};

/// The printer columns of Namespaces.
pub const NAMESPACES: Columns = Columns {
    heads: &[NAME, shown("Status", "The phase of the namespace."), AGE],
    cells: |object, now| vec![name(object), text(object, "status", "phase").into(), age::of(object, now)],
};

/// The printer columns of ServiceAccounts.
pub const SERVICE_ACCOUNTS: Columns = Columns {
    heads: &[NAME, number("Secrets", "The number of mountable Secrets."), AGE],
    cells: |object, now| {
        let secrets = object.get("secrets").and_then(Value::as_array).map_or(0, Vec::len);
        vec![name(object), secrets.into(), age::of(object, now)]
    },
};

/// The printer columns of Leases.
pub const LEASES: Columns = Columns {
    heads: &[NAME, shown("Holder", "The identity of the holder."), AGE],
    cells: |object, now| {
        vec![name(object), text(object, "spec", "holderIdentity").into(), age::of(object, now)]
    },
};

/// The printer columns of PriorityClasses.
pub const PRIORITY_CLASSES: Columns = Columns {
    heads: &[
        NAME,
        number("Value", "The priority."),
        flag("Global-Default", "Whether the class is the default."),
        AGE,
        shown("PreemptionPolicy", "Whether pods of the class preempt others."),
    ],
    cells: |object, now| {
        vec![
            name(object),
            object.get("value").and_then(Value::as_i64).unwrap_or_default().into(),
            (object.get("globalDefault").and_then(Value::as_bool) == Some(true)).into(),
            age::of(object, now),
            object.get("preemptionPolicy").and_then(Value::as_str).unwrap_or_default().into(),
        ]
    },
};

/// The printer columns of RuntimeClasses.
pub const RUNTIME_CLASSES: Columns = Columns {
    heads: &[NAME, shown("Handler", "The handler of the container runtime."), AGE],
    cells: |object, now| {
        let handler = object.get("handler").and_then(Value::as_str).unwrap_or_default();
        vec![name(object), handler.into(), age::of(object, now)]
    },
};

/// The printer columns of ComponentStatuses.
pub const COMPONENT_STATUSES: Columns = Columns {
    heads: &[
        NAME,
        shown("Status", "Whether the component is healthy."),
        shown("Message", "The message of the health check."),
        shown("Error", "Why the health check failed."),
    ],
    cells: |object, _| {
        let conditions = object.get("conditions").and_then(Value::as_array);
        let healthy =
            conditions.into_iter().flatten().find(|it| it.get("type").is_some_and(|it| it == "Healthy"));
        let text = |field: &str| healthy.and_then(|it| it.get(field)?.as_str()).unwrap_or_default();
        let status = match text("status") {
            "True" => "Healthy",
            "False" => "Unhealthy",
            _ => "Unknown",
        };
        vec![name(object), status.into(), text("message").into(), text("error").into()]
    },
};

const DATA: Column = number("Data", "The number of keys.");

/// The printer columns of ConfigMaps.
pub const CONFIG_MAPS: Columns = Columns { heads: &[NAME, DATA, AGE], cells: config_map };

/// The printer columns of Secrets.
pub const SECRETS: Columns = Columns { heads: &[NAME, shown("Type", "The type."), DATA, AGE], cells: secret };

fn config_map(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        (key_count(object, "data") + key_count(object, "binaryData")).into(),
        age::of(object, now),
    ]
}

fn secret(object: &Object, now: Timestamp) -> Vec<Value> {
    let of_type = object.get("type").and_then(Value::as_str).unwrap_or_default();
    vec![name(object), of_type.into(), key_count(object, "data").into(), age::of(object, now)]
}

fn key_count(object: &Object, field: &str) -> usize {
    object.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

/// The printer columns of APIServices.
pub const API_SERVICES: Columns = Columns {
    heads: &[
        NAME,
        shown("Service", "The service of the API group."),
        shown("Available", "Whether the API service is available."),
        AGE,
    ],
    cells: api_service,
};

fn api_service(object: &Object, now: Timestamp) -> Vec<Value> {
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

/// The printer columns of RoleBindings and ClusterRoleBindings.
pub const ROLE_BINDINGS: Columns = Columns {
    heads: &[
        NAME,
        shown("Role", "The role."),
        AGE,
        wide("Users", "The users with the role."),
        wide("Groups", "The groups with the role."),
        wide("ServiceAccounts", "The service accounts with the role."),
    ],
    cells: role_binding,
};

fn role_binding(object: &Object, now: Timestamp) -> Vec<Value> {
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
