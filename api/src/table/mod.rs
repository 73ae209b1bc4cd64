//! Objects as people read them: the columns that kubectl prints, cell by cell.

mod age;
mod data;
mod event;
mod node;
mod pod;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub use self::age::duration;

/// An object as it is served.
pub type Object = Map<String, Value>;

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// `string` or `integer`.
    pub kind: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

/// How objects of one resource are printed.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The heads.
    pub heads: &'static [Column],
    /// The cells of one object, as many as there are heads.
    pub cells: fn(&Object, Timestamp) -> Vec<Value>,
}

/// What is left when nothing better is known.
pub const NAME_AND_AGE: Columns =
    Columns { heads: &[NAME, AGE], cells: |object, now| vec![name(object), age::of(object, now)] };

/// Pods.
pub const PODS: Columns = Columns {
    heads: &[
        NAME,
        shown("Ready"),
        shown("Status"),
        shown("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    cells: pod::cells,
};

/// Nodes.
pub const NODES: Columns = Columns {
    heads: &[
        NAME,
        shown("Status"),
        shown("Roles"),
        AGE,
        shown("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    cells: node::cells,
};

/// Events.
pub const EVENTS: Columns = Columns {
    heads: &[
        shown("Last Seen"),
        shown("Type"),
        shown("Reason"),
        shown("Object"),
        wide("Subobject"),
        wide("Source"),
        shown("Message"),
        wide("First Seen"),
        Column { name: "Count", kind: "integer", priority: 1 },
        wide("Name"),
    ],
    cells: event::cells,
};

/// ConfigMaps.
pub const CONFIG_MAPS: Columns = Columns { heads: &[NAME, DATA, AGE], cells: data::config_map };

/// Secrets.
pub const SECRETS: Columns = Columns { heads: &[NAME, shown("Type"), DATA, AGE], cells: data::secret };

const NAME: Column = shown("Name");
const AGE: Column = shown("Age");
const DATA: Column = Column { name: "Data", kind: "integer", priority: 0 };

const fn shown(name: &'static str) -> Column {
    Column { name, kind: "string", priority: 0 }
}

const fn wide(name: &'static str) -> Column {
    Column { name, kind: "string", priority: 1 }
}

/// What stands in a cell that has nothing to say.
const NONE: &str = "<none>";

fn name(object: &Object) -> Value {
    text(object, "metadata", "name").into()
}

/// The text at `outer.inner`; empty when there is none.
fn text<'a>(object: &'a Object, outer: &str, inner: &str) -> &'a str {
    object.get(outer).and_then(|outer| outer.get(inner)).and_then(Value::as_str).unwrap_or_default()
}

/// The list at `outer.inner`; empty when there is none.
fn list<'a>(object: &'a Object, outer: &str, inner: &str) -> &'a [Value] {
    let list = object.get(outer).and_then(|outer| outer.get(inner)).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The text of a field; empty when there is none.
fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The status of the condition of that type.
fn condition<'a>(object: &'a Object, of_type: &str) -> Option<&'a str> {
    let mut conditions = list(object, "status", "conditions").iter();
    conditions
        .find(|condition| field(condition, "type") == of_type)
        .map(|condition| field(condition, "status"))
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}
