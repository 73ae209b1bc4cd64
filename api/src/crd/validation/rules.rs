//! Validates CEL rules: compiles each rule for its schema and estimates its cost.

use cel::Type;
use serde_json::{Map, Value};

use super::{Causes, list, text};
use crate::crd::rules::{
    Cardinality, MAX_EXPRESSION_COST, MAX_SCHEMA_COST, Rule, excess, field_path, size_estimate_of, type_of,
};
use crate::crd::schema::{MAX_DEPTH, Schema};
use crate::path::Path;
use crate::strategy::Cause;

/// Allowed values of `reason`.
const REASONS: [&str; 4] =
    ["FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate"];

/// The context in which the rules of a schema are validated.
#[derive(Clone)]
struct Context {
    depth: usize,
    is_resource: bool,
    /// The outermost schema whose old and new values cannot be correlated, if there is one.
    uncorrelatable: Option<String>,
    /// The maximum number of values at this position in one object.
    cardinality: Cardinality,
}

/// The estimated cost of all rules of a schema.
#[derive(Default)]
struct Total {
    cost: u64,
    /// The most expensive expressions with their paths. The error names them if the total is too high.
    largest: Vec<(u64, String)>,
}

/// The number of expressions that are named if the total cost is too high.
const MAX_NAMED: usize = 4;

impl Total {
    fn add(&mut self, cost: u64, path: &Path<'_>) {
        self.cost = self.cost.saturating_add(cost);
        self.largest.push((cost, super::named(path)));
        self.largest.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        self.largest.truncate(MAX_NAMED);
    }
}

pub(super) fn rules(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let context =
        Context { depth: 0, is_resource: true, uncorrelatable: None, cardinality: Cardinality::ONE };
    let mut total = Total::default();
    part(schema, &context, path, &mut total, causes);
    let what = "estimated rule & messageExpression cost total";
    if let Some(why) = excess(what, total.cost, MAX_SCHEMA_COST) {
        for (_, path) in total.largest {
            let why = "contributed to estimated rule & messageExpression cost total exceeding cost limit for entire OpenAPIv3 schema";
            causes.add(Cause::forbidden(path, why));
        }
        causes.forbidden(path, &why);
    }
}

fn part(schema: &Value, context: &Context, path: &Path<'_>, total: &mut Total, causes: &mut Causes) {
    let Some(of) = schema.as_object().filter(|_| context.depth <= MAX_DEPTH) else { return };
    own(schema, context, path, total, causes);
    let mut below = |part: &Value,
                     is_correlatable: bool,
                     most: Option<Option<u64>>,
                     path: &Path<'_>,
                     causes: &mut Causes| {
        let here = || super::named(path);
        let context = Context {
            depth: context.depth + 1,
            is_resource: part.get("x-kubernetes-embedded-resource").is_some_and(|flag| *flag == true),
            uncorrelatable: context.uncorrelatable.clone().or_else(|| (!is_correlatable).then(here)),
            cardinality: most.map_or(context.cardinality, |most| context.cardinality.times(most)),
        };
        self::part(part, &context, path, total, causes);
    };
    let is_granular = text(Some(schema), "x-kubernetes-map-type") != "atomic";
    let is_map = text(Some(schema), "x-kubernetes-list-type") == "map";
    for (name, property) in of.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        below(property, is_granular, None, &path.field("properties").key(name), causes);
    }
    for (keyword, limit, is_correlatable) in
        [("additionalProperties", "maxProperties", is_granular), ("items", "maxItems", is_map)]
    {
        if let Some(inner) = of.get(keyword) {
            let most = of.get(limit).and_then(Value::as_u64);
            below(inner, is_correlatable, Some(most), &path.field(keyword), causes);
        }
    }
}

/// Validates the rules of this schema, without its subschemas.
fn own(json: &Value, context: &Context, path: &Path<'_>, total: &mut Total, causes: &mut Causes) {
    let rules = list(Some(json), "x-kubernetes-validations");
    if rules.is_empty() {
        return;
    }
    let mut schema = Schema::read_part(json);
    schema.is_embedded = context.is_resource;
    let of = type_of(&schema, context.is_resource);
    let extent = size_estimate_of(&schema, context.is_resource);
    let path = path.field("x-kubernetes-validations");
    for (at, rule) in rules.iter().enumerate() {
        let path = path.index(at);
        let Some(compiled) = one(rule, &of, &schema, context, &path, causes) else { continue };
        let (rule, message) = compiled.costs(&extent);
        for (field, what, cost) in [
            ("rule", "estimated rule cost", rule),
            ("messageExpression", "estimated messageExpression cost", message),
        ] {
            let cost = context.cardinality.of_all(cost, &schema);
            let path = path.field(field);
            if let Some(why) = excess(what, cost, MAX_EXPRESSION_COST) {
                causes.forbidden(&path, &why);
            }
            if cost > 0 {
                total.add(cost, &path);
            }
        }
    }
}

/// Validates one rule, and returns it if it compiles.
fn one(
    rule: &Value,
    of: &Type,
    schema: &Schema,
    context: &Context,
    path: &Path<'_>,
    causes: &mut Causes,
) -> Option<Rule> {
    let string = |field: &str| rule.get(field).and_then(Value::as_str);
    let source = string("rule").unwrap_or_default();
    if source.trim().is_empty() {
        causes.required(&path.field("rule"), "rule is not specified");
        return None;
    }
    if let Some(message) = string("message") {
        let path = path.field("message");
        if !message.is_empty() && message.trim().is_empty() {
            causes.invalid(&path, &message.into(), "message must be non-empty if specified");
        } else if message.trim().contains('\n') {
            causes.invalid(&path, &message.into(), "message must not contain line breaks");
        }
    } else if source.trim().contains('\n') && string("messageExpression").is_none_or(str::is_empty) {
        causes.required(&path.field("message"), "message must be specified if rule contains line breaks");
    }
    if let Some(message) = string("messageExpression").filter(|message| !message.is_empty())
        && message.trim().is_empty()
    {
        causes.required(&path.field("messageExpression"), "messageExpression must be non-empty if specified");
    }
    if let Some(reason) = string("reason").filter(|reason| !REASONS.contains(reason)) {
        causes.not_supported(&path.field("reason"), reason, &REASONS);
    }
    if let Some(field) = string("fieldPath").filter(|field| !field.is_empty())
        && let Err(why) = field_path(field.trim(), schema)
    {
        let why = format!("fieldPath must be a valid path: {why}");
        causes.invalid(&path.field("fieldPath"), &field.into(), &why);
    }
    match Rule::compile(rule, of) {
        Err(error) => {
            let value = string(error.field).unwrap_or_default();
            causes.invalid(&path.field(error.field), &value.into(), &error.why);
            None
        }
        Ok(compiled) => {
            let is_optional = rule.get("optionalOldSelf").is_some_and(|flag| !flag.is_null());
            let path_of = |field| path.field(field);
            match &context.uncorrelatable {
                Some(within) if compiled.uses_old_self => {
                    let why = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    );
                    causes.invalid(&path_of("rule"), &source.into(), &why);
                }
                _ if is_optional && !compiled.uses_old_self => {
                    let why = "may not be set if oldSelf is not used in rule";
                    causes.invalid(&path_of("optionalOldSelf"), &rule["optionalOldSelf"], why);
                }
                _ => {}
            }
            Some(compiled)
        }
    }
}
