//! Tests of QoS classes.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::class;

fn check(containers: &[&str], expected: &str) {
    let text = format!("{{\"containers\":[{}]}}", containers.join(","));
    assert_eq!(class(&serde_json::from_str(&text).unwrap()).as_str(), expected, "{text}");
}

const FULL: &str = r#"{"name":"a","resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1000m","memory":"1024Mi"}}}"#;

#[test]
fn each_class() {
    check(&[r#"{"name":"a"}"#], "BestEffort");
    check(
        &[r#"{"name":"a","resources":{"requests":{"cpu":"0"},"limits":{"ephemeral-storage":"1Gi"}}}"#],
        "BestEffort",
    );
    check(&[FULL], "Guaranteed");
    check(&[FULL, FULL], "Guaranteed");
    check(&[FULL, r#"{"name":"b"}"#], "Burstable");
    check(&[r#"{"name":"a","resources":{"requests":{"cpu":"1"}}}"#], "Burstable");
    check(
        &[
            r#"{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Mi"}}}"#,
        ],
        "Burstable",
    );
    check(&[r#"{"name":"a","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}}"#], "Burstable");
}
