//! Tests of the content of the tables.

use super::content::Content;
use super::{
    Allow, Chain, ChainRule, Direction, IsolatedPod, Peers, PolicyId, PolicyNode, PolicyRules, Ports,
};
use super::{bridge, inet};
use crate::network::nft::Protocol;
use crate::network::nft::antispoof::BRIDGE;
use crate::network::nft::table::INET;

fn rules(peers: &[&str]) -> PolicyRules {
    let (chain, of_peers) = (PolicyId::of("chain"), PolicyId::of("peers"));
    let ports = Some(Ports { protocol: Protocol::Tcp, first: 80, last: 90 });
    let allow = Allow::Peers { peers: Some(of_peers), ports };
    let rule = ChainRule { policy: "shop/web Ingress 0".to_owned(), allow };
    let addresses = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
    let pod = IsolatedPod {
        port: "cor1".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        addresses,
        ingress: Some(chain),
        egress: None,
    };
    let pods = peers.iter().map(|ip| ip.parse().unwrap()).collect();
    PolicyRules {
        pods: vec![pod],
        chains: [(chain, Chain { direction: Direction::Ingress, rules: vec![rule] })].into(),
        peers: [(of_peers, Peers { pods, blocks: vec!["10.9.0.0/16".parse().unwrap()] })].into(),
        ..PolicyRules::default()
    }
}

fn sized(mut content: Content, known: Option<&Content>) -> Content {
    content.choose_sizes(known);
    content
}

#[test]
fn a_new_peer_changes_only_elements() {
    let before = sized(inet::content(&rules(&["10.0.0.3"])), None);
    let after = sized(inet::content(&rules(&["10.0.0.3", "10.0.0.4", "fd00::4"])), Some(&before));
    assert!(after.has_layout_of(&before));
    assert_eq!(after.change(INET, "t", &before).len(), 2, "one element per family");
    assert!(after.change(INET, "t", &after).is_empty());
}

#[test]
fn a_set_that_overflows_gets_a_larger_size() {
    let many: Vec<String> =
        (0..300).map(|number| format!("10.1.{}.{}", number / 250, number % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let small = sized(inet::content(&rules(&["10.0.0.3"])), None);
    let large = sized(inet::content(&rules(&many)), Some(&small));
    assert!(!large.has_layout_of(&small), "the table is created again");
    let smaller = sized(inet::content(&rules(&["10.0.0.3"])), Some(&large));
    assert!(smaller.has_layout_of(&large), "a set keeps its size");
}

#[test]
fn each_family_of_peers_has_a_rule_and_the_last_rule_drops() {
    let content = inet::content(&rules(&[]));
    let chain = &content.chains[0].0;
    let of_chain = content.rules.iter().filter(|(name, ..)| name == chain).count();
    assert_eq!(of_chain, 4, "two sets of pods, one of blocks, and the drop");
    let layout = content.layout();
    assert_eq!(layout.chains.len(), 2);
    assert_eq!(layout.rules["forward"].len(), 7);
}

#[test]
fn a_comment_fits_into_the_kernel() {
    let mut all = rules(&[]);
    for chain in all.chains.values_mut() {
        chain.rules[0].policy = "x".repeat(320);
    }
    let longest = inet::content(&all).rules.into_iter().map(|(_, comment, _)| comment.len()).max();
    assert!(longest.unwrap() < 254);
}

#[test]
fn frames_to_isolated_pods_are_recognized_by_their_hardware_address() {
    let node = PolicyNode { name: "t".to_owned(), bridge_mac: [2, 1, 1, 1, 1, 1] };
    let content = bridge::content(&node, &rules(&[]));
    let elements = |set: &str| content.sets[set].elements.len();
    assert_eq!(["pods", "egress", "ingress", "hardware"].map(elements), [1, 0, 1, 1]);
    assert!(content.sets["hardware"].elements.keys().all(|edge| edge.key == [2, 0, 0, 0, 0, 1]));
    assert!(!content.create(BRIDGE, "t").is_empty());
}
