//! Set elements of a pod, and changes of the table.

use std::collections::BTreeSet;

use super::{BRIDGE, Changed, Elements, Found, PodPort, SETS, layout, link_local, plan, probe, rules};
use crate::network::nft::table::kind;

fn port(number: u8) -> PodPort {
    let addresses = [format!("10.1.0.{number}"), format!("fd00::{number}")];
    PodPort {
        name: format!("cor{number}"),
        mac: [0x0a, 0x58, 10, 1, 0, number],
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
    }
}

fn found(ports: &[PodPort]) -> Found {
    Found { layout: layout(), elements: ports.iter().flat_map(PodPort::elements).collect() }
}

/// Checks the number of messages by kind, and their effect.
fn check(there: Option<Found>, wanted: &[PodPort], kinds: &[(u8, usize)], expected: Changed) {
    let wanted: BTreeSet<PodPort> = wanted.iter().cloned().collect();
    let (messages, changed) = plan("node", there.as_ref(), &wanted);
    assert_eq!(changed, expected, "{there:?} to {wanted:?}");
    assert!(messages.iter().all(|message| message.family == BRIDGE));
    for (kind, count) in kinds {
        let of_kind = messages.iter().filter(|message| message.kind as u8 == *kind).count();
        assert_eq!(of_kind, *count, "kind {kind} of {there:?} to {wanted:?}");
    }
}

#[test]
fn the_link_local_address_is_that_of_the_kernel() {
    let expected = "fe80::858:aff:fef4:102".parse::<std::net::Ipv6Addr>().unwrap();
    assert_eq!(link_local([0x0a, 0x58, 0x0a, 0xf4, 0x01, 0x02]), expected);
}

#[test]
fn pod_has_elements_in_every_anti_spoofing_set() {
    let elements = port(7).elements();
    let lengths: Vec<_> = elements.iter().map(|(set, key)| (*set, key.len())).collect();
    let expected = [("hardware", 24), ("pods", 16), ("sources", 28), ("sources6", 40), ("sources6", 40)];
    assert_eq!(lengths, expected);
    assert!(SETS.iter().all(|set| elements.iter().any(|(of, _)| of == set)));
    let (_, key) = elements.iter().find(|(set, _)| *set == "sources").unwrap();
    assert_eq!(key[..], *b"cor7\0\0\0\0\0\0\0\0\0\0\0\0\x0a\x58\x0a\x01\x00\x07\0\0\x0a\x01\x00\x07");
}

#[test]
fn anti_spoofing_table_exists_while_pods_exist() {
    use kind::{DELETE_ELEMENT, DELETE_TABLE, NEW_ELEMENT, NEW_TABLE};
    check(None, &[], &[(NEW_TABLE, 0)], Changed::Nothing);
    // The old table, if there is one, is deleted in the same transaction.
    check(None, &[port(1)], &[(NEW_TABLE, 2), (DELETE_TABLE, 1), (NEW_ELEMENT, 4)], Changed::Table);
    check(Some(found(&[port(1)])), &[port(1)], &[(NEW_ELEMENT, 0)], Changed::Nothing);
    let more = [(NEW_TABLE, 0), (NEW_ELEMENT, 4), (DELETE_ELEMENT, 0)];
    check(Some(found(&[port(1)])), &[port(1), port(2)], &more, Changed::Elements);
    let other = [(NEW_TABLE, 0), (NEW_ELEMENT, 4), (DELETE_ELEMENT, 4)];
    check(Some(found(&[port(1)])), &[port(2)], &other, Changed::Elements);
    check(Some(found(&[port(1)])), &[], &[(DELETE_TABLE, 1), (NEW_ELEMENT, 0)], Changed::Table);
}

#[test]
fn a_table_with_other_rules_is_replaced() {
    let changed = Found { layout: Default::default(), elements: Elements::new() };
    check(Some(changed), &[port(1)], &[(kind::DELETE_TABLE, 1), (kind::NEW_ELEMENT, 4)], Changed::Table);
}

#[test]
fn anti_spoofing_probe_leaves_no_table() {
    let last = probe("node").pop().unwrap();
    assert_eq!(last.kind as u8, kind::DELETE_TABLE);
}

#[test]
fn every_rule_comment_is_valid_for_nft() {
    assert!(rules().iter().all(|(_, comment, _)| comment.len() < 128));
}
