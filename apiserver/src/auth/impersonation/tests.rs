//! Impersonation headers and the permissions they need.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use http::{HeaderName, HeaderValue};

use super::*;
use crate::auth::On;

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    lines.iter().map(line).collect()
}

/// All needed permissions, as `resource/subresource name@namespace`.
fn needed(requested: &Impersonation) -> Vec<String> {
    let shown = |attributes: &Attributes| match &attributes.on {
        On::Resource(on) => {
            assert_eq!(attributes.verb, "impersonate");
            format!("{}/{} {}@{}", on.resource, on.subresource, on.name, on.namespace)
        }
        On::Path(path) => panic!("{path}"),
    };
    requested.needed.iter().map(shown).collect()
}

#[test]
fn impersonation_headers_define_user_and_required_permissions() {
    let check = |lines: &[(&str, &str)], groups: &[&str], expected: &[&str]| {
        let requested = requested(&headers(lines)).unwrap().unwrap();
        assert_eq!(requested.identity.groups, groups, "{lines:?}");
        assert_eq!(needed(&requested), expected, "{lines:?}");
        requested.identity
    };
    check(&[(USER, "joe")], &["system:authenticated"], &["users/ joe@"]);
    check(
        &[(USER, "joe"), (GROUP, "a"), (GROUP, "system:masters")],
        &["a", "system:masters", "system:authenticated"],
        &["users/ joe@", "groups/ a@", "groups/ system:masters@"],
    );
    check(&[(USER, ANONYMOUS)], &[UNAUTHENTICATED], &["users/ system:anonymous@"]);
    check(
        &[(USER, "system:serviceaccount:shop:web")],
        &["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
        &["serviceaccounts/ web@shop"],
    );
    check(
        &[(USER, "system:serviceaccount:shop:web"), (GROUP, "a")],
        &["a", "system:authenticated"],
        &["serviceaccounts/ web@shop", "groups/ a@"],
    );
    let joe = check(
        &[
            (USER, "jöe"),
            (UID, "7"),
            ("Impersonate-Extra-Acme.com%2Fteam", "x"),
            ("impersonate-extra-b", "y"),
        ],
        &["system:authenticated"],
        &["users/ jöe@", "uids/ 7@", "userextras/acme.com/team x@", "userextras/b y@"],
    );
    assert_eq!(
        (joe.user.as_str(), joe.uid.as_str(), joe.extra["acme.com/team"][0].as_str()),
        ("jöe", "7", "x")
    );
}

#[test]
fn impersonation_without_a_user_is_rejected() {
    assert_eq!(requested(&headers(&[("accept", "x")])), Ok(None));
    for lines in [
        &[(GROUP, "system:masters")][..],
        &[(UID, "7")],
        &[("impersonate-extra-a", "x")],
        &[(USER, ""), (GROUP, "a")],
    ] {
        assert_eq!(requested(&headers(lines)).unwrap_err().code, 400, "{lines:?}");
    }
    let mut broken = headers(&[]);
    broken.insert(USER, HeaderValue::from_bytes(b"\xff").unwrap());
    assert_eq!(requested(&broken).unwrap_err().code, 400);
}
