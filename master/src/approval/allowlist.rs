//! Machines of some networks, or of some names, become nodes: of both kinds, where both are listed, one has to fit.

use std::net::IpAddr;

use super::{Asked, Policy, Verdict};
use crate::options::{Allowed, is_within};

/// The policy.
pub(super) struct Allowlist {
    networks: Vec<(IpAddr, u8)>,
    names: Vec<String>,
}

impl Allowlist {
    /// Of what is listed.
    pub(super) fn of(listed: &[Allowed]) -> Self {
        let (mut networks, mut names) = (Vec::new(), Vec::new());
        for one in listed {
            match one {
                Allowed::Network(address, bits) => networks.push((*address, *bits)),
                Allowed::Name(name) => names.push(name.clone()),
            }
        }
        Self { networks, names }
    }

    fn is_near(&self, peer: Option<IpAddr>) -> bool {
        let holds =
            |peer: IpAddr| self.networks.iter().any(|(network, bits)| is_within(peer, *network, *bits));
        self.networks.is_empty() || peer.is_some_and(holds)
    }

    fn is_named(&self, node: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| fits(name, node))
    }
}

impl Policy for Allowlist {
    fn judge(&self, asked: &Asked) -> Verdict {
        if self.networks.is_empty() && self.names.is_empty() {
            return Verdict::Deny("nobody is on the list (--csr-approval-allowlist)".to_owned());
        }
        if !self.is_named(&asked.node) {
            return Verdict::Deny(format!("the name {} is not on the list", asked.node));
        }
        if !self.is_near(asked.peer) {
            let peer = asked.peer.map_or_else(|| "an unknown address".to_owned(), |peer| peer.to_string());
            return Verdict::Deny(format!("{peer} is in none of the networks on the list"));
        }
        Verdict::Approve("it is on the list".to_owned())
    }
}

/// `*` stands for any letters, a dot among them.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|left| {
            (0..=left.len()).any(|at| left.get(at..).is_some_and(|left| fits(rest, left)))
        }),
    }
}
