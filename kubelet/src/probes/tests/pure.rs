//! Schedules and thresholds.

use std::time::Duration;

use super::super::schedule::{Attempt, Schedule};
use super::super::worker::{Run, Thresholds};

/// Counts results (`+` success, `-` failure) and prints the decision after each (`.` for none).
fn probe_results(results: &str, success: u32, failure: u32) -> String {
    let mut run = Run::default();
    let thresholds = Thresholds { success, failure };
    let probe_result = |c| run.count(c == '+', thresholds);
    results.chars().map(probe_result).map(|v| v.map_or('.', |ok| if ok { '+' } else { '-' })).collect()
}

#[test]
fn probe_result_changes_at_its_threshold() {
    for (results, success, failure, expected) in [
        ("+++", 1, 3, "+++"),
        ("---", 1, 3, "..-"),
        ("--+--", 1, 3, "..+.."),
        ("++-+++", 3, 1, "..-..+"),
        ("----", 1, 1, "----"),
        ("+-+-+-", 2, 2, "......"),
    ] {
        assert_eq!(probe_results(results, success, failure), expected, "{results} {success} {failure}");
    }
}

/// Ages in milliseconds of the first attempts, if all fail and take `cost_ms`; attempts that do not count are in brackets.
fn looks(mut schedule: Schedule, cost_ms: u64, count: usize) -> String {
    let mut seen = Vec::new();
    let mut age = Duration::ZERO;
    for _ in 0..count {
        let look @ Attempt { at, counts } = schedule.next();
        age = age.max(at);
        seen.push(if counts { format!("{}", age.as_millis()) } else { format!("({})", age.as_millis()) });
        age += Duration::from_millis(cost_ms);
        schedule.record(look, age, false);
    }
    seen.join(" ")
}

#[test]
fn probe_attempts_follow_the_period() {
    let ms = Duration::from_millis;
    for (schedule, cost, count, expected) in [
        (Schedule::from(ms(0), ms(1000)), 1, 3, "0 1000 2000"),
        (Schedule::from(ms(300), ms(1000)), 1, 3, "300 1300 2300"),
        (Schedule::from(ms(0), ms(1000)), 1500, 4, "0 1500 3000 4500"),
        (Schedule::from(ms(0), ms(1000)), 2500, 3, "0 2500 5000"),
        (Schedule::periodic(ms(1000)), 1, 2, "1000 2000"),
        (Schedule::with_early_attempts(ms(1000), ms(100)), 0, 7, "(0) (100) (200) (400) (800) 1000 2000"),
        (Schedule::with_early_attempts(ms(1000), ms(100)), 300, 5, "(0) (600) 1000 2000 3000"),
    ] {
        assert_eq!(looks(schedule, cost, count), expected);
    }
}

#[test]
fn early_probe_success_is_followed_by_the_regular_period() {
    let mut schedule = Schedule::with_early_attempts(Duration::from_secs(10), Duration::from_millis(100));
    schedule.record(schedule.next(), Duration::from_millis(1), true);
    assert_eq!(schedule.next(), Attempt { at: Duration::from_secs(10), counts: true });
}
