//! Pod CIDRs allocated from cluster CIDRs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn nets(words: &str) -> Vec<IpNet> {
    words.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn range(text: &str, node_mask_size: u8) -> ClusterCidr {
    ClusterCidr { network: text.parse().unwrap(), node_mask_size }
}

#[test]
fn a_fitting_pod_cidr_is_kept_and_others_are_reallocated() {
    let both = [range("10.244.0.0/16", 24), range("fd00:244::/48", 64)];
    for (claimed, taken, expected) in [
        ("", "", "10.244.0.0/24 fd00:244::/64"),
        ("10.244.7.0/24", "", "10.244.7.0/24 fd00:244::/64"),
        ("fd00:244:0:9::/64 10.244.7.0/24", "", "10.244.7.0/24 fd00:244:0:9::/64"),
        ("10.244.7.0/25", "", "10.244.7.0/25 fd00:244::/64"),
        // A CIDR that overlaps one in use, one that is too large, and one of another network.
        ("10.244.7.0/24", "10.244.7.128/25", "10.244.8.0/24 fd00:244::/64"),
        ("10.244.0.0/20", "", "10.244.0.0/24 fd00:244::/64"),
        ("192.168.0.0/24", "10.244.0.0/24", "10.244.1.0/24 fd00:244::/64"),
        // Allocation continues after the last CIDR; CIDRs in use outside the cluster CIDR are ignored.
        ("", "10.244.3.0/24 10.244.1.0/24 10.9.0.0/16", "10.244.4.0/24 fd00:244::/64"),
        ("", "10.244.255.0/24 10.244.0.0/24", "10.244.1.0/24 fd00:244::/64"),
        ("", "10.0.0.0/8", ""),
        ("10.244.1.0/24", "::/0", "10.244.1.0/24"),
    ] {
        assert_eq!(allocate(&both, &nets(claimed), &nets(taken)), nets(expected), "{claimed:?} {taken:?}");
    }
    assert_eq!(allocate(&[], &nets("10.0.0.0/24"), &[]), []);
}

#[test]
fn pod_cidrs_are_read_from_both_spec_fields() {
    for (spec, expected) in [
        (json!({}), Some("")),
        (json!({"podCIDR": "10.0.0.9/24"}), Some("10.0.0.0/24")),
        (json!({"podCIDR": "", "podCIDRs": []}), Some("")),
        (
            json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]}),
            Some("10.0.0.0/24 fd00::/64"),
        ),
        (json!({"podCIDR": "x"}), None),
    ] {
        let mut node = json!({"spec": spec}).as_object().unwrap().clone();
        assert_eq!(of(&serde_json::from_value(spec.clone()).unwrap()), expected.map(nets), "{spec}");
        set(&mut node, &nets("10.1.0.0/24"));
        assert_eq!(node["spec"]["podCIDRs"], json!(["10.1.0.0/24"]));
        set(&mut node, &[]);
        assert_eq!(node["spec"], json!({}));
    }
}

proptest! {
    #[test]
    fn pod_cidr_allocation_uses_every_free_range_exactly_once(bits in 20_u8..=24, more in 0_u8..=6, odd in proptest::collection::vec((0_u32..4096, 22_u8..=32), 0..6)) {
        let range = ClusterCidr { network: IpNet::V4(Ipv4Net::new([10, 0, 0, 0].into(), bits).unwrap()), node_mask_size: bits + more };
        let mut taken: Vec<IpNet> = odd
            .iter()
            .map(|(at, length)| IpNet::V4(Ipv4Net::new((0x0a00_0000 + at).into(), *length).unwrap().trunc()))
            .collect();
        let pieces = range.network.subnets(range.node_mask_size).unwrap();
        let free = pieces.filter(|piece| !taken.iter().any(|other| overlap(piece, other))).count();
        for _ in 0..free {
            let given = allocate(&[range], &[], &taken);
            prop_assert_eq!(given.len(), 1);
            prop_assert!(range.network.contains(&given[0]) && given[0].prefix_len() == range.node_mask_size);
            prop_assert!(given[0].trunc() == given[0] && !taken.iter().any(|other| overlap(&given[0], other)));
            taken.push(given[0]);
        }
        prop_assert!(allocate(&[range], &[], &taken).is_empty());
    }
}
