//! Notes that tests have the board record: whose, what, and at which second.

use jiff::Timestamp;

use crate::report::{About, Note, Severity};

/// That second of the test.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// A warning about a container of that pod.
pub fn note(object: &str, message: &str, second: i64) -> Note {
    let about = About {
        kind: "Pod",
        namespace: "shop".to_owned(),
        name: object.to_owned(),
        uid: format!("uid-{object}"),
        field_path: "spec.containers{c}".to_owned(),
    };
    let (severity, reason) = (Severity::Warning, "BackOff".into());
    Note { about, severity, reason, message: message.to_owned(), at: at(second) }
}
