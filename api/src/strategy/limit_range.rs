//! The strategy of LimitRanges.

use serde_json::Value;

use super::Json;
use super::causes::Causes;
use super::dotted::{each, fields_at};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use crate::quantity::Quantity;

/// The strategy of LimitRanges.
pub(super) static RANGE: KindStrategy = KindStrategy {
    default: |range| each(range, "spec.limits").for_each(default_item),
    check: check_range,
    ..NO_OP
};

/// Sets missing values of containers. The limit defaults to the maximum, the request to the limit or the minimum.
fn default_item(item: &mut Json) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(Value::Object(amounts)) = item.get(from).cloned() else { continue };
        let Some(filled) = fields_at(item, to) else { continue };
        for (name, amount) in amounts {
            filled.entry(name).or_insert(amount);
        }
    }
}

fn check_range(range: &FieldValue<'_, '_>, causes: &mut Causes) {
    let limits = range.at("spec.limits");
    causes.unique(&limits, "type");
    for item in limits.items() {
        let kind = item.at("type");
        if causes.required(&kind, "") {
            causes.qualified_name(&kind);
        }
        if kind.text() == "Pod" {
            for field in ["default", "defaultRequest"] {
                causes.absent(&item.at(field), "may not be specified when `type` is 'Pod'");
            }
        }
        if kind.text() == "PersistentVolumeClaim" {
            let has = |field: &str| !item.at(field).key("storage").is_absent();
            if !has("min") && !has("max") {
                let why = "either minimum or maximum storage value is required, but neither was provided";
                causes.missing(&item, why);
            }
        }
        // Each value must be at most the next one, as far as they are set.
        let order = ["min", "defaultRequest", "default", "max"];
        for (at, less) in order.iter().enumerate() {
            for more in &order[at + 1..] {
                ordered(&item.at(less), &item.at(more), less, more, causes);
            }
        }
    }
}

fn ordered(
    small: &FieldValue<'_, '_>,
    large: &FieldValue<'_, '_>,
    less: &str,
    more: &str,
    causes: &mut Causes,
) {
    for (name, amount) in small.entries() {
        let read = |place: &FieldValue<'_, '_>| place.text().parse::<Quantity>().ok();
        let limit = large.key(name);
        if let (Some(value), Some(most)) = (read(&amount), read(&limit))
            && value > most
        {
            causes.invalid(&amount, &format!("{less} value {value} is greater than {more} value {most}"));
        }
    }
}
