//! Renewal times of certificates and retry intervals.

use std::time::Duration;

use proptest::prelude::*;

use super::super::timing;
use super::living;

#[test]
fn certificate_is_renewed_at_70_to_90_percent_of_its_lifetime() {
    for (from, until, since, share, expected) in [
        (0, 1000, 0, 0.0, 700),
        (0, 1000, 0, 0.5, 800),
        (0, 1000, 0, 0.999, 899),
        // A certificate backdated by five minutes, valid for one more.
        (0, 360, 300, 0.0, 342),
        (0, 360, 300, 0.999, 353),
        // Files written before or after the validity.
        (1000, 2000, 0, 0.0, 1700),
        (0, 1000, 5000, 0.0, 1000),
        // An invalid validity is renewed at once.
        (1000, 0, 0, 0.5, 1000),
    ] {
        let due = timing::rotation_deadline(&living(from, until, since), share);
        assert_eq!(due.as_second(), expected, "{from} {until} {since} {share}");
    }
}

#[test]
fn cluster_info_is_refreshed_during_the_certificate_lifetime() {
    for (life, share, expected) in [
        (60, 1.0, 10.0),
        (60, 0.0, 7.5),
        (86_400, 1.0, 14_400.0),
        (86_400 * 365, 1.0, 14_400.0),
        (86_400 * 365, 0.0, 10_800.0),
    ] {
        let pause = timing::cluster_info_delay(&living(0, life, 0), share).as_secs_f64();
        assert!((pause - expected).abs() < 0.01, "{life} {share}: {pause}");
    }
}

#[test]
fn retry_delays_grow_to_a_limit() {
    for (pause, first, limit) in [
        (timing::backoff_delay as fn(u32, f64) -> Duration, 1.0, 30.0),
        (timing::csr_poll_delay, 0.2, 10.0),
        (timing::denied_csr_poll_delay, 0.2, 30.0),
    ] {
        assert_eq!(pause(0, 1.0).as_secs_f64(), first);
        assert!((pause(u32::MAX, 1.0).as_secs_f64() - limit).abs() < 0.01);
        assert!(pause(u32::MAX, 0.0).as_secs_f64() >= limit * 0.74);
        assert!((1..12).all(|times| pause(times, 1.0) >= pause(times - 1, 1.0)));
    }
}

proptest! {
    #[test]
    fn renewal_is_due_before_the_certificate_expires(life in 10_i64..1_000_000_000, age in 0_i64..9, share in 0.0_f64..1.0) {
        let since = life * age / 10;
        let due = timing::rotation_deadline(&living(0, life, since), share).as_second();
        let left = life - since;
        prop_assert!(due >= since + left * 69 / 100 - 1 && due <= since + left * 9 / 10 + 1 && due < life, "{due}");
    }
}
