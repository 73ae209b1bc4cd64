//! Small things every cluster has: Namespaces, ServiceAccounts, Leases, priority and runtime classes.

use serde_json::Value;

use super::{AGE, Columns, NAME, age, flag, name, number, shown, text};

/// Namespaces.
pub const NAMESPACES: Columns = Columns {
    heads: &[NAME, shown("Status", "Whether it is on its way out."), AGE],
    cells: |object, now| vec![name(object), text(object, "status", "phase").into(), age::of(object, now)],
};

/// ServiceAccounts.
pub const SERVICE_ACCOUNTS: Columns = Columns {
    heads: &[NAME, number("Secrets", "How many Secrets it may mount."), AGE],
    cells: |object, now| {
        let secrets = object.get("secrets").and_then(Value::as_array).map_or(0, Vec::len);
        vec![name(object), secrets.into(), age::of(object, now)]
    },
};

/// Leases.
pub const LEASES: Columns = Columns {
    heads: &[NAME, shown("Holder", "Who has it."), AGE],
    cells: |object, now| {
        vec![name(object), text(object, "spec", "holderIdentity").into(), age::of(object, now)]
    },
};

/// PriorityClasses.
pub const PRIORITY_CLASSES: Columns = Columns {
    heads: &[
        NAME,
        number("Value", "The higher, the sooner."),
        flag("Global-Default", "Whether pods that name no class are of it."),
        AGE,
        shown("PreemptionPolicy", "Whether others must make room."),
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

/// RuntimeClasses.
pub const RUNTIME_CLASSES: Columns = Columns {
    heads: &[NAME, shown("Handler", "What runs its containers."), AGE],
    cells: |object, now| {
        let handler = object.get("handler").and_then(Value::as_str).unwrap_or_default();
        vec![name(object), handler.into(), age::of(object, now)]
    },
};
