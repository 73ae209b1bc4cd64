//! Validity of service-account tokens.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

fn bound(name: &str) -> Option<Bound> {
    Some(Bound { name: name.to_owned(), uid: format!("uid-{name}") })
}

fn claims() -> Claims {
    Claims {
        issuer: "https://issuer".to_owned(),
        audiences: vec!["https://issuer".to_owned()],
        account: Account { namespace: "shop".to_owned(), name: "web".to_owned(), uid: "uid-web".to_owned() },
        pod: None,
        secret: None,
        node: None,
        id: "id".to_owned(),
        issued: 1000,
        not_before: 1000,
        expires: 2000,
    }
}

#[test]
fn token_claims_round_trip() {
    let all = Claims { pod: bound("p"), secret: bound("s"), node: bound("n"), ..claims() };
    for claims in [claims(), all] {
        let json = claims.json();
        assert_eq!(Claims::read(&json), Some(claims));
        for field in json.as_object().unwrap().keys() {
            let mut less = json.clone();
            less.as_object_mut().unwrap().remove(field);
            assert!(Claims::read(&less).is_none() || field == "nbf", "without {field}");
        }
    }
    let mut other = claims().json();
    other["sub"] = "system:serviceaccount:shop:admin".into();
    assert_eq!(Claims::read(&other), None);
}

#[test]
fn token_is_invalid_after_expiry_or_deletion_of_its_account_or_bound_object() {
    let with_pod = || Claims { pod: bound("p"), node: bound("n"), ..claims() };
    let with_node = || Claims { node: bound("n"), ..claims() };
    let with_secret = || Claims { secret: bound("s"), ..claims() };
    for (claims, now, there, expected) in [
        (claims(), 1500, "web", ""),
        (claims(), 900, "web", "not valid yet"),
        (Claims { not_before: 1600, ..claims() }, 1500, "web", "not valid yet"),
        (Claims { not_before: 1600, ..claims() }, 1550, "web", ""),
        (Claims { not_before: 0, ..claims() }, 900, "web", "not valid yet"),
        (claims(), 2030, "web", ""),
        (claims(), 2060, "web", "expired"),
        (claims(), 1500, "", "service account \"web\""),
        (claims(), 1500, "web=other", "service account \"web\""),
        (claims(), 1500, "web-doomed", "service account \"web\""),
        (with_pod(), 1500, "web p", ""),
        (with_pod(), 1500, "web n", "pod \"p\""),
        (with_pod(), 1500, "web p=other", "pod \"p\""),
        (with_node(), 1500, "web n", ""),
        (with_node(), 1500, "web", "node \"n\""),
        (with_secret(), 1500, "web s", ""),
        (with_secret(), 1500, "web", "secret \"s\""),
    ] {
        let find = |_: &str, _: &str, name: &str| {
            let found = there.split(' ').find_map(|word| word.strip_prefix(name))?;
            let uid = if found == "=other" { "another".to_owned() } else { format!("uid-{name}") };
            let deleted_at = (found == "-doomed").then(|| Timestamp::from_second(1000).unwrap());
            Some(Found { uid, deleted_at })
        };
        let checked = check(&claims, Timestamp::from_second(now).unwrap(), find);
        match expected {
            "" => assert!(checked.is_ok(), "{there} at {now}: {checked:?}"),
            expected => assert!(checked.unwrap_err().contains(expected), "{there} at {now}"),
        }
    }
}

#[test]
fn token_contains_its_service_account_and_pod() {
    let claims = Claims { pod: bound("p"), ..claims() };
    let find = |_: &str, _: &str, name: &str| Some(Found { uid: format!("uid-{name}"), deleted_at: None });
    let identity = check(&claims, Timestamp::from_second(1500).unwrap(), find).unwrap();
    assert_eq!(
        (identity.user.as_str(), identity.uid.as_str()),
        ("system:serviceaccount:shop:web", "uid-web")
    );
    assert_eq!(
        identity.groups,
        ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]
    );
    assert_eq!(identity.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    assert_eq!(identity.extra[CREDENTIAL], ["JTI=id"]);
}

#[test]
fn service_account_user_names_are_parsed() {
    for (user, expected) in [
        ("system:serviceaccount:a:b", Some(("a", "b"))),
        ("system:serviceaccount:a:b:c", None),
        ("system:serviceaccount::b", None),
        ("system:serviceaccount:a:", None),
        ("system:serviceaccount:a", None),
        ("joe", None),
    ] {
        assert_eq!(of_user(user), expected, "{user}");
    }
}
