//! The strategy of CronJobs.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::job;
use crate::cron::Schedule;
use crate::dotted::fill_all;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Json, metadata, template};

pub(in crate::strategy) static STRATEGY: KindStrategy = KindStrategy { default, check, ..NO_OP };

fn default(object: &mut Json) {
    fill_all(
        object,
        &[
            ("spec.concurrencyPolicy", Value::from("Allow")),
            ("spec.suspend", false.into()),
            ("spec.successfulJobsHistoryLimit", 3.into()),
            ("spec.failedJobsHistoryLimit", 1.into()),
        ],
    );
    template::default(object, "spec.jobTemplate.spec.template.spec");
}

fn check(object: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = object.at("spec");
    let schedule = spec.at("schedule");
    if causes.required(&schedule, "") {
        if schedule.text().contains("TZ=") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            causes.invalid(&schedule, why);
        } else if let Err(why) = Schedule::parse(schedule.text()) {
            causes.invalid(&schedule, &why);
        }
    }
    let zone = spec.at("timeZone");
    if !zone.is_absent() {
        if zone.text().is_empty() {
            causes.invalid(&zone, "timeZone must be nil or non-empty string");
        } else if zone.text().eq_ignore_ascii_case("local") {
            causes.invalid(
                &zone,
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            );
        } else if TimeZone::get(zone.text()).is_err() {
            causes.invalid(&zone, &format!("unknown time zone {}", zone.text()));
        }
    }
    causes.one_of(&spec.at("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    for count in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        causes.not_negative(&spec.at(count));
    }
    let template = spec.at("jobTemplate");
    metadata::labels(&template.at("metadata.labels"), causes);
    metadata::annotations(&template.at("metadata.annotations"), causes);
    if template.at("spec.manualSelector").is_true() {
        causes.push(crate::strategy::Cause::not_supported(
            template.at("spec.manualSelector").path(),
            "true",
            &["nil", "false"],
        ));
    }
    if !template.at("spec.selector").is_absent() {
        causes.invalid(&template.at("spec.selector"), "`selector` will be auto-generated");
    }
    job::check_spec(object, "spec.jobTemplate.spec", causes);
}
