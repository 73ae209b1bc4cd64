//! Who is told which sum, and when.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

/// One change: of which pod, to what, whether the class takes it, and what it is told.
type Change = (&'static str, Option<i64>, bool, Option<i64>);

#[test]
fn a_class_is_told_of_a_new_sum_until_it_takes_it() {
    let changes: [Change; 12] = [
        ("other", None, true, None),
        ("a", Some(2), true, Some(2)),
        ("a", Some(2), true, None),
        ("b", Some(100), false, Some(102)),
        ("b", Some(100), false, Some(102)),
        ("b", Some(100), true, Some(102)),
        ("b", Some(100), true, None),
        ("a", None, false, Some(100)),
        ("other", None, true, Some(100)),
        // A sum that was refused may have been set all the same.
        ("a", Some(2), false, Some(102)),
        ("a", None, true, Some(100)),
        ("b", None, true, Some(LEAST_SHARES)),
    ];
    let class = Burstable::default();
    for (at, (pod, shares, takes, expected)) in changes.into_iter().enumerate() {
        let mut told = None;
        let result = class.weigh(&PodUid::new(pod), shares, |sum| {
            told = Some(sum);
            if takes { Ok(()) } else { Err(io::Error::other("no")) }
        });
        assert_eq!(told, expected, "change {at}");
        assert_eq!(result.is_ok(), takes, "change {at}");
    }
}

#[test]
fn of_many_at_once_the_last_told_is_the_sum_of_all() {
    let (class, told) = (Burstable::default(), Mutex::new(0));
    std::thread::scope(|scope| {
        for pod in 0..32 {
            let (class, told) = (&class, &told);
            scope.spawn(move || {
                let tell = |sum| {
                    std::thread::yield_now();
                    *told.lock().unwrap() = sum;
                    Ok(())
                };
                class.weigh(&PodUid::new(&pod.to_string()), Some(10), tell).unwrap();
            });
        }
    });
    assert_eq!(*told.lock().unwrap(), 320);
}
