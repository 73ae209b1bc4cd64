//! ReplicaSets, and the ReplicationControllers they came from.

use crate::strategy::causes::Causes;
use crate::strategy::fill::{at, fill};
use crate::strategy::place::Place;
use crate::strategy::rules::{NONE, Rules};
use crate::strategy::{Json, metadata, template};

/// ReplicaSet.
pub(in crate::strategy) static SET: Rules = Rules {
    default: |set| {
        fill(set, "spec.replicas", 1);
        template::default(set, "spec.template.spec");
    },
    check: |set, causes| {
        causes.not_negative(&set.at("spec.replicas"));
        causes.not_negative(&set.at("spec.minReadySeconds"));
        super::check_template(set, &super::always("ReplicaSet"), causes);
    },
    frozen: &["spec.selector"],
    status: check_status,
    ..NONE
};

/// ReplicationController.
pub(in crate::strategy) static CONTROLLER: Rules =
    Rules { default: default_controller, check: check_controller, status: check_status, ..NONE };

fn check_status(new: &Place<'_, '_>, _old: &Place<'_, '_>, causes: &mut Causes) {
    super::check_counts(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], causes);
}

/// The labels of the pods are what it selects and what it is labelled with itself, unless it says otherwise.
fn default_controller(controller: &mut Json) {
    if let Some(labels) = at(controller, "spec.template.metadata.labels").cloned() {
        for path in ["spec.selector", "metadata.labels"] {
            if at(controller, path).and_then(|labels| labels.as_object()).is_none_or(Json::is_empty) {
                crate::strategy::fill::set(controller, path, Some(labels.clone()));
            }
        }
    }
    fill(controller, "spec.replicas", 1);
    template::default(controller, "spec.template.spec");
}

fn check_controller(controller: &Place<'_, '_>, causes: &mut Causes) {
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
