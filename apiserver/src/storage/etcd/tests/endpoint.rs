//! etcd URLs.

use crate::storage::etcd::endpoint::{Certificates, Endpoint, configure};

#[test]
fn etcd_urls_are_parsed_or_rejected_with_an_example() {
    for (text, address, tls) in [
        ("https://10.0.0.1:2379", ("10.0.0.1", 2379), true),
        ("http://etcd-0.etcd:4001/", ("etcd-0.etcd", 4001), false),
        ("https://[::1]:1", ("::1", 1), true),
        ("http://localhost", ("localhost", 2379), false),
    ] {
        let endpoint = Endpoint::parse(text).unwrap();
        assert_eq!((endpoint.address(), endpoint.is_tls()), (address, tls), "{text}");
        assert_eq!(Endpoint::parse(&endpoint.to_string()).unwrap(), endpoint);
    }
    for text in [
        "",
        "10.0.0.1:2379",
        "ftp://x:1",
        "https://",
        "https://:1",
        "https://x:0",
        "https://x:99999",
        "http://u@x:1",
        "http://x:1/path",
        "unix:///run/etcd",
        "http://x:",
        "http://[::1",
    ] {
        let wanted = Endpoint::parse(text).unwrap_err();
        assert!(wanted.contains("use one like https://"), "{text}: {wanted}");
    }
}

#[test]
fn unusable_certificates_are_errors() {
    let check = |authority: Option<&str>, own: Option<(&str, &str)>, expected: &str| {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let own = own.map(|(chain, key)| (bytes(chain), bytes(key)));
        let error = configure(&Certificates { authority: authority.map(bytes), own }).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let root = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
    check(None, None, "https requires the CA");
    check(Some("no certificate"), None, "contains no certificate");
    check(Some(&root), Some((&root, "no key")), "cannot parse the client key");
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    check(Some(&root), Some((&root, &other)), "cannot be used");
}
