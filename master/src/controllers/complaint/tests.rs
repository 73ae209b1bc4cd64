//! What is complained of, and how often.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

#[test]
fn what_a_person_has_to_mend_is_told_and_nothing_else() {
    let refused = |code: u16| Error::Refused {
        code,
        reason: String::new(),
        message: String::new(),
        names_object: false,
    };
    for (error, words) in [
        (refused(401), Some("make a new one")),
        (refused(403), Some("--group system:masters")),
        (Error::Lost("refused".into()), Some("`server:`")),
        (refused(404), None),
        (refused(410), None),
        (refused(500), None),
    ] {
        let told = cure(&error);
        assert_eq!(told.is_some(), words.is_some(), "{error}");
        assert!(words.is_none_or(|words| told.unwrap().contains(words)), "{told:?}");
    }
}

#[test]
fn once_a_minute_is_often_enough() {
    let (complaint, begun) = (Complaint::default(), Instant::now());
    let due: Vec<u64> =
        (0..150).filter(|second| complaint.is_due(begun + Duration::from_secs(*second))).collect();
    assert_eq!(due, [0, 60, 120]);
    assert!(!complaint.clone().is_due(begun + Duration::from_secs(150)), "all that look share it");
}
