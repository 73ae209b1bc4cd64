//! Tests of plans of CronJobs, from the Kubernetes documentation.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{Input, OwnJob, Plan, plan};
use crate::objects::CronJob;

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

/// A CronJob that was created at midnight.
fn cron_job(spec: Value, status: Value) -> CronJob {
    let metadata =
        json!({"name": "tick", "namespace": "n", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

fn plan_at(cron_job: &CronJob, jobs: &[OwnJob<'_>], now: &str) -> Plan {
    plan(Input { cron_job, jobs, now: at(now) })
}

fn reasons(plan: &Plan) -> Vec<&str> {
    plan.events.iter().map(|event| event.reason).collect()
}

/// The scheduled time of the Job to start, as minutes after midnight.
fn started(plan: &Plan) -> Option<i64> {
    plan.start.as_ref().map(|start| (start.scheduled.as_second() - at("00:00:00").as_second()) / 60)
}

fn running<'a>(name: &'a str, scheduled: &str) -> OwnJob<'a> {
    OwnJob {
        name,
        uid: name,
        scheduled: Some(at(scheduled)),
        started: Some(at(scheduled)),
        ..OwnJob::default()
    }
}

fn active(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "namespace": "n", "uid": name})).collect()
}

#[test]
fn a_job_starts_when_it_is_due() {
    let hourly = cron_job(json!({"schedule": "0 * * * *"}), json!({}));
    let early = plan_at(&hourly, &[], "00:59:30");
    assert_eq!((early.start.is_none(), early.requeue_after.unwrap().as_secs()), (true, 30));
    let due = plan_at(&hourly, &[], "01:00:01");
    let start = due.start.clone().unwrap();
    assert_eq!(start.name, format!("tick-{}", at("01:00:00").as_second() / 60));
    assert_eq!(
        (start.annotation.as_str(), due.requeue_after.unwrap().as_secs()),
        ("2026-01-01T01:00:00Z", 3599)
    );
    let job = super::JobReference { name: "a".into(), uid: "a".into(), ..Default::default() };
    let status = due.status_with(&start, Some(job.clone()));
    assert_eq!((status.last_schedule_time, &*status.active), (Some(at("01:00:00")), &[job][..]));
    let done =
        cron_job(json!({"schedule": "0 * * * *"}), json!({"lastScheduleTime": "2026-01-01T01:00:00Z"}));
    assert_eq!(plan_at(&done, &[], "01:30:00").start, None);
    // After the clock was set back, the next Job is the one after the last.
    let back = plan_at(&done, &[], "00:30:00");
    assert_eq!((back.start, back.requeue_after.unwrap().as_secs()), (None, 5400));
}

#[test]
fn the_time_zone_decides_and_is_in_the_annotation() {
    let spec = json!({"schedule": "30 9 * * *", "timeZone": "Asia/Tokyo"});
    let due = plan_at(&cron_job(spec, json!({})), &[], "00:31:00");
    assert_eq!(
        (started(&due), due.start.unwrap().annotation.as_str()),
        (Some(30), "2026-01-01T09:30:00+09:00")
    );
    let utc = plan_at(
        &cron_job(json!({"schedule": "30 0 * * *", "timeZone": "Etc/UTC"}), json!({})),
        &[],
        "00:31:00",
    );
    assert_eq!(utc.start.unwrap().annotation, "2026-01-01T00:30:00Z");
    let wrong = plan_at(
        &cron_job(json!({"schedule": "30 9 * * *", "timeZone": "No/Where"}), json!({})),
        &[],
        "00:31:00",
    );
    assert_eq!((wrong.start.is_none(), reasons(&wrong)), (true, vec!["UnknownTimeZone"]));
}

#[test]
fn only_the_last_of_several_missed_jobs_starts() {
    let status = || json!({"lastScheduleTime": "2026-01-01T00:01:00Z"});
    let missed = plan_at(&cron_job(json!({"schedule": "* * * * *"}), status()), &[], "00:05:30");
    assert_eq!((started(&missed), reasons(&missed).len()), (Some(5), 0));
    let many = plan_at(&cron_job(json!({"schedule": "* * * * *"}), status()), &[], "02:05:30");
    assert_eq!((started(&many), reasons(&many)), (Some(125), vec!["TooManyMissedTimes"]));
    let spec = json!({"schedule": "* * * * *", "startingDeadlineSeconds": 200});
    let some = plan_at(&cron_job(spec, status()), &[], "02:05:30");
    assert_eq!(
        (started(&some), reasons(&some).len()),
        (Some(125), 0),
        "only those within the deadline count"
    );
}

#[test]
fn a_job_does_not_start_after_its_deadline() {
    let spec = |seconds: i64| json!({"schedule": "0 * * * *", "startingDeadlineSeconds": seconds});
    assert_eq!(started(&plan_at(&cron_job(spec(60), json!({})), &[], "01:00:59")), Some(60));
    let late = plan_at(&cron_job(spec(60), json!({})), &[], "01:01:01");
    assert_eq!((late.start.is_none(), late.requeue_after.unwrap().as_secs()), (true, 59 * 60 - 1));
    // The interval of `@every` counts from the last Job, not from the deadline.
    let every = json!({"schedule": "@every 1h", "startingDeadlineSeconds": 60});
    assert_eq!(started(&plan_at(&cron_job(every, json!({})), &[], "01:00:10")), Some(60));
}

#[test]
fn the_concurrency_policy_decides_about_a_job_that_still_runs() {
    let status = || json!({"lastScheduleTime": "2026-01-01T01:00:00Z", "active": active(&["old"])});
    for (policy, starts, replaced, expected) in [
        ("Allow", true, 0, vec![]),
        ("Forbid", false, 0, vec!["JobAlreadyActive"]),
        ("Replace", true, 1, vec![]),
    ] {
        let spec = json!({"schedule": "0 * * * *", "concurrencyPolicy": policy});
        let plan = plan_at(&cron_job(spec.clone(), status()), &[running("old", "01:00:00")], "02:00:01");
        assert_eq!(
            (plan.start.is_some(), plan.replace.len(), reasons(&plan)),
            (starts, replaced, expected),
            "{policy}"
        );
        // A Job that the status does not list, because of a crash, counts as well.
        let crashed = cron_job(spec, json!({}));
        let plan = plan_at(&crashed, &[running("old", "01:00:00")], "02:00:01");
        assert_eq!((plan.start.is_some(), plan.replace.len()), (starts, replaced), "{policy}");
    }
}

#[test]
fn a_second_time_of_the_same_minute_starts_no_other_job() {
    let name = format!("tick-{}", at("00:05:00").as_second() / 60);
    let finished = |end| OwnJob { end: Some(end), ended: Some(at("00:05:15")), ..running(&name, "00:05:10") };
    for policy in ["Allow", "Forbid", "Replace"] {
        let spec = || json!({"schedule": "@every 10s", "concurrencyPolicy": policy});
        let status = |active| json!({"lastScheduleTime": "2026-01-01T00:05:10Z", "active": active});
        for job in [running(&name, "00:05:10"), finished(true), finished(false)] {
            let listed = active(&[name.as_str()][..usize::from(job.end.is_none())]);
            let plan = plan_at(&cron_job(spec(), status(listed)), &[job], "00:05:21");
            assert_eq!((plan.start, plan.replace), (None, Vec::new()), "{policy} {job:?}");
            assert_eq!(plan.status.last_schedule_time, Some(at("00:05:20")), "{policy} {job:?}");
            assert_eq!(plan.status.active.len(), usize::from(job.end.is_none()), "{policy} {job:?}");
            assert_eq!(plan.requeue_after.map(|after| after.as_secs()), Some(9));
        }
        let next = plan_at(&cron_job(spec(), status(active(&[]))), &[finished(true)], "00:06:01");
        assert_eq!(started(&next), Some(6), "{policy}");
    }
    let due = plan_at(&cron_job(json!({"schedule": "@every 10s"}), json!({})), &[], "00:05:21");
    let start = due.start.clone().unwrap();
    assert!(due.status_with(&start, None).active.is_empty(), "a finished Job is not active again");
}

#[test]
fn a_suspended_cron_job_starts_no_job() {
    let spec = json!({"schedule": "0 * * * *", "suspend": true});
    let plan = plan_at(&cron_job(spec, json!({})), &[], "02:00:01");
    assert_eq!((plan.start, plan.requeue_after), (None, None));
}

#[test]
fn the_status_follows_the_jobs() {
    let hourly = cron_job(json!({"schedule": "0 * * * *"}), json!({"active": active(&["a", "b", "c"])}));
    let done = |name, is_complete| OwnJob {
        end: Some(is_complete),
        ended: Some(at("00:20:00")),
        ..running(name, "00:00:00")
    };
    let manual = OwnJob { scheduled: None, ..running("m", "00:00:00") };
    let jobs = [done("a", true), running("b", "00:10:00"), manual, running("d", "00:15:00")];
    let plan = plan_at(&hourly, &jobs, "00:30:00");
    let names: Vec<&str> = plan.status.active.iter().map(|job| &*job.name).collect();
    assert_eq!(
        (names, reasons(&plan)),
        (vec!["b", "d"], vec!["SawCompletedJob", "MissingJob", "UnexpectedJob"])
    );
    assert_eq!(plan.events[0].message, "Saw completed job: a, condition: Complete");
    assert_eq!(plan.status.last_successful_time, Some(at("00:20:00")));
    assert_eq!(plan.status.last_schedule_time, Some(at("00:15:00")), "a crash after the Job was created");
}

#[test]
fn the_oldest_finished_jobs_are_deleted() {
    let spec = json!({"schedule": "0 * * * *", "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0});
    let done = |name, is_complete, time| OwnJob { end: Some(is_complete), ..running(name, time) };
    let jobs = [
        done("b", true, "00:02:00"),
        done("a", true, "00:01:00"),
        done("f", false, "00:03:00"),
        running("r", "00:04:00"),
    ];
    let plan = plan_at(&cron_job(spec, json!({"active": active(&["r"])})), &jobs, "00:30:00");
    assert_eq!(plan.expired.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "f"]);
    let all = plan_at(&cron_job(json!({"schedule": "0 * * * *"}), json!({})), &jobs, "00:30:00");
    assert!(all.expired.is_empty());
}
