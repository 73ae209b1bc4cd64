//! Identities from certificates.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use rcgen::{CertificateParams, DnType, KeyPair};

use super::{Identity, POD_UID};

fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in names {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

#[test]
fn identity_comes_from_certificate_common_name_and_organizations() {
    let check = |names: &[(DnType, &str)], expected: Option<(&str, &[&str])>| {
        let found = Identity::of_certificate(&certificate(names));
        let found = found
            .as_ref()
            .map(|found| (found.user.as_str(), found.groups.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(found, expected.map(|(user, groups)| (user, groups.to_vec())), "{names:?}");
    };
    let cn = DnType::CommonName;
    let o = DnType::OrganizationName;
    check(&[(cn.clone(), "jane"), (o.clone(), "dev")], Some(("jane", &["dev", "system:authenticated"])));
    check(&[(cn.clone(), "jane")], Some(("jane", &["system:authenticated"])));
    check(&[(o.clone(), "system:authenticated"), (cn.clone(), "j")], Some(("j", &["system:authenticated"])));
    check(&[(cn, "")], None);
    check(&[(o, "dev")], None);
}

#[test]
fn an_invalid_certificate_is_anonymous() {
    let whole = certificate(&[(DnType::CommonName, "jane")]);
    for end in 0..whole.len() {
        assert_eq!(Identity::of_certificate(&whole[..end]), None, "cut at {end}");
    }
    assert!(Identity::anonymous().is_anonymous());
    assert!(Identity::anonymous().is_in("system:unauthenticated"));
}

#[test]
fn max_in_flight_shares_are_per_pod_namespace_or_user() {
    let account = |name: &str| Identity::authenticated(format!("system:serviceaccount:{name}"), []);
    let of_pod = |uid: &str| {
        let mut who = account("kube-system:kube-proxy");
        who.extra.insert(POD_UID.to_owned(), vec![uid.to_owned()]);
        who.account()
    };
    assert_ne!(of_pod("a"), of_pod("b"), "an agent has one account and a pod on each node");
    assert_eq!(
        account("team:a").account(),
        account("team:b").account(),
        "a team creates accounts as it likes"
    );
    assert_ne!(account("kube-system:a").account(), account("kube-system:b").account());
    assert_ne!(account("team:a").account(), account("team-2:a").account());
    assert_eq!(Identity::authenticated("jane", []).account(), "jane");
}
