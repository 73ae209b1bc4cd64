//! The strategies of StorageClasses and VolumeAttributesClasses.

use crate::dotted::fill;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};

/// The strategy of StorageClasses.
pub(in crate::strategy) static STORAGE: KindStrategy = KindStrategy {
    default: |class| {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
    },
    check: |class, causes| {
        provisioner(&class.at("provisioner"), causes);
        parameters(&class.at("parameters"), causes);
        causes.one_of(&class.at("reclaimPolicy"), &["Delete", "Retain"]);
        causes.one_of(&class.at("volumeBindingMode"), &["Immediate", "WaitForFirstConsumer"]);
        for term in class.at("allowedTopologies").items() {
            for expression in term.at("matchLabelExpressions").items() {
                causes.required(&expression.at("key"), "");
                causes.required(&expression.at("values"), "");
            }
        }
    },
    update: |new, old, causes| {
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            forbid(new, old, field, causes);
        }
        causes.unchanged(&new.at("volumeBindingMode"), &old.at("volumeBindingMode"));
    },
    ..NO_OP
};

/// The strategy of VolumeAttributesClasses.
pub(in crate::strategy) static ATTRIBUTES: KindStrategy = KindStrategy {
    check: |class, causes| {
        provisioner(&class.at("driverName"), causes);
        if causes.required(&class.at("parameters"), "must contain at least one key/value pair") {
            parameters(&class.at("parameters"), causes);
        }
    },
    update: |new, old, causes| {
        for field in ["parameters", "driverName"] {
            forbid(new, old, field, causes);
        }
    },
    ..NO_OP
};

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 << 10;

fn forbid(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, field: &str, causes: &mut Causes) {
    if new.at(field).value() != old.at(field).value() {
        causes.forbidden(&new.at(field), &format!("updates to {field} are forbidden."));
    }
}

fn provisioner(name: &FieldValue<'_, '_>, causes: &mut Causes) {
    if causes.required(name, "") {
        let is_name = |name: &str| crate::validate::names::is_qualified_name(&name.to_lowercase());
        causes.text(name, is_name, "must be a qualified name, such as example.com/name");
    }
}

fn parameters(parameters: &FieldValue<'_, '_>, causes: &mut Causes) {
    let size_bytes: usize = parameters.entries().map(|(key, value)| key.len() + value.text().len()).sum();
    let count = parameters.entries().count();
    if count > PARAMETERS_MAX || size_bytes > PARAMETERS_MAX_BYTES {
        let message = format!(
            "Too long: may not be more than {PARAMETERS_MAX} parameters of {PARAMETERS_MAX_BYTES} bytes together"
        );
        let reason = crate::strategy::Reason::TooLong;
        causes.push(crate::strategy::Cause { field: parameters.path(), reason, message });
    }
    if parameters.entries().any(|(key, _)| key.is_empty()) {
        causes.invalid(parameters, "field must not be empty.");
    }
}
