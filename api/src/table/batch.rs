//! Printer columns of Jobs and CronJobs.

use jiff::Timestamp;
use serde_json::Value;

use super::workload::{CONTAINERS, IMAGES, SELECTOR, containers};
use super::{
    AGE, Columns, NAME, NONE, Object, age, at, condition, count, flag, list, name, number, or_none, selector,
    shown, text, text_at,
};

/// The printer columns of Jobs.
pub const JOBS: Columns = Columns {
    heads: &[
        NAME,
        shown("Status", "The status."),
        shown("Completions", "The number of succeeded pods and of desired completions."),
        shown("Duration", "The time since the start, or until completion."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: job,
};

/// The printer columns of CronJobs.
pub const CRON_JOBS: Columns = Columns {
    heads: &[
        NAME,
        shown("Schedule", "The cron schedule."),
        shown("Timezone", "The time zone of the schedule."),
        flag("Suspend", "Whether the CronJob is suspended."),
        number("Active", "The number of running Jobs."),
        shown("Last Schedule", "The time since a Job was last created."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: cron_job,
};

fn job(object: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object, &["spec", "template", "spec", "containers"]);
    vec![
        name(object),
        status(object).into(),
        completions(object).into(),
        duration(object, now).into(),
        age::of(object, now),
        containers,
        images,
        selector(at(object, &["spec", "selector"])).into(),
    ]
}

fn status(object: &Object) -> &'static str {
    let holds = |of: &str| condition(object, of) == Some("True");
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if !text(object, "metadata", "deletionTimestamp").is_empty() => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(object: &Object) -> String {
    let succeeded = count(object, &["status", "succeeded"]);
    let parallelism = count(object, &["spec", "parallelism"]);
    match at(object, &["spec", "completions"]).and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(object: &Object, now: Timestamp) -> String {
    let moment = |of: &str| text(object, "status", of).parse::<Timestamp>().ok();
    let Some(start) = moment("startTime") else { return String::new() };
    age::duration(moment("completionTime").unwrap_or(now).duration_since(start).as_secs())
}

fn cron_job(object: &Object, now: Timestamp) -> Vec<Value> {
    let job = ["spec", "jobTemplate", "spec"];
    let [containers, images] = containers(object, &[&job[..], &["template", "spec", "containers"]].concat());
    let suspend = match at(object, &["spec", "suspend"]).and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match text(object, "status", "lastScheduleTime") {
        "" => NONE.to_owned(),
        last => age::since(last, now),
    };
    vec![
        name(object),
        text(object, "spec", "schedule").into(),
        or_none(text_at(object, &["spec", "timeZone"])),
        suspend.into(),
        list(object, "status", "active").len().into(),
        last.into(),
        age::of(object, now),
        containers,
        images,
        selector(at(object, &[&job[..], &["selector"]].concat())).into(),
    ]
}
