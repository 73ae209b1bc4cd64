//! Every address once, in turn, and none that is not a pod's.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{count, gateway, next};

fn range(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn all_of_a_range_are_given_once() {
    for (net, first, last) in [("10.1.2.0/28", "10.1.2.2", "10.1.2.14"), ("fd00::/124", "fd00::2", "fd00::f")]
    {
        let range = range(net);
        let (mut taken, mut before) = (HashSet::new(), None);
        let mut given = Vec::new();
        while let Some(ip) = next(range, &taken, before) {
            assert!(taken.insert(ip), "{ip} twice");
            given.push(ip);
            before = Some(ip);
        }
        assert_eq!((given[0], *given.last().unwrap()), (ip(first), ip(last)));
        assert_eq!(given.len() as u128, count(range));
        assert!(!taken.contains(&gateway(range)));
        // What is given back is given again.
        let back = given[given.len() / 2];
        taken.remove(&back);
        assert_eq!(next(range, &taken, before), Some(back));
    }
}

#[test]
fn what_was_given_back_rests_while_there_are_others() {
    let range = range("10.1.2.0/24");
    let given = next(range, &HashSet::new(), None).unwrap();
    assert_eq!(next(range, &HashSet::new(), Some(given)), Some(ip("10.1.2.3")));
    assert_eq!(next(range, &HashSet::new(), Some(ip("10.1.2.254"))), Some(ip("10.1.2.2")));
    // The range is another one now.
    assert_eq!(next(range, &HashSet::new(), Some(ip("10.9.9.9"))), Some(ip("10.1.2.2")));
}
