//! Which errors are reported, and how often.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

#[test]
fn only_permanent_errors_are_reported_as_problems() {
    let refused = |code: u16| Error::Refused {
        server: "https://192.0.2.1:6443".into(),
        code,
        reason: String::new(),
        message: String::new(),
        names_object: false,
        causes: Vec::new(),
        retry_after: None,
    };
    for (error, words) in [
        (refused(401), Some("make a new one")),
        (refused(403), Some("--group system:masters")),
        (Error::lost(&"https://192.0.2.1:6443".into(), "refused".into()), Some("`server:`")),
        (Error::TooLarge { server: "https://192.0.2.1:6443".into(), bytes: 7 }, Some("--chunk-size=1")),
        (refused(404), None),
        (refused(410), None),
        (refused(500), None),
    ] {
        let told = remedy(&error);
        assert_eq!(told.is_some(), words.is_some(), "{error}");
        assert!(words.is_none_or(|words| told.unwrap().contains(words)), "{told:?}");
    }
}

#[test]
fn once_a_minute_is_often_enough() {
    let (problems, begun) = (ProblemReporter::default(), Instant::now());
    let due: Vec<u64> =
        (0..150).filter(|second| problems.is_due(begun + Duration::from_secs(*second))).collect();
    assert_eq!(due, [0, 60, 120]);
    assert!(!problems.clone().is_due(begun + Duration::from_secs(150)), "all that look share it");
}
