//! Addresses that are told, and certificates renewed while serving.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn nodes_are_told_an_address_that_is_one() {
    let told = |bind: &str, flag: Option<&str>| {
        let options = Options {
            address: SocketAddr::new(bind.parse().unwrap(), 6443),
            advertise_address: flag.map(|flag| flag.parse().unwrap()),
            ..Options::default()
        };
        advertised(&options)
    };
    assert_eq!(told("0.0.0.0", Some("10.0.0.7")).to_string(), "10.0.0.7");
    assert_eq!(told("10.0.0.8", None).to_string(), "10.0.0.8");
    for everywhere in ["0.0.0.0", "::"] {
        assert!(!told(everywhere, None).is_unspecified());
    }
}

#[test]
fn the_certificate_holds_every_address_the_master_is_told_by() {
    let options = Options {
        address: "10.0.0.8:6443".parse().unwrap(),
        tls_san: vec!["api.example.com".to_owned(), "10.0.0.9".to_owned()],
        ..Options::default()
    };
    let names = names(&options, "192.0.2.7".parse().unwrap());
    for address in ["127.0.0.1", "::1", "10.96.0.1", "10.0.0.8", "10.0.0.9", "192.0.2.7"] {
        assert!(names.addresses.contains(&address.parse().unwrap()), "{address}");
    }
    assert!(names.dns.contains("api.example.com"));
}

#[tokio::test(start_paused = true)]
async fn a_running_master_shows_a_new_certificate_once_it_needs_one() {
    let folder = tempfile::tempdir().unwrap();
    let now = Timestamp::now();
    let pki = Pki::open(folder.path(), now).unwrap();
    let names = Names::of_master("host", "cluster.local", &[]);
    let serving = pki.serving(&names, now).unwrap();
    let (swap, mut config) = watch::channel(configured(&pki, serving).unwrap());
    let renewal = tokio::spawn(renew(pki, names, swap));
    let unchanged = tokio::time::timeout(RENEWAL_INTERVAL * 5, config.changed()).await;
    assert!(unchanged.is_err(), "a young certificate stays");
    std::fs::remove_file(folder.path().join("serving.pem")).unwrap();
    tokio::time::timeout(RENEWAL_INTERVAL * 2, config.changed()).await.unwrap().unwrap();
    renewal.abort();
}
