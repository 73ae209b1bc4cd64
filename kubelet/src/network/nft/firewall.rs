//! Beside other firewalls: what they drop for want of a rule is accepted for pods; what they have rules for is theirs. Pure.
//!
//! A chain whose policy is to drop gets two rules at its end. That changes its default for the bridge and no rule of its
//! administrator. They are found again by their comments.

use super::Node;
use super::expression::{Expression, accept, comes_in_by, count, goes_out_by};
use super::table::{kind, new_rule};
use super::wire::{Attributes, Message};

/// A chain of somebody else that sees what is forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// `NFPROTO_*`.
    pub family: u8,
    /// Its table.
    pub table: String,
    /// Its name.
    pub chain: String,
    /// Whether it drops what no rule decides on.
    pub drops: bool,
    /// Whether a program that runs has the table to itself.
    pub is_owned: bool,
    /// Rules of ours in it, in their order.
    pub ours: Vec<Ours>,
}

/// A rule of ours in a chain of somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The kernel's number for it.
    pub handle: u64,
    /// Which of the two it is.
    pub comment: String,
}

impl Forward {
    /// What takes our rules out of it.
    pub fn without_ours(&self) -> Vec<Message> {
        let delete = |rule: &Ours| {
            let which = Attributes::new().text(1, &self.table).text(2, &self.chain).long(3, rule.handle);
            Message::new(kind::DELETE_RULE, 0, self.family, which)
        };
        self.ours.iter().map(delete).collect()
    }

    fn with_ours(&self, node: &Node) -> Vec<Message> {
        let rules = [comes_in_by(&node.bridge), goes_out_by(&node.bridge)];
        let rules = rules.into_iter().zip(comments(&node.name));
        let rules = rules.map(|(which, comment)| {
            // Counted, as iptables has every rule.
            let rule: Vec<Expression> = which.into_iter().chain([count(), accept()]).collect();
            new_rule(self.family, &self.table, &self.chain, &comment, &rule)
        });
        rules.collect()
    }

    fn name(&self) -> String {
        let family = match self.family {
            2 => "ip",
            10 => "ip6",
            _ => "inet",
        };
        format!("{family} {} {}", self.table, self.chain)
    }
}

/// The comments of our two rules, in their order.
pub fn comments(name: &str) -> [String; 2] {
    [format!("{name}: from pods"), format!("{name}: to pods")]
}

/// What is to be changed in chains of others.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Firewalls {
    /// The changes.
    pub messages: Vec<Message>,
    /// Chains that let pods through now and did not before.
    pub opened: Vec<String>,
    /// Chains that do not, and that we cannot change.
    pub closed: Vec<String>,
}

/// What is to be changed: both rules where a chain drops, none where it does not.
pub fn plan(node: &Node, chains: &[Forward]) -> Firewalls {
    let wanted = comments(&node.name);
    let mut firewalls = Firewalls::default();
    for chain in chains {
        let is_open = chain.ours.iter().map(|rule| &rule.comment).eq(&wanted);
        match (chain.drops, is_open) {
            (true, true) => {}
            (true, false) if chain.is_owned => firewalls.closed.push(chain.name()),
            (true, false) => {
                firewalls.messages.extend(chain.without_ours());
                firewalls.messages.extend(chain.with_ours(node));
                firewalls.opened.push(chain.name());
            }
            (false, _) => firewalls.messages.extend(chain.without_ours()),
        }
    }
    firewalls
}

#[cfg(test)]
mod tests {
    use super::{Forward, Node, Ours, comments, plan};

    fn chain(drops: bool, ours: &[&str]) -> Forward {
        let ours = ours.iter().zip(1..);
        let ours = ours.map(|(comment, handle)| Ours { handle, comment: (*comment).to_owned() });
        let (table, chain) = ("filter".to_owned(), "FORWARD".to_owned());
        Forward { family: 2, table, chain, drops, is_owned: false, ours: ours.collect() }
    }

    /// How many rules are deleted and how many made.
    fn check(chain: Forward, deleted: usize, made: usize) {
        let node = Node { name: "node".to_owned(), bridge: "br0".to_owned(), cidrs: vec![], cluster: vec![] };
        let planned = plan(&node, std::slice::from_ref(&chain));
        let of = |kind: u16| planned.messages.iter().filter(|message| message.kind & 0xff == kind).count();
        assert_eq!((of(8), of(6)), (deleted, made), "{chain:?}");
        assert_eq!(planned.opened.len(), made / 2, "{chain:?}");
    }

    #[test]
    fn a_chain_that_drops_has_both_rules_once_and_others_none() {
        let [from, to] = comments("node");
        let (from, to) = (from.as_str(), to.as_str());
        check(chain(true, &[]), 0, 2);
        check(chain(true, &[from, to]), 0, 0);
        check(chain(true, &[from]), 1, 2);
        check(chain(true, &[to, from]), 2, 2);
        check(chain(true, &[from, to, from, to]), 4, 2);
        check(chain(false, &[from, to]), 2, 0);
        check(chain(false, &[]), 0, 0);
    }

    #[test]
    fn a_chain_that_belongs_to_a_program_is_told_of() {
        let node = Node { name: "node".to_owned(), bridge: "br0".to_owned(), cidrs: vec![], cluster: vec![] };
        let planned = plan(&node, &[Forward { is_owned: true, ..chain(true, &[]) }]);
        assert_eq!((planned.messages.len(), planned.closed), (0, vec!["ip filter FORWARD".to_owned()]));
    }
}
