//! The strategy of StatefulSets.

use serde_json::{Value, json};

use crate::dotted::{each, fill, fill_all, object_at, text};
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::storage::claim;
use crate::strategy::{Json, template};

pub(in crate::strategy) static STRATEGY: KindStrategy = KindStrategy {
    default,
    check,
    update,
    status: |new, _, causes| {
        let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        super::check_counts(new, &counts, causes);
    },
    ..NO_OP
};

/// The mutable fields of the spec.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const ONLY: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

fn default(set: &mut Json) {
    fill_all(
        set,
        &[
            ("spec.podManagementPolicy", Value::from("OrderedReady")),
            ("spec.updateStrategy.type", "RollingUpdate".into()),
            ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", "Retain".into()),
            ("spec.persistentVolumeClaimRetentionPolicy.whenScaled", "Retain".into()),
            ("spec.replicas", 1.into()),
            ("spec.revisionHistoryLimit", 10.into()),
        ],
    );
    if text(set, "spec.updateStrategy.type") == "RollingUpdate" {
        fill(set, "spec.updateStrategy.rollingUpdate.partition", 0);
    }
    for template in each(set, "spec.volumeClaimTemplates") {
        fill(template, "apiVersion", "v1");
        fill(template, "kind", "PersistentVolumeClaim");
        claim::default(template);
        fill(template, "status.phase", "Pending");
    }
    template::default(set, "spec.template.spec");
}

fn check(set: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = set.at("spec");
    for count in ["replicas", "minReadySeconds", "revisionHistoryLimit", "ordinals.start"] {
        causes.not_negative(&spec.at(count));
    }
    causes.one_of(&spec.at("podManagementPolicy"), &["OrderedReady", "Parallel"]);
    let strategy = spec.at("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    causes.one_of(&strategy.at("type"), &["RollingUpdate", "OnDelete"]);
    match strategy.at("type").text() {
        "OnDelete" if !rolling.is_absent() => {
            causes.invalid(&rolling, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "RollingUpdate" => {
            causes.not_negative(&rolling.at("partition"));
            super::int_or_percent(&rolling.at("maxUnavailable"), causes);
            if !rolling.at("maxUnavailable").is_absent() && super::is_none(&rolling.at("maxUnavailable")) {
                causes.invalid(&rolling.at("maxUnavailable"), "cannot be 0");
            }
        }
        _ => {}
    }
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    for when in ["whenDeleted", "whenScaled"] {
        causes.any_of(&retention.at(when), &["Retain", "Delete"]);
    }
    super::check_template_in(set, &with_claim_volumes(set), &super::always("StatefulSet"), causes);
}

/// The set with a volume for each claim template. The controller adds these volumes to the pods, so containers can
/// mount them.
fn with_claim_volumes(set: &FieldValue<'_, '_>) -> Json {
    let mut completed = set.fields().cloned().unwrap_or_default();
    let names: Vec<String> = each(&mut completed, "spec.volumeClaimTemplates")
        .map(|template| text(template, "metadata.name").to_owned())
        .collect();
    let Some(spec) = object_at(&mut completed, "spec.template.spec") else { return completed };
    let volumes = spec.entry("volumes").or_insert(Value::Null);
    if volumes.is_null() {
        *volumes = Value::Array(Vec::new());
    }
    let Value::Array(volumes) = volumes else { return completed };
    for name in names {
        if !volumes.iter().any(|volume| volume["name"] == *name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    completed
}

fn update(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let rest = |set: &FieldValue<'_, '_>| {
        let mut spec = set.at("spec").fields().cloned().unwrap_or_default();
        spec.retain(|field, _| !MUTABLE.contains(&field.as_str()));
        // The status of a claim template is ignored.
        each(&mut spec, "volumeClaimTemplates").for_each(|template| drop(template.remove("status")));
        spec
    };
    if rest(new) != rest(old) {
        causes.forbidden(&new.at("spec"), ONLY);
    }
}
