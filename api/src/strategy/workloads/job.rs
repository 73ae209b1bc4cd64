//! Jobs: pods that come to an end, found by labels that are made for them.

use serde_json::Value;

use crate::strategy::causes::Causes;
use crate::strategy::fill::{at, each, fields_at, fill, fill_all, set, text};
use crate::strategy::place::Place;
use crate::strategy::rules::{NONE, Rules};
use crate::strategy::template::{self, Wanted};
use crate::strategy::{Json, Part, selectors};

pub(in crate::strategy) static RULES: Rules = Rules {
    default,
    prepare,
    check,
    update,
    frozen: &[
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
    ..NONE
};

/// What a pod of a job may do when a container ends.
pub(super) const WANTED: Wanted =
    Wanted { kind: "Job", restart_policies: &["OnFailure", "Never"], deadline: true };
/// The labels of a job's pods, with and without the domain that came later.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// Indexed pods are that many at most; the numbers of those that are done are written into the status.
const INDEXED_MAX: i64 = 100_000;

fn default(job: &mut Json) {
    // Neither means one pod; completions without parallelism means one at a time, the other way round a work queue.
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
    label_like_pods(job);
    template::default(job, "spec.template.spec");
}

/// A job that has no labels has those of its pods.
fn label_like_pods(job: &mut Json) {
    let labels = at(job, "spec.template.metadata.labels").cloned();
    if let (Some(labels), None) = (labels, at(job, "metadata.labels")) {
        set(job, "metadata.labels", Some(labels));
    }
}

/// A new job selects the pods that carry its UID, unless its author sees to that.
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
    label_like_pods(job);
}

fn check(job: &Place<'_, '_>, causes: &mut Causes) {
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

/// What holds for the spec of a job, in a template as well.
pub(super) fn check_spec(object: &Place<'_, '_>, path: &str, causes: &mut Causes) {
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

fn failure_policy(spec: &Place<'_, '_>, causes: &mut Causes) {
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

/// The template of a job stays, apart from where its pods may run, as long as none has begun.
fn update(new: &Place<'_, '_>, old: &Place<'_, '_>, causes: &mut Causes) {
    let count = |job: &Place<'_, '_>, field: &str| job.at("spec").at(field).number();
    let is_elastic = new.at("spec.completionMode").text() == "Indexed"
        && count(new, "completions").is_some()
        && count(new, "completions") == count(new, "parallelism")
        && count(old, "completions") == count(old, "parallelism");
    if !is_elastic {
        causes.unchanged(&new.at("spec.completions"), &old.at("spec.completions"));
    }
    let waits = old.at("spec.suspend").is_true() && old.at("status.startTime").is_absent();
    let lasting = |job: &Place<'_, '_>| {
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
