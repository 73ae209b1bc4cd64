//! Pace and thresholds as tables.

use std::time::Duration;

use super::super::pace::{Look, Pace};
use super::super::thresholds::{Run, Thresholds};

/// Feeds results (`+` success, `-` failure) and prints the verdict after each (`.` none).
fn verdicts(results: &str, success: u32, failure: u32) -> String {
    let mut run = Run::default();
    let thresholds = Thresholds { success, failure };
    let verdict = |c| run.count(c == '+', thresholds);
    results.chars().map(verdict).map(|v| v.map_or('.', |ok| if ok { '+' } else { '-' })).collect()
}

#[test]
fn a_run_decides_when_it_is_as_long_as_its_threshold() {
    for (results, success, failure, expected) in [
        ("+++", 1, 3, "+++"),
        ("---", 1, 3, "..-"),
        ("--+--", 1, 3, "..+.."),
        ("++-+++", 3, 1, "..-..+"),
        ("----", 1, 1, "----"),
        ("+-+-+-", 2, 2, "......"),
    ] {
        assert_eq!(verdicts(results, success, failure), expected, "{results} {success} {failure}");
    }
}

/// The ages in milliseconds of the first looks that all fail and take `cost`; those that do not count in brackets.
fn looks(mut pace: Pace, cost_ms: u64, count: usize) -> String {
    let mut seen = Vec::new();
    let mut age = Duration::ZERO;
    for _ in 0..count {
        let look @ Look { at, counts } = pace.next();
        age = age.max(at);
        seen.push(if counts { format!("{}", age.as_millis()) } else { format!("({})", age.as_millis()) });
        age += Duration::from_millis(cost_ms);
        pace.looked(look, age, false);
    }
    seen.join(" ")
}

#[test]
fn looks_keep_to_their_grid() {
    let ms = Duration::from_millis;
    for (pace, cost, count, expected) in [
        (Pace::from(ms(0), ms(1000)), 1, 3, "0 1000 2000"),
        (Pace::from(ms(300), ms(1000)), 1, 3, "300 1300 2300"),
        (Pace::from(ms(0), ms(1000)), 1500, 4, "0 1500 3000 4500"),
        (Pace::from(ms(0), ms(1000)), 2500, 3, "0 2500 5000"),
        (Pace::patient(ms(1000)), 1, 2, "1000 2000"),
        (Pace::eager(ms(1000), ms(100)), 0, 7, "(0) (100) (200) (400) (800) 1000 2000"),
        (Pace::eager(ms(1000), ms(100)), 300, 5, "(0) (600) 1000 2000 3000"),
    ] {
        assert_eq!(looks(pace, cost, count), expected);
    }
}

#[test]
fn an_early_success_waits_for_the_grid() {
    let mut pace = Pace::eager(Duration::from_secs(10), Duration::from_millis(100));
    pace.looked(pace.next(), Duration::from_millis(1), true);
    assert_eq!(pace.next(), Look { at: Duration::from_secs(10), counts: true });
}
