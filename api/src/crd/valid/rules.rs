//! Whether the rules of a schema make sense: each is compiled for the values it stands at.

use cel::Type;
use serde_json::{Map, Value};

use super::{Causes, list, text};
use crate::crd::rules::{Rule, field_path, type_of};
use crate::crd::schema::{MAX_DEPTH, Schema};
use crate::path::Path;

/// Why a value is refused, as rules may say.
const REASONS: [&str; 4] =
    ["FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate"];

/// Where a part of a schema stands.
#[derive(Clone)]
struct Place {
    depth: usize,
    is_resource: bool,
    /// The part above which no value is known to replace another.
    uncorrelatable: Option<String>,
}

pub(super) fn rules(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    part(schema, &Place { depth: 0, is_resource: true, uncorrelatable: None }, path, causes);
}

fn part(schema: &Value, place: &Place, path: &Path<'_>, causes: &mut Causes) {
    let Some(of) = schema.as_object().filter(|_| place.depth <= MAX_DEPTH) else { return };
    own(schema, place, path, causes);
    let below = |part: &Value, is_correlatable: bool, path: &Path<'_>, causes: &mut Causes| {
        let here = || super::named(path);
        let place = Place {
            depth: place.depth + 1,
            is_resource: part.get("x-kubernetes-embedded-resource").is_some_and(|flag| *flag == true),
            uncorrelatable: place.uncorrelatable.clone().or_else(|| (!is_correlatable).then(here)),
        };
        self::part(part, &place, path, causes);
    };
    let is_granular = text(Some(schema), "x-kubernetes-map-type") != "atomic";
    let is_map = text(Some(schema), "x-kubernetes-list-type") == "map";
    for (name, property) in of.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        below(property, is_granular, &path.field("properties").key(name), causes);
    }
    for (keyword, is_correlatable) in [("additionalProperties", is_granular), ("items", is_map)] {
        if let Some(inner) = of.get(keyword) {
            below(inner, is_correlatable, &path.field(keyword), causes);
        }
    }
}

/// The rules that stand at this part.
fn own(json: &Value, place: &Place, path: &Path<'_>, causes: &mut Causes) {
    let rules = list(Some(json), "x-kubernetes-validations");
    if rules.is_empty() {
        return;
    }
    let mut schema = Schema::read_part(json);
    schema.is_embedded = place.is_resource;
    let of = type_of(&schema, place.is_resource);
    let path = path.field("x-kubernetes-validations");
    for (at, rule) in rules.iter().enumerate() {
        one(rule, &of, &schema, place, &path.index(at), causes);
    }
}

fn one(rule: &Value, of: &Type, schema: &Schema, place: &Place, path: &Path<'_>, causes: &mut Causes) {
    let said = |field: &str| rule.get(field).and_then(Value::as_str);
    let source = said("rule").unwrap_or_default();
    if source.trim().is_empty() {
        return causes.required(&path.field("rule"), "rule is not specified");
    }
    if let Some(message) = said("message") {
        let path = path.field("message");
        if !message.is_empty() && message.trim().is_empty() {
            causes.invalid(&path, &message.into(), "message must be non-empty if specified");
        } else if message.trim().contains('\n') {
            causes.invalid(&path, &message.into(), "message must not contain line breaks");
        }
    } else if source.trim().contains('\n') && said("messageExpression").is_none_or(str::is_empty) {
        causes.required(&path.field("message"), "message must be specified if rule contains line breaks");
    }
    if let Some(message) = said("messageExpression").filter(|message| !message.is_empty())
        && message.trim().is_empty()
    {
        causes.required(&path.field("messageExpression"), "messageExpression must be non-empty if specified");
    }
    if let Some(reason) = said("reason").filter(|reason| !REASONS.contains(reason)) {
        causes.not_supported(&path.field("reason"), reason, &REASONS);
    }
    if let Some(field) = said("fieldPath").filter(|field| !field.is_empty())
        && let Err(why) = field_path(field.trim(), schema)
    {
        let why = format!("fieldPath must be a valid path: {why}");
        causes.invalid(&path.field("fieldPath"), &field.into(), &why);
    }
    match Rule::compile(rule, of) {
        Err(refusal) => {
            let value = said(refusal.field).unwrap_or_default();
            causes.invalid(&path.field(refusal.field), &value.into(), &refusal.why);
        }
        Ok(made) => {
            let is_optional = rule.get("optionalOldSelf").is_some_and(|flag| !flag.is_null());
            let path_of = |field| path.field(field);
            match &place.uncorrelatable {
                Some(within) if made.uses_old => {
                    let why = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    );
                    causes.invalid(&path_of("rule"), &source.into(), &why);
                }
                _ if is_optional && !made.uses_old => {
                    let why = "may not be set if oldSelf is not used in rule";
                    causes.invalid(&path_of("optionalOldSelf"), &rule["optionalOldSelf"], why);
                }
                _ => {}
            }
        }
    }
}
