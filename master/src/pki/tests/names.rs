//! Names of servers.

use super::super::names::is_dns_name;
use super::*;

#[test]
fn names_and_addresses_are_distinguished() {
    let mut names = Names::of_master("no name!", "Example", &[]);
    names.add("10.0.0.7");
    names.add("fd00::7");
    names.add("API.example.com");
    assert!(names.addresses.contains(&IpAddr::from([10, 0, 0, 7])));
    assert_eq!(names.addresses.len(), 4);
    assert!(names.dns.contains("api.example.com") && names.dns.contains("localhost"));
    assert!(!names.dns.contains("no name!"));
}

#[test]
fn certificate_names_are_validated() {
    for good in ["a", "a-b.c", "*.example.com", "xn--bcher-kva.example", "1a"] {
        assert!(is_dns_name(good), "{good}");
    }
    let long = "a".repeat(64);
    for bad in ["", ".", "a..b", "-a", "a-", "a b", "ü", "a.*", long.as_str(), "a/b"] {
        assert!(!is_dns_name(bad), "{bad}");
    }
}
