//! Cooperation with other firewalls. If their default policy drops forwarded packets, packets of pods are accepted.
//! If it drops packets for the host, DNS queries of pods are accepted ([`dns_input`]). Their other rules stay in effect.
//! Pure.
//!
//! A chain with the policy "drop" gets two rules at its end, which change the default for the bridge. While the kubelet
//! serves Services, a third one accepts connections to Services, which may lead from other machines to endpoints on
//! other nodes. They change none of the administrator's rules. Their comments identify them.

use super::Node;
use super::dns_input;
use super::expression::{Expression, accept, count, has_mark, iif_is, iptables_mark, oif_is};
use super::services::SERVICE_MARK;
use super::table::{INET, kind, new_rule};
use super::wire::{Attributes, Message};

/// A chain of another table that sees forwarded packets, or packets for this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The family, `NFPROTO_*`.
    pub family: u8,
    /// The table name.
    pub table: String,
    /// The chain name.
    pub chain: String,
    /// Whether the chain sees packets for this host, and not forwarded ones.
    pub is_input: bool,
    /// Whether the policy of the chain is to drop.
    pub drops: bool,
    /// Whether a running program owns the table exclusively.
    pub is_owned: bool,
    /// The rules of the kubelet in the chain, in order.
    pub ours: Vec<OwnRule>,
}

/// A rule of the kubelet in a chain of another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRule {
    /// The rule's handle in the kernel.
    pub handle: u64,
    /// The comment that identifies the rule.
    pub comment: String,
}

impl Forward {
    /// The messages that delete the rules of the kubelet.
    pub fn delete_own_rules(&self) -> Vec<Message> {
        let delete = |rule: &OwnRule| {
            let which = Attributes::new().text(1, &self.table).text(2, &self.chain).long(3, rule.handle);
            Message::new(kind::DELETE_RULE, 0, self.family, which)
        };
        self.ours.iter().map(delete).collect()
    }

    /// The comments of the rules that the chain needs if it drops packets, in order.
    fn wanted(&self, node: &Node) -> Vec<String> {
        if self.is_input { dns_input::comments(node, self.family) } else { forward_comments(node) }
    }

    fn add_own_rules(&self, node: &Node) -> Vec<Message> {
        if self.is_input {
            return dns_input::accept_queries(self, node);
        }
        let rules = [iif_is(&node.bridge), oif_is(&node.bridge), self.to_services()];
        let rules = rules.into_iter().zip(forward_comments(node));
        let rules = rules.map(|(which, comment)| {
            // iptables counts each rule.
            let rule: Vec<Expression> = which.into_iter().chain([count(), accept()]).collect();
            new_rule(self.family, &self.table, &self.chain, &comment, &rule)
        });
        rules.collect()
    }

    /// Matches connections to Services. In a chain of iptables, only expressions that `iptables` can print may be used.
    fn to_services(&self) -> Vec<Expression> {
        let is_of_iptables = self.family != INET && self.table == "filter" && self.chain == "FORWARD";
        if is_of_iptables { vec![iptables_mark(SERVICE_MARK)] } else { has_mark(SERVICE_MARK) }
    }

    fn name(&self) -> String {
        let family = match self.family {
            2 => "ip",
            10 => "ip6",
            _ => "inet",
        };
        let what = if self.is_input { " (DNS)" } else { "" };
        format!("{family} {} {}{what}", self.table, self.chain)
    }

    /// A chain of iptables or of nftables that drops packets for this host.
    #[cfg(test)]
    pub fn input(family: u8) -> Self {
        let (table, chain) = ("filter".to_owned(), "INPUT".to_owned());
        Self { family, table, chain, is_input: true, drops: true, is_owned: false, ours: Vec::new() }
    }
}

/// The comments of all rules, in order.
pub fn comments(name: &str) -> [String; 3] {
    [format!("{name}: from pods"), format!("{name}: to pods"), format!("{name}: to Services")]
}

/// The comments of the rules of a node. The last one exists only while the kubelet serves Services.
fn forward_comments(node: &Node) -> Vec<String> {
    let count = if node.serves_services { 3 } else { 2 };
    comments(&node.name).into_iter().take(count).collect()
}

/// The changes of other tables' chains.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Firewalls {
    /// The messages to send.
    pub messages: Vec<Message>,
    /// Chains that now accept packets of pods, and did not before.
    pub opened: Vec<String>,
    /// Chains that drop packets of pods and cannot be changed.
    pub closed: Vec<String>,
}

/// Plans the changes. Chains that drop packets get all rules, others get none.
pub fn plan(node: &Node, chains: &[Forward]) -> Firewalls {
    let mut firewalls = Firewalls::default();
    for chain in chains {
        let wanted = chain.wanted(node);
        let is_open = chain.ours.iter().map(|rule| &rule.comment).eq(&wanted);
        match (chain.drops && !wanted.is_empty(), is_open) {
            (true, true) => {}
            (true, false) if chain.is_owned => firewalls.closed.push(chain.name()),
            (true, false) => {
                firewalls.messages.extend(chain.delete_own_rules());
                firewalls.messages.extend(chain.add_own_rules(node));
                firewalls.opened.push(chain.name());
            }
            (false, _) => firewalls.messages.extend(chain.delete_own_rules()),
        }
    }
    firewalls
}

#[cfg(test)]
mod tests {
    use super::{Forward, Node, OwnRule, comments, plan};

    fn chain(drops: bool, ours: &[&str]) -> Forward {
        let ours = ours.iter().zip(1..);
        let ours = ours.map(|(comment, handle)| OwnRule { handle, comment: (*comment).to_owned() });
        let (table, chain) = ("filter".to_owned(), "FORWARD".to_owned());
        Forward { family: 2, table, chain, is_input: false, drops, is_owned: false, ours: ours.collect() }
    }

    fn node(serves_services: bool) -> Node {
        let (name, bridge) = ("node".to_owned(), "br0".to_owned());
        Node { name, bridge, serves_services, ..Node::default() }
    }

    /// Checks how many rules the plan deletes and creates.
    fn check(chain: Forward, deleted: usize, made: usize) {
        let node = node(true);
        let planned = plan(&node, std::slice::from_ref(&chain));
        let of = |kind: u16| planned.messages.iter().filter(|message| message.kind & 0xff == kind).count();
        assert_eq!((of(8), of(6)), (deleted, made), "{chain:?}");
        assert_eq!(planned.opened.len(), made / 3, "{chain:?}");
    }

    #[test]
    fn dropping_chain_gets_each_accept_rule_once() {
        let [from, to, services] = comments("node");
        let [from, to, services] = [from.as_str(), to.as_str(), services.as_str()];
        check(chain(true, &[]), 0, 3);
        check(chain(true, &[from, to, services]), 0, 0);
        check(chain(true, &[from, to]), 2, 3);
        check(chain(true, &[to, from, services]), 3, 3);
        check(chain(true, &[from, to, services, from, to, services]), 6, 3);
        check(chain(false, &[from, to, services]), 3, 0);
        check(chain(false, &[]), 0, 0);
    }

    #[test]
    fn only_a_node_that_serves_services_accepts_connections_to_them() {
        let [from, to, services] = comments("node");
        let changed = |there: &[&str]| plan(&node(false), &[chain(true, there)]).messages.len();
        assert_eq!(changed(&[]), 2, "two new rules");
        assert_eq!(changed(&[&from, &to]), 0);
        assert_eq!(changed(&[&from, &to, &services]), 5, "three deleted and two new rules");
    }

    #[test]
    fn a_chain_that_drops_packets_for_the_host_accepts_dns_while_the_node_has_a_server() {
        let node = node(true);
        let with_dns = Node { dns_servers: vec![[10, 1, 0, 1].into()], ..node.clone() };
        let closed = Forward::input(2);
        let ours = crate::network::nft::dns_input::comments(&with_dns, 2).into_iter().zip(1..);
        let ours = ours.map(|(comment, handle)| OwnRule { handle, comment }).collect();
        let open = Forward { ours, ..closed.clone() };
        let accepting = Forward { drops: false, ..open.clone() };
        for (node, chain, changes, opened) in [
            (&with_dns, &closed, 2, 1),
            (&with_dns, &open, 0, 0),
            (&with_dns, &accepting, 2, 0),
            (&node, &open, 2, 0),
            (&node, &closed, 0, 0),
        ] {
            let planned = plan(node, std::slice::from_ref(chain));
            assert_eq!(
                (planned.messages.len(), planned.opened.len()),
                (changes, opened),
                "{node:?} {chain:?}"
            );
        }
    }

    #[test]
    fn owned_foreign_chain_is_reported_and_not_changed() {
        let planned = plan(&node(true), &[Forward { is_owned: true, ..chain(true, &[]) }]);
        assert_eq!((planned.messages.len(), planned.closed), (0, vec!["ip filter FORWARD".to_owned()]));
    }
}
