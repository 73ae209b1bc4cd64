//! The strategy of Jobs.

use serde_json::Value;

use crate::dotted::{at, each, fields_at, fill, fill_all, set, text};
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::template::{self, TemplateRules};
use crate::strategy::{Json, Part, selectors};

pub(in crate::strategy) static STRATEGY: KindStrategy = KindStrategy {
    default,
    prepare,
    check,
    update,
    immutable: &[
        "spec.selector",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.managedBy",
        "spec.successPolicy",
    ],
    status: |new, _, causes| {
        for count in ["active", "succeeded", "failed", "ready", "terminating"] {
            causes.not_negative(&new.at("status").at(count));
        }
    },
    ..NO_OP
};

/// The requirements for the pod template.
pub(super) const WANTED: TemplateRules =
    TemplateRules { kind: "Job", restart_policies: &["OnFailure", "Never"], deadline: true };
/// The labels that mark the pods of a Job: the current one with a domain, and the older one without.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// Limit for the parallelism of indexed Jobs, because completed indexes are listed in the status.
const INDEXED_MAX: i64 = 100_000;

fn default(job: &mut Json) {
    // With neither field, one pod runs. Without `completions`, the pods are a work queue.
    if at(job, "spec.parallelism").is_none() && at(job, "spec.completions").is_none() {
        fill(job, "spec.completions", 1);
    }
    let per_index = at(job, "spec.backoffLimitPerIndex").is_some();
    let replaced = if at(job, "spec.podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    fill_all(
        job,
        &[
            ("spec.parallelism", Value::from(1)),
            ("spec.backoffLimit", if per_index { i32::MAX.into() } else { 6.into() }),
            ("spec.completionMode", "NonIndexed".into()),
            ("spec.suspend", false.into()),
            ("spec.manualSelector", false.into()),
            ("spec.podReplacementPolicy", replaced.into()),
        ],
    );
    for rule in each(job, "spec.podFailurePolicy.rules") {
        each(rule, "onPodConditions").for_each(|condition| fill(condition, "status", "True"));
    }
    copy_pod_labels(job);
    template::default(job, "spec.template.spec");
}

/// Copies the labels of the pod template to a Job without labels.
fn copy_pod_labels(job: &mut Json) {
    let labels = at(job, "spec.template.metadata.labels").cloned();
    if let (Some(labels), None) = (labels, at(job, "metadata.labels")) {
        set(job, "metadata.labels", Some(labels));
    }
}

/// Generates the selector and the pod labels from the UID, unless `manualSelector` is set.
fn prepare(job: &mut Json, before: Option<&Json>, part: &Part<'_>) {
    if before.is_some() || *part != Part::Main {
        return;
    }
    if at(job, "spec.manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (text(job, "metadata.uid").to_owned(), text(job, "metadata.name").to_owned());
    if let Some(labels) = template::labels(job, "spec.template") {
        for (keys, value) in [(UID_LABELS, &uid), (NAME_LABELS, &name)] {
            for key in keys {
                labels.entry(key).or_insert_with(|| value.as_str().into());
            }
        }
    }
    if let Some(selector) = fields_at(job, "spec.selector.matchLabels") {
        selector.entry(UID_LABELS[0]).or_insert_with(|| uid.into());
    }
    copy_pod_labels(job);
}

fn check(job: &FieldValue<'_, '_>, causes: &mut Causes) {
    check_spec(job, "spec", causes);
    let (selector, labels) = (job.at("spec.selector"), job.at("spec.template.metadata.labels"));
    if selector.is_absent() {
        causes.missing(&selector, "");
    } else {
        selectors::check(&selector, causes);
    }
    if !selectors::matches(&selector, labels.fields()) {
        causes.invalid(&labels, super::NO_MATCH);
    }
}

/// Validates the spec of a Job or a Job template.
pub(super) fn check_spec(object: &FieldValue<'_, '_>, path: &str, causes: &mut Causes) {
    let spec = object.at(path);
    for count in [
        "parallelism",
        "completions",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "ttlSecondsAfterFinished",
    ] {
        causes.not_negative(&spec.at(count));
    }
    causes.positive(&spec.at("activeDeadlineSeconds"));
    causes.any_of(&spec.at("completionMode"), &["NonIndexed", "Indexed"]);
    causes.any_of(&spec.at("podReplacementPolicy"), &["Failed", "TerminatingOrFailed"]);
    if spec.at("completionMode").text() == "Indexed" {
        if spec.at("completions").is_absent() {
            causes.missing(&spec.at("completions"), "when completion mode is Indexed");
        }
        if spec.at("parallelism").number().unwrap_or(0) > INDEXED_MAX {
            let why = format!("must be less than or equal to {INDEXED_MAX} when completion mode is Indexed");
            causes.invalid(&spec.at("parallelism"), &why);
        }
    } else {
        causes.absent(&spec.at("backoffLimitPerIndex"), "requires indexed completion mode");
        causes.absent(&spec.at("successPolicy"), "requires indexed completion mode");
    }
    if !spec.at("maxFailedIndexes").is_absent() && spec.at("backoffLimitPerIndex").is_absent() {
        causes.missing(&spec.at("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    failure_policy(&spec, causes);
    let template = format!("{path}.template");
    template::check(object.fields().unwrap_or(&Json::new()), &template, &WANTED, causes);
}

fn failure_policy(spec: &FieldValue<'_, '_>, causes: &mut Causes) {
    let policy = spec.at("podFailurePolicy");
    if policy.is_absent() {
        return;
    }
    if spec.at("template.spec.restartPolicy").text() != "Never" {
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        causes.invalid(&spec.at("template.spec.restartPolicy"), why);
    }
    causes.at_most(&policy.at("rules"), 20);
    for rule in policy.at("rules").items() {
        causes.one_of(&rule.at("action"), &["Count", "FailIndex", "FailJob", "Ignore"]);
        let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
        match (codes.is_absent(), conditions.is_empty()) {
            (true, true) => {
                causes.invalid(&rule, "specifying one of OnExitCodes and OnPodConditions is required")
            }
            (false, false) => {
                causes.invalid(&rule, "specifying both OnExitCodes and OnPodConditions is not supported")
            }
            (false, true) => {
                causes.one_of(&codes.at("operator"), &["In", "NotIn"]);
                causes.required(&codes.at("values"), "");
            }
            (true, false) => {}
        }
    }
}

/// Rejects changes of the pod template, except for scheduling fields of a suspended Job that never started.
fn update(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let count = |job: &FieldValue<'_, '_>, field: &str| job.at("spec").at(field).number();
    let is_elastic = new.at("spec.completionMode").text() == "Indexed"
        && count(new, "completions").is_some()
        && count(new, "completions") == count(new, "parallelism");
    if !is_elastic {
        causes.unchanged(&new.at("spec.completions"), &old.at("spec.completions"));
    }
    let waits = old.at("spec.suspend").is_true() && old.at("status.startTime").is_absent();
    let lasting = |job: &FieldValue<'_, '_>| {
        let mut template = job.at("spec.template").fields().cloned().unwrap_or_default();
        if waits {
            for path in [
                "metadata.labels",
                "metadata.annotations",
                "spec.nodeSelector",
                "spec.tolerations",
                "spec.affinity",
                "spec.schedulingGates",
            ] {
                set(&mut template, path, None);
            }
        }
        template
    };
    if lasting(new) != lasting(old) {
        causes.invalid(&new.at("spec.template"), crate::strategy::causes::IMMUTABLE);
    }
}
