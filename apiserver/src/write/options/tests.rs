//! Query options and their errors.
#![allow(clippy::unwrap_used, reason = "tests")]

use http::Method;

use super::{APPLY, Options};

fn parse(method: &Method, media_type: &str, query: &str) -> Result<Options, String> {
    let uri = format!("/api/v1/namespaces/a/pods/b?{query}").parse().unwrap();
    Options::parse(&uri, method, media_type).map_err(|status| format!("{} {}", status.code, status.message))
}

#[test]
fn invalid_options_have_the_stock_messages() {
    let long = format!("fieldManager={}", "m".repeat(129));
    for (method, media_type, query, expected_message) in [
        (
            Method::POST,
            "",
            "dryRun=Some",
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
        ),
        (
            Method::PUT,
            "",
            "fieldValidation=Loud",
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Loud\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
        (
            Method::POST,
            "",
            &long,
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            Method::POST,
            "",
            "fieldManager=a%0A",
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\n\": invalid character U+000A (at position 1)",
        ),
        (
            Method::PATCH,
            APPLY,
            "force=true",
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            Method::PATCH,
            "application/merge-patch+json",
            "force=false",
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
        ),
    ] {
        assert_eq!(
            parse(&method, media_type, query).unwrap_err(),
            format!("422 {expected_message}"),
            "{query}"
        );
    }
}

#[test]
fn valid_write_options_are_parsed() {
    let options = parse(&Method::PATCH, APPLY, "fieldManager=me&force=True&dryRun=All&pretty=true").unwrap();
    assert!(options.force && options.dry_run);
    assert_eq!(options.field_manager.as_deref(), Some("me"));
    let options = parse(&Method::DELETE, "", "orphanDependents=false&gracePeriodSeconds=0&dryRun=").unwrap();
    assert_eq!((options.orphan, options.grace_seconds, options.dry_run), (Some(false), Some(0), false));
}
