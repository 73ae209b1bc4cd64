//! The strategies of ReplicaSets and ReplicationControllers.

use crate::dotted::{at, fill};
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Json, metadata, template};

/// The strategy of ReplicaSets.
pub(in crate::strategy) static SET: KindStrategy = KindStrategy {
    default: |set| {
        fill(set, "spec.replicas", 1);
        template::default(set, "spec.template.spec");
    },
    check: |set, causes| {
        causes.not_negative(&set.at("spec.replicas"));
        causes.not_negative(&set.at("spec.minReadySeconds"));
        super::check_template(set, &super::always("ReplicaSet"), causes);
    },
    immutable: &["spec.selector"],
    status: check_status,
    ..NO_OP
};

/// The strategy of ReplicationControllers.
pub(in crate::strategy) static CONTROLLER: KindStrategy =
    KindStrategy { default: default_controller, check: check_controller, status: check_status, ..NO_OP };

fn check_status(new: &FieldValue<'_, '_>, _old: &FieldValue<'_, '_>, causes: &mut Causes) {
    super::check_counts(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], causes);
}

/// Sets the default of the selector and the labels: the labels of the pod template.
fn default_controller(controller: &mut Json) {
    if let Some(labels) = at(controller, "spec.template.metadata.labels").cloned() {
        for path in ["spec.selector", "metadata.labels"] {
            if at(controller, path).and_then(|labels| labels.as_object()).is_none_or(Json::is_empty) {
                crate::dotted::set(controller, path, Some(labels.clone()));
            }
        }
    }
    fill(controller, "spec.replicas", 1);
    template::default(controller, "spec.template.spec");
}

fn check_controller(controller: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = controller.at("spec");
    causes.not_negative(&spec.at("replicas"));
    causes.not_negative(&spec.at("minReadySeconds"));
    let selector = spec.at("selector");
    if causes.required(&selector, "") {
        metadata::labels(&selector, causes);
    }
    if !causes.required(&spec.at("template"), "") {
        return;
    }
    let wanted = super::always("ReplicationController");
    template::check(controller.fields().unwrap_or(&Json::new()), "spec.template", &wanted, causes);
    let labels = &spec.at("template.metadata.labels");
    if selector.entries().any(|(key, value)| labels.key(key).value() != value.value()) {
        causes.invalid(labels, super::NO_MATCH);
    }
}
