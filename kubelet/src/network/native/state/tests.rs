//! No address is allocated twice, and no address of an existing sandbox is released.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{Key, State};
use crate::network::native::NetworkState;
use crate::observed::PodUid;

fn key(uid: &str) -> Key {
    Key { uid: PodUid::new(uid), attempt: 0 }
}

fn reserve(state: &mut State, uid: &str) -> Vec<std::net::IpAddr> {
    state.reserve(&key(uid), String::new(), &["10.0.0.0/29".parse().unwrap()], Vec::new()).unwrap().addresses
}

#[test]
fn repeated_reservation_prevents_an_earlier_release() {
    let mut state = State::default();
    let had = reserve(&mut state, "a");
    assert!(state.known_sandboxes().is_empty(), "it is being made");
    state.finish_creation(&key("a"));
    let before = state.known_sandboxes();
    // The list of sandboxes was taken before this reservation, so it lacks the new one.
    assert_eq!(reserve(&mut state, "a"), had);
    assert_eq!(state.begin_release(&key("a"), before[&key("a")]), None);
    state.finish_creation(&key("a"));
    assert_eq!(state.begin_release(&key("a"), before[&key("a")]), None);
    let serial = state.known_sandboxes()[&key("a")];
    assert!(state.begin_release(&key("a"), serial).is_some());
    // The address stays reserved until its release has finished.
    assert_ne!(reserve(&mut state, "b"), had);
    state.finish_release(&key("a"));
    assert!(state.known_sandboxes().is_empty());
}

#[test]
fn sandbox_network_state_follows_its_record() {
    let mut state = State::default();
    let ips = reserve(&mut state, "a");
    let shown = |state: &mut State, is_bare, process| state.network_state(&key("a"), "id", is_bare, process);
    assert_eq!(shown(&mut state, true, None), NetworkState::Down(ips.clone()));
    assert_eq!(shown(&mut state, true, Some((1, 11))), NetworkState::Down(ips.clone()));
    state.set_up(&key("a"), 1, 11);
    assert_eq!(shown(&mut state, true, Some((1, 11))), NetworkState::Up(ips.clone()));
    assert_eq!(shown(&mut state, true, None), NetworkState::Up(ips.clone()));
    // Another process has restarted the sandbox, so containers that join it now join another network namespace.
    assert_eq!(shown(&mut state, true, Some((2, 12))), NetworkState::Lost);
    assert_eq!(shown(&mut state, false, Some((1, 11))), NetworkState::NotOurs);
    assert_eq!(state.network_state(&key("b"), "other", true, Some((3, 13))), NetworkState::Lost);
    assert_eq!(state.network_state(&key("b"), "other", false, Some((3, 13))), NetworkState::NotOurs);
    assert_eq!(state.key_and_serial("id").map(|(key, _)| key), Some(key("a")));
    // A new reservation for the key does not inherit the old veth.
    assert_eq!(reserve(&mut state, "a"), ips);
    assert_eq!(state.key_and_serial("id"), None);
    assert_eq!(shown(&mut state, true, Some((4, 14))), NetworkState::Down(ips));
}

#[test]
fn veth_of_an_earlier_kubelet_is_adopted_at_its_first_observation() {
    let mut state = State::default();
    let record =
        state.reserve(&key("a"), String::new(), &["10.0.0.0/29".parse().unwrap()], Vec::new()).unwrap();
    let mut state = State::default();
    state.restore(key("a"), record.clone(), true);
    assert_eq!(
        state.network_state(&key("a"), "id", true, Some((1, 11))),
        NetworkState::Up(record.addresses.clone())
    );
    assert_eq!(state.all_up().next().unwrap().2, Some((1, 11)));
    assert_eq!(state.network_state(&key("a"), "id", true, Some((2, 12))), NetworkState::Lost);
}

#[test]
fn an_exhausted_range_is_an_error() {
    let mut state = State::default();
    for uid in ["a", "b", "c", "d", "e"] {
        reserve(&mut state, uid);
    }
    let none = state.reserve(&key("f"), String::new(), &["10.0.0.0/29".parse().unwrap()], Vec::new());
    assert!(none.unwrap_err().starts_with("no address is free in 10.0.0.0/29, all 5 are in use"));
}
