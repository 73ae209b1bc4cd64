//! Nothing is given twice, and nothing is taken from whom it belongs to.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{Key, State};
use crate::network::native::Standing;
use crate::observed::PodUid;

fn key(uid: &str) -> Key {
    Key { uid: PodUid::new(uid), attempt: 0 }
}

fn take(state: &mut State, uid: &str) -> Vec<std::net::IpAddr> {
    state.take(&key(uid), String::new(), &["10.0.0.0/29".parse().unwrap()], Vec::new()).unwrap().addresses
}

#[test]
fn who_comes_again_while_it_is_given_back_keeps_what_it_has() {
    let mut state = State::default();
    let had = take(&mut state, "a");
    assert!(state.settled().is_empty(), "it is being made");
    state.made(&key("a"));
    let before = state.settled();
    // The list was begun before this, and does not have it.
    assert_eq!(take(&mut state, "a"), had);
    assert_eq!(state.goes(&key("a"), before[&key("a")]), None);
    state.made(&key("a"));
    assert_eq!(state.goes(&key("a"), before[&key("a")]), None);
    let serial = state.settled()[&key("a")];
    assert!(state.goes(&key("a"), serial).is_some());
    // Until it is given back nobody else has it.
    assert_ne!(take(&mut state, "b"), had);
    state.gone(&key("a"));
    assert!(state.settled().is_empty());
}

#[test]
fn what_is_shown_of_a_sandbox_is_what_helps() {
    let mut state = State::default();
    let ips = take(&mut state, "a");
    let shown = |state: &mut State, is_bare, process| state.standing(&key("a"), "id", is_bare, process);
    assert_eq!(shown(&mut state, true, None), Standing::Down(ips.clone()));
    assert_eq!(shown(&mut state, true, Some((1, 11))), Standing::Down(ips.clone()));
    state.up(&key("a"), 1, 11);
    assert_eq!(shown(&mut state, true, Some((1, 11))), Standing::Up(ips.clone()));
    assert_eq!(shown(&mut state, true, None), Standing::Up(ips.clone()));
    // Somebody started it anew: whatever joins it now joins another network.
    assert_eq!(shown(&mut state, true, Some((2, 12))), Standing::Lost);
    assert_eq!(shown(&mut state, false, Some((1, 11))), Standing::NotOurs);
    assert_eq!(state.standing(&key("b"), "other", true, Some((3, 13))), Standing::Lost);
    assert_eq!(state.standing(&key("b"), "other", false, Some((3, 13))), Standing::NotOurs);
    assert_eq!(state.known("id").map(|(key, _)| key), Some(key("a")));
    // It comes again: a cable of before is none of the new one's.
    assert_eq!(take(&mut state, "a"), ips);
    assert_eq!(state.known("id"), None);
    assert_eq!(shown(&mut state, true, Some((4, 14))), Standing::Down(ips));
}

#[test]
fn a_cable_of_an_earlier_kubelet_leads_where_it_is_first_seen_to_lead() {
    let mut state = State::default();
    let record = state.take(&key("a"), String::new(), &["10.0.0.0/29".parse().unwrap()], Vec::new()).unwrap();
    let mut state = State::default();
    state.know(key("a"), record.clone(), true);
    assert_eq!(state.standing(&key("a"), "id", true, Some((1, 11))), Standing::Up(record.addresses.clone()));
    assert_eq!(state.all_up().next().unwrap().2, Some((1, 11)));
    assert_eq!(state.standing(&key("a"), "id", true, Some((2, 12))), Standing::Lost);
}

#[test]
fn the_last_address_is_told() {
    let mut state = State::default();
    for uid in ["a", "b", "c", "d", "e"] {
        take(&mut state, uid);
    }
    let none = state.take(&key("f"), String::new(), &["10.0.0.0/29".parse().unwrap()], Vec::new());
    assert!(none.unwrap_err().starts_with("no address is left in 10.0.0.0/29, all 5 are taken"));
}
