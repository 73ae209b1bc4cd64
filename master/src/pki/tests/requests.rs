//! Tests of CSRs: what they request, which signer accepts them, and the issued certificate.

use std::time::Duration;

use apiserver::tls::is_signed_by;
use rcgen::{CertificateParams, DnType, KeyPair, PublicKeyData as _, SanType};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::super::signer::{self, Signer, Usage};
use super::super::{Lifetimes, Request, read};
use super::*;

const NODE: &[&str] = &["digital signature", "key encipherment", "client auth"];
const SERVING: &[&str] = &["digital signature", "server auth"];

/// A CSR as PEM, with a common name, organizations and alternative names like `DNS:a`.
fn pem(common_name: &str, groups: &[&str], names: &[&str]) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    if !common_name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, common_name);
    }
    params.subject_alt_names = names
        .iter()
        .map(|name| match name.split_once(':').unwrap() {
            ("DNS", name) => SanType::DnsName(name.try_into().unwrap()),
            ("IP", address) => SanType::IpAddress(address.parse().unwrap()),
            ("URI", uri) => SanType::URI(uri.try_into().unwrap()),
            (_, mail) => SanType::Rfc822Name(mail.try_into().unwrap()),
        })
        .collect();
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn request(common_name: &str, groups: &[&str], names: &[&str]) -> Request {
    Request::read(pem(common_name, groups, names).as_bytes()).unwrap()
}

#[test]
fn each_signer_issues_the_stock_usages() {
    let (client, node, serving) = (Signer::Client, Signer::NodeClient, Signer::NodeServing);
    let nodes: &[&str] = &["system:nodes"];
    let fine = "";
    for (signer, name, groups, names, usages, expected) in [
        (client, "jane", &["dev"][..], &[][..], &["client auth"][..], fine),
        (client, "jane", &[], &["DNS:a", "mail:a@b", "URI:spiffe://a"], NODE, fine),
        (client, "jane", &[], &[], SERVING, "invalid usage for client certificate: server auth"),
        (
            client,
            "jane",
            &[],
            &[],
            &["cert sign", "client auth"],
            "invalid usage for client certificate: cert sign",
        ),
        (client, "jane", &[], &[], &["digital signature"], "missing required usage"),
        (node, "system:node:n1", nodes, &[], NODE, fine),
        (node, "kubelet:n1", nodes, &[], &["client auth", "digital signature"], fine),
        (node, "kubelet:n1", &["system:masters"], &[], NODE, "subject organization is not system:nodes"),
        (node, "kubelet:n1", &[], &[], NODE, "subject organization is not system:nodes"),
        (node, "jane", nodes, &[], NODE, "subject common name does not begin with system:node:"),
        (node, "system:node:", nodes, &[], NODE, "subject common name"),
        (node, "", nodes, &[], NODE, "subject common name"),
        (node, "kubelet:n1", nodes, &["DNS:n1"], NODE, "DNS subjectAltNames are not allowed"),
        (node, "kubelet:n1", nodes, &["IP:10.0.0.1"], NODE, "IP subjectAltNames are not allowed"),
        (node, "kubelet:n1", nodes, &["mail:a@b"], NODE, "Email subjectAltNames are not allowed"),
        (node, "kubelet:n1", nodes, &["URI:http://a"], NODE, "URI subjectAltNames are not allowed"),
        (node, "kubelet:n1", nodes, &[], SERVING, "usages did not match"),
        (node, "kubelet:n1", nodes, &[], &["client auth"], "usages did not match"),
        (serving, "kubelet:n1", nodes, &["IP:10.0.0.1", "DNS:n1"], SERVING, fine),
        (serving, "kubelet:n1", nodes, &[], SERVING, "DNS or IP subjectAltName is required"),
        (serving, "kubelet:n1", nodes, &["DNS:n1", "URI:http://a"], SERVING, "URI subjectAltNames are not"),
        (serving, "kubelet:n1", nodes, &["DNS:n1", "mail:a@b"], SERVING, "Email subjectAltNames are not"),
        (serving, "kubelet:n1", nodes, &["DNS:n1"], NODE, "usages did not match"),
        (serving, "n1", nodes, &["DNS:n1"], SERVING, "subject common name"),
    ] {
        let checked = signer.check(&request(name, groups, names), usages);
        let why = checked.err().unwrap_or_default();
        let fits = if expected.is_empty() { why.is_empty() } else { why.contains(expected) };
        assert!(fits, "{signer:?} {name} {groups:?} {names:?} {usages:?}: {why:?}");
    }
}

#[test]
fn signed_certificate_has_the_requested_names_and_usages() {
    let directory = whole();
    let pki = Pki::open(directory.path(), now()).unwrap();
    let names = ["DNS:n1.example", "IP:10.0.0.1", "IP:fd00::1"];
    let csr = request("kubelet:n1", &["system:nodes"], &names);
    let usages = Signer::NodeServing.check(&csr, SERVING).unwrap();
    let chain = pki.issue(&csr, &usages, Some(3600), now()).unwrap();
    let chain = read::certificates(chain.as_bytes()).unwrap();
    let (_, leaf) = X509Certificate::from_der(&chain[0]).unwrap();
    assert_eq!(leaf.subject().as_raw(), csr.subject);
    assert_eq!(leaf.public_key().raw, csr.spki);
    assert_eq!(read::CertificateInfo::of(&chain[0]).unwrap().names, csr.names);
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && !usage.client_auth);
    let usage = leaf.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && !usage.key_encipherment() && !usage.key_cert_sign());
    assert!(!leaf.is_ca() && leaf.basic_constraints().unwrap().is_some_and(|found| found.critical));
    assert!(is_signed_by(&chain[0], &chain[1]) && chain.len() == 2);
    let life = leaf.validity();
    let (from, until) = (life.not_before.timestamp(), life.not_after.timestamp());
    assert!((until - now().as_second() - 3600).abs() < 60 && now().as_second() - from >= 300);
}

#[test]
fn requested_lifetimes_are_limited() {
    let year = Duration::from_secs(365 * 24 * 3600);
    let (minute, day) = (Duration::from_secs(60), Duration::from_secs(86_400));
    for (csr, most, expected) in [
        (None, year, year),
        (Some(600), year, Duration::from_secs(600)),
        (Some(1), year, Duration::from_secs(600)),
        (Some(-7), year, Duration::from_secs(600)),
        (Some(86_400), year, day),
        (Some(i64::MAX), year, year),
        (None, minute, minute),
        (Some(600), minute, minute),
        (Some(1), minute, minute),
        (Some(7200), day, Duration::from_secs(7200)),
    ] {
        assert_eq!(signer::life(csr, most), expected, "{csr:?} of {most:?}");
    }
}

/// Clients renew late in the validity, which must not be before the certificate is issued.
#[test]
fn short_lived_certificate_is_not_renewed_before_it_is_issued() {
    let directory = tempfile::tempdir().unwrap();
    let short = Duration::from_secs(60);
    let pki = Pki::open(directory.path(), now()).unwrap();
    let pki = pki.with_lifetimes(Lifetimes { issued: short, serving: short });
    let at = now();
    let csr = request("kubelet:n1", &["system:nodes"], &[]);
    let issued = pki.issue(&csr, &[Usage::ClientAuth].into(), Some(600), at).unwrap();
    let serving = pki.serving(&some_names(), at).unwrap();
    let issued = read::certificates(issued.as_bytes()).unwrap();
    for der in [&issued[0], &serving.chain[0]] {
        let info = read::CertificateInfo::of(der).unwrap();
        assert_eq!((at.as_second() - info.not_before, info.not_after - at.as_second()), (60, 60));
    }
    let later = |seconds: i64| pki.serving(&some_names(), at + seconds.seconds()).unwrap().is_new;
    assert!(!later(15), "two thirds of its life are not over yet");
    assert!(later(21));
    // A certificate that outlives the configured lifetime is replaced.
    let year = Pki::open(directory.path(), at).unwrap();
    fs::remove_file(directory.path().join("serving.pem")).unwrap();
    assert!(
        year.serving(&some_names(), at).unwrap().is_new && pki.serving(&some_names(), at).unwrap().is_new
    );
}

#[test]
fn certificate_expires_no_later_than_its_ca() {
    let directory = tempfile::tempdir().unwrap();
    let pki = Pki::open(directory.path(), in_days(-3640)).unwrap();
    let csr = request("jane", &[], &[]);
    let chain = pki.issue(&csr, &[Usage::ClientAuth].into(), None, now()).unwrap();
    let lives = super::super::validities(chain.as_bytes()).unwrap();
    assert_eq!(lives[0].until, lives[1].until);
}

#[test]
fn parser_rejects_untrusted_and_malformed_csrs() {
    let good = pem("kubelet:n1", &["system:nodes"], &[]);
    let der = x509_parser::pem::parse_x509_pem(good.as_bytes()).unwrap().1.contents;
    let with = |der: &[u8], label: &str| {
        use base64::Engine as _;
        let body = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    };
    let mut forged = der.clone();
    // The last byte of the name, which is signed.
    let at = der.windows(2).position(|pair| pair == b"n1").unwrap() + 1;
    forged[at] = b'2';
    let label = "CERTIFICATE REQUEST";
    for (pem, expected) in [
        (with(&forged, label), "signature"),
        (with(&[&der[..], &[0]].concat(), label), "trailing data"),
        (with(&der[..der.len() / 2], label), "cannot be read"),
        (with(&der, "CERTIFICATE"), "PEM block type must be"),
        (String::new(), "not PEM"),
        (pem("a", &[], &["DNS:a b"]), "is not a DNS name"),
    ] {
        let fault = Request::read(pem.as_bytes()).unwrap_err();
        assert!(fault.contains(expected), "{pem}: {fault}");
    }
    let read = Request::read(good.as_bytes()).unwrap();
    assert_eq!((read.common_name.as_str(), read.key.der_bytes().len()), ("kubelet:n1", 65));
}

proptest::proptest! {
    #[test]
    fn csr_parser_never_panics(at in 0_usize..400, byte in proptest::prelude::any::<u8>(), cut in 0_usize..400) {
        let mut sent = pem("kubelet:n1", &["system:nodes"], &["DNS:n1"]).into_bytes();
        if let Some(place) = sent.get_mut(at) { *place = byte; }
        let _ = Request::read(&sent);
        sent.truncate(cut);
        let _ = Request::read(&sent);
    }
}
