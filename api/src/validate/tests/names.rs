//! Tests of names.

use super::super::names::*;

#[track_caller]
fn check(is: fn(&str) -> bool, right: &[&str], wrong: &[&str]) {
    for name in right {
        assert!(is(name), "{name:?} is right");
    }
    for name in wrong {
        assert!(!is(name), "{name:?} is wrong");
    }
}

#[test]
fn dns_names() {
    let long = "a".repeat(64);
    check(is_dns_label, &["a", "a-1", "1", &long[1..]], &["", "A", "a.b", "-a", "a-", "a_b", "ä", &long]);
    let longest = format!("{}.a", "a".repeat(251));
    check(
        is_dns_subdomain,
        &["a", "a.b-c.1", &longest],
        &["", "a..b", ".a", "a.", "A.b", "a.-b", &format!("{longest}a")],
    );
}

#[test]
fn labels() {
    let long = "a".repeat(64);
    check(
        is_qualified_name,
        &["a", "A_b.c-d", "example.com/a", &long[1..]],
        &["", "/a", "a/", "a/b/c", "-a", "a-", "Example.com/a", "a b", &long],
    );
    check(is_label_value, &["", "a", "1.10", "A_b"], &["-", "a b", "a/b", "ä", &long]);
}

#[test]
fn others() {
    check(is_data_key, &["a", ".a", "A_b-c.d", "a..b"], &["", ".", "..", "..a", "a/b", "a b"]);
    check(is_env_name, &["A", "a.b", "1", "a b", "-"], &["", "a=b", "ä", "a\n"]);
    check(
        is_port_name,
        &["http", "a1", "web-80"],
        &["", "80", "Http", "a--b", "-a", "a-", "abcdefghijklmnop"],
    );
    check(is_header_name, &["X-A", "a1"], &["", "a:b", "a b"]);
    check(has_parent_element, &["..", "a/../b", "../a"], &["", "a..b", "a/..b", "..."]);
}
