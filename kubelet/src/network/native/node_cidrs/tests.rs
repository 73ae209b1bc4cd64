//! Pod CIDRs of a node by flag and by assignment, and the fate of its former CIDRs.
#![allow(clippy::unwrap_used, reason = "tests")]

use ipnet::IpNet;

use super::{NodeCidrs, decide, without_change};
use crate::network::{Member, Members};

fn ranges(text: &str) -> Vec<IpNet> {
    text.split_whitespace().map(|range| range.parse().unwrap()).collect()
}

fn other(name: &str, is_older: bool, of: &str) -> Member {
    Member { name: name.to_owned(), is_older, addresses: Vec::new(), port: 0, ranges: ranges(of) }
}

/// Checks current, former and lost CIDRs, and that the error contains `words`.
fn check(
    requested: &str,
    had: (&str, &str),
    assigned: &str,
    others: &[Member],
    expected: (&str, &str, &str),
    words: &[&str],
) {
    let now = NodeCidrs { current: ranges(had.0), former: ranges(had.1) };
    let members = Members { own: ranges(assigned), others: others.to_vec() };
    let decided = decide("me", &ranges(requested), &now, &members);
    let taken: Vec<IpNet> = decided.taken.iter().map(|(range, _)| *range).collect();
    let found = (decided.own.current, decided.own.former, taken);
    assert_eq!(found, (ranges(expected.0), ranges(expected.1), ranges(expected.2)), "{assigned}");
    match decided.status {
        Ok(()) => assert_eq!(words.len(), 0),
        Err(why) => {
            assert!(!words.is_empty() && words.iter().all(|word| why.contains(word)), "{why}");
        }
    }
}

const ONE: &str = "10.244.1.0/24";
const TWO: &str = "10.244.2.0/24";

#[test]
fn the_pod_cidrs_of_the_cluster_are_used() {
    check("", (ONE, ""), ONE, &[], (ONE, "", ""), &[]);
    check("", (ONE, ""), TWO, &[], (TWO, ONE, ""), &[]);
    check("", (ONE, TWO), TWO, &[], (TWO, ONE, ""), &[]);
    check("", (ONE, ""), "10.244.2.0/24 fd00:2::/64", &[], ("10.244.2.0/24 fd00:2::/64", ONE, ""), &[]);
    // Another node has the former CIDR of this node.
    check("", (ONE, ""), TWO, &[other("b", false, ONE)], (TWO, "", ONE), &[]);
    check("", (TWO, ONE), TWO, &[other("b", true, "10.244.0.0/23")], (TWO, "", ONE), &[]);
    // Another node claims this node's CIDR. The older node wins.
    check("", (ONE, ""), ONE, &[other("b", false, ONE)], (ONE, "", ""), &[]);
    check(
        "",
        (ONE, ""),
        ONE,
        &[other("b", true, ONE)],
        (ONE, "", ""),
        &["node b and this node me", ONE, "delete node me"],
    );
    check("", (ONE, ""), TWO, &[other("b", true, TWO)], (ONE, "", ""), &["node b", TWO]);
}

#[test]
fn node_without_a_pod_cidr_reports_an_error() {
    check("", (ONE, ""), "", &[], (ONE, "", ""), &["no pod CIDR", "node me", "spec.podCIDR"]);
    check(ONE, (ONE, ""), ONE, &[], (ONE, "", ""), &[]);
    let cures = [
        "--pod-cidr of node me is 10.244.1.0/24",
        "without --pod-cidr, or with 10.244.2.0/24",
        "delete node me",
    ];
    check(ONE, (ONE, ""), TWO, &[], (ONE, "", ""), &cures);
    let named = [
        "--pod-cidr of node me is 10.244.1.0/24 (node b has 10.244.1.0/24), but the cluster has assigned 10.244.2.0/24",
    ];
    check(ONE, (ONE, ""), TWO, &[other("b", true, ONE)], (ONE, "", ""), &named);
    check("", (ONE, ""), "10.0.0.0/24 10.0.1.0/24", &[], (ONE, "", ""), &["10.0.0.0/24,10.0.1.0/24"]);
    check("", (ONE, ""), "10.0.0.0/31", &[], (ONE, "", ""), &["10.0.0.0/31"]);
}

#[test]
fn node_owns_addresses_of_current_and_former_cidrs() {
    let own = NodeCidrs { current: ranges(TWO), former: ranges(ONE) };
    let has = |ip: &str| own.has(&[ip.parse().unwrap()]);
    assert!(has("10.244.1.9") && has("10.244.2.9") && !has("10.244.3.9"));
}

#[test]
fn failed_cidr_change_blocks_allocation() {
    let is_refused = |why: &str| Err(why.to_owned());
    let (one, two) = (&ranges(ONE), &ranges(TWO));
    assert_eq!(without_change(two, one, Ok(()), "locked"), is_refused("locked"));
    assert_eq!(without_change(two, one, is_refused("older"), "locked"), is_refused("older"));
    // The decided CIDRs are the current ones, so the failed change does not matter.
    assert_eq!(without_change(two, two, Ok(()), "locked"), Ok(()));
}
