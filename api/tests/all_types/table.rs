//! Writes the table: one line a type, one indented line a field, whatever can be reached from a kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::facts;
use super::openapi::{Field, Type};
use super::protobuf::{self, Messages, plain};

const HEAD: &str = "\
# Every type the kinds of Kubernetes are made of. Written by `UPDATE=1 cargo test -p api --test all_types`.
# type: name, `kind=` its API version, `atomic` when it is applied as a whole
# field: name, kind, numbers in protobuf from the outside in (`-`: not known), and of these what holds:
#   required; pointer: nothing and zero are two things; `default=` of a key of a list; list type `map=keys`, `set` or `atomic`; `merge=key`, `merge`,
#   `retainKeys` or `mergeRetainKeys=key` in a strategic merge
";

/// The text of the table.
pub fn write(types: &BTreeMap<String, Type>, messages: &Messages) -> String {
    let types = with_more(types);
    let mut facts = facts::Facts::default();
    let mut table = HEAD.to_owned();
    for name in reachable(&types) {
        let of = types.get(name).unwrap_or_else(|| panic!("{name} is reached and not there"));
        table.push_str(name);
        if let Some(api_version) = &of.api_version {
            write!(table, " kind={api_version}").unwrap();
        }
        if facts.is_atomic(name) {
            table.push_str(" atomic");
        }
        table.push('\n');
        for field in of.fields.keys() {
            write_field(&mut table, (name, of), field, messages, &mut facts);
        }
        all_claimed(name, of, messages);
    }
    facts.all_used();
    table
}

fn write_field(
    table: &mut String,
    (of, of_type): (&str, &Type),
    name: &str,
    messages: &Messages,
    facts: &mut facts::Facts,
) {
    let field = &of_type.fields[name];
    let in_json: BTreeSet<String> = of_type.fields.keys().map(|name| plain(name)).collect();
    let full = format!("{of}.{name}");
    let number = match numbers(&plain(name), of, messages, &in_json) {
        Some((number, wire)) => {
            assert!(fits(&field.kind, &wire), "{full} is {} and {wire}", field.kind);
            number
        }
        // What the envelope says is not said again in the object; other fields are newer than k8s-pb.
        None => "-".to_owned(),
    };
    write!(table, "  {name} {} {number}", field.kind).unwrap();
    if facts.is_written(&full) || field.required && !facts.is_optional(&full) {
        table.push_str(" required");
    }
    if facts.is_pointer(&full) {
        table.push_str(" pointer");
    }
    if let Some(default) = facts.default_of(&full) {
        write!(table, " default={default}").unwrap();
    }
    if let Some(list) = facts.list(&full).or(field.list.as_deref()) {
        write!(table, " {list}").unwrap();
    } else if facts.is_atomic(&field.kind) && !facts.is_granular(&full) {
        table.push_str(" atomic");
    }
    if let Some(patch) = facts.patch(&full) {
        write!(table, " {patch}").unwrap();
    }
    table.push('\n');
}

/// Fails for fields of a message that are none in JSON: a name was not recognized.
fn all_claimed(name: &str, of: &Type, messages: &Messages) {
    let in_json: BTreeSet<String> = of.fields.keys().map(|field| plain(field)).collect();
    for field in message_of(name, messages).unwrap_or_default() {
        let known = in_json.contains(&field.name)
            || is_embedded(name, field)
            || facts::GONE.contains(&(name, field.name.as_str()));
        assert!(known, "{name} has no field for {} of its message", field.name);
    }
}

/// Adds what k8s-openapi has other types for: lists, and values that are one of several.
fn with_more(types: &BTreeMap<String, Type>) -> BTreeMap<String, Type> {
    let field = |kind: &str| Field::plain(kind);
    let mut all = BTreeMap::new();
    for (name, of) in types {
        let api_version = match name.as_str() {
            "meta.v1.DeleteOptions" => Some("v1".to_owned()),
            // What discovery answers is nothing that is sent or stored.
            _ if name.starts_with("meta.v1.API") => None,
            _ => of.api_version.clone(),
        };
        if let Some(list) = &of.list {
            let mut fields = BTreeMap::new();
            fields.insert("apiVersion".to_owned(), field("string"));
            fields.insert("kind".to_owned(), field("string"));
            fields.insert("metadata".to_owned(), field("meta.v1.ListMeta"));
            let mut items = field(&format!("[]{name}"));
            items.required = true;
            fields.insert("items".to_owned(), items);
            let room = name.rsplit_once('.').unwrap().0;
            all.insert(
                format!("{room}.{list}"),
                Type { api_version: api_version.clone(), list: None, fields },
            );
        }
        let fields = of.fields.iter().map(|(name, field)| (name.clone(), field.clone())).collect();
        all.insert(name.clone(), Type { api_version, list: None, fields });
    }
    for (name, fields) in facts::ONE_OF {
        let fields = fields.iter().map(|(name, kind)| ((*name).to_owned(), field(kind))).collect();
        all.insert((*name).to_owned(), Type { fields, ..Type::default() });
    }
    all
}

/// Kinds, and every type that they are made of.
fn reachable(types: &BTreeMap<String, Type>) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut ahead: Vec<&str> =
        types.iter().filter(|(_, of)| of.api_version.is_some()).map(|(name, _)| name.as_str()).collect();
    while let Some(name) = ahead.pop() {
        if found.insert(name) {
            let fields = types.get(name).unwrap_or_else(|| panic!("{name} is not there")).fields.values();
            ahead.extend(fields.filter_map(|field| object(&field.kind)));
        }
    }
    found
}

/// The type that a kind is made of.
fn object(kind: &str) -> Option<&str> {
    let mut inner = kind;
    while let Some(of) = inner.strip_prefix("[]").or_else(|| inner.strip_prefix("{}")) {
        inner = of;
    }
    let inner = inner.strip_prefix("oneOf:").unwrap_or(inner);
    inner.contains('.').then_some(inner)
}

/// The message of a type. One that k8s-pb is too old for had the same numbers in the versions before `v1`.
fn message_of<'a>(of: &str, messages: &'a Messages) -> Option<&'a [protobuf::Field]> {
    let (room, name) = of.rsplit_once('.').unwrap();
    let group = room.split('.').next().unwrap();
    let rooms = [room.to_owned(), format!("{group}.v1beta1"), format!("{group}.v1alpha1")];
    rooms.iter().find_map(|room| messages.get(&format!("{room}.{}", plain(name)))).map(Vec::as_slice)
}

/// The numbers that lead to a field, and how it is written. Messages that are no field in JSON are looked into.
fn numbers(
    name: &str,
    of: &str,
    messages: &Messages,
    in_json: &BTreeSet<String>,
) -> Option<(String, String)> {
    let message = message_of(of, messages)?;
    if let Some(field) = message.iter().find(|field| field.name == name) {
        return Some((field.number.clone(), field.wire.clone()));
    }
    let room = of.rsplit_once('.')?.0;
    let embedded = message.iter().filter(|field| is_embedded(of, field) && !in_json.contains(&field.name));
    embedded.into_iter().find_map(|field| {
        let (number, wire) = numbers(name, &format!("{room}.{}", field.message), messages, in_json)?;
        Some((format!("{}.{number}", field.number), wire))
    })
}

/// A struct that Go embeds is a message under its own name.
fn is_embedded(of: &str, field: &protobuf::Field) -> bool {
    field.wire.starts_with("message, optional")
        && (field.name == field.message || facts::EMBEDDED.contains(&(of, field.name.as_str())))
}

/// Whether a value of that kind may be written like that.
fn fits(kind: &str, wire: &str) -> bool {
    let one = match kind {
        "string" | "bool" | "int32" | "int64" | "double" => kind,
        "bytes" => "bytes = \"vec\"",
        _ if kind.starts_with("[]") => {
            let of = kind.trim_start_matches("[]");
            let of = if matches!(of, "string" | "bool" | "int32" | "int64") { of } else { "message" };
            return wire.starts_with(&format!("{of}, repeated"));
        }
        _ if kind.starts_with("{}") => return wire.starts_with("btree_map = \"string, "),
        _ => "message",
    };
    wire.starts_with(&format!("{one}, optional"))
}
