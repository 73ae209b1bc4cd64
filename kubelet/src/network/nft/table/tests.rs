//! Contents of a table, and changes that require a new one.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use super::{Node, Port, Table, comment_bytes, kind, put, read_comment};
use crate::network::nft::Protocol;

fn node(cidrs: &[&str]) -> Node {
    let cidrs = cidrs.iter().map(|text| text.parse().unwrap()).collect();
    Node { name: "node".to_owned(), bridge: "br0".to_owned(), cidrs, ..Node::default() }
}

#[test]
fn table_layout_covers_all_settings() {
    let one = node(&["10.1.0.0/24", "fd00::/64"]);
    let layout = Table::new(&one).layout();
    assert_eq!(layout, Table::new(&one.clone()).layout());
    let others = [
        node(&["10.1.0.0/24"]),
        node(&["10.1.0.0/25", "fd00::/64"]),
        Node { bridge: "br1".to_owned(), ..one.clone() },
        Node { dns_servers: vec!["10.1.0.1".parse().unwrap()], ..one.clone() },
        Node { cluster: node(&["10.0.0.0/8"]).cidrs, ..one },
    ];
    for other in others {
        assert_ne!(Table::new(&other).layout(), layout, "{other:?}");
    }
}

#[test]
fn rule_comments_fit_and_round_trip() {
    for comment in Table::new(&node(&["10.1.0.0/24"])).layout().rules.into_values().flatten() {
        assert!(comment.len() < 128, "{comment:?} is longer than nft takes");
        assert_eq!(read_comment(&comment_bytes(&comment)), Some(comment));
    }
    assert_eq!(read_comment(&[1, 2, 9, 9, 0, 3, b'h', b'i', 0]).as_deref(), Some("hi"));
    assert_eq!(read_comment(&[0, 9, b'h']), None);
    assert_eq!(read_comment(&[]), None);
}

#[test]
fn table_is_replaced_in_one_batch() {
    let node = node(&["10.1.0.0/24"]);
    let kinds: Vec<u8> = Table::new(&node).messages(&[]).iter().map(|message| message.kind as u8).collect();
    assert_eq!(kinds[..3], [kind::NEW_TABLE, kind::DELETE_TABLE, kind::NEW_TABLE]);
    assert!(kinds.contains(&kind::NEW_RULE));
}

#[test]
fn many_host_ports_are_split_into_several_messages() {
    let ports: BTreeSet<Port> = (0..1201)
        .filter_map(|number| {
            let to = "[fd00::5]:80".parse().unwrap();
            Port::new("::1".parse().unwrap(), Protocol::Udp, number, to)
        })
        .collect();
    let messages = put("node", &ports.into_iter().collect::<Vec<_>>());
    assert_eq!(messages.len(), 3);
    assert!(messages.iter().all(|message| message.attributes.as_bytes().len() < 60_000));
}
