//! Chains that admit only some source addresses (`loadBalancerSourceRanges`). Pure.

use ipnet::IpNet;
use sha2::{Digest, Sha256};

use super::super::Family;
use super::super::expression::{self as on, Expression};
use super::super::host_ports::address_bytes;
use super::layout::{Picker, REJECT, picker};
use super::{ServiceAddress, ServiceRules, Side, Target};

/// A chain that leads clients with an admitted address on, and drops packets of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sources {
    /// The admitted addresses, all of one family.
    admitted: Vec<IpNet>,
    /// The chain that chooses an endpoint. `None` if there is no endpoint: the connection is rejected.
    next: Option<Picker>,
}

impl Sources {
    /// The chain for a target of an address. `None` if all sources are admitted, or if the target drops all packets.
    pub fn of(rules: &ServiceRules, side: Side, at: ServiceAddress, target: &Target) -> Option<Self> {
        let admitted = rules.sources.get(&at)?.clone();
        let next = match target {
            Target::Drop => return None,
            Target::Reject => None,
            Target::Group(_) => Some(picker(rules, side, at, target)?),
        };
        Some(Self { admitted, next })
    }

    /// The name of the chain.
    pub fn name(&self) -> String {
        let mut digest = Sha256::new();
        for cidr in &self.admitted {
            digest.update(format!("{cidr} "));
        }
        format!("sources_{}_{}", hex::encode(&digest.finalize()[..8]), self.next())
    }

    /// The rules of the chain.
    pub fn rules(&self) -> Vec<(&'static str, Vec<Expression>)> {
        let admit = |cidr: &IpNet| {
            let family = Family::of(cidr.addr());
            let from = on::source_in(family, &address_bytes(cidr.network()), cidr.prefix_len());
            ("from an admitted source", [on::family_is(family), from, vec![on::goto(&self.next())]].concat())
        };
        let rest = ("from another source", vec![on::drop()]);
        self.admitted.iter().map(admit).chain([rest]).collect()
    }

    fn next(&self) -> String {
        self.next.as_ref().map_or_else(|| REJECT.to_owned(), Picker::name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    //! Tests of the chains for admitted sources.
    use std::net::SocketAddr;

    use super::{Family, ServiceAddress, ServiceRules, Side, Sources, Target};
    use crate::network::nft::Protocol;
    use crate::network::nft::services::elements::{Value, elements};
    use crate::network::nft::services::layout::{Set, SetKind, service_chains};

    #[test]
    fn an_address_with_admitted_sources_leads_to_a_chain_that_checks_them() {
        let at: SocketAddr = "192.0.2.7:80".parse().unwrap();
        let at = ServiceAddress { ip: at.ip(), protocol: Protocol::Tcp, port: at.port() };
        let mut rules = ServiceRules::default();
        rules.targets.insert((Side::Outside, at), Target::Reject);
        assert_eq!(Sources::of(&rules, Side::Outside, at, &Target::Reject), None);
        rules.sources.insert(at, vec!["198.51.100.0/24".parse().unwrap(), "203.0.113.9/32".parse().unwrap()]);
        let chain = Sources::of(&rules, Side::Outside, at, &Target::Reject).unwrap();
        assert_eq!(chain.rules().len(), 3, "two sources, and the rest");
        assert!(
            chain.name().starts_with("sources_") && chain.name().ends_with("_reject"),
            "{}",
            chain.name()
        );
        assert_eq!(service_chains(&rules).len(), 1);
        let set = Set { kind: SetKind::Services(Side::Outside), family: Family::V4 };
        let element = elements(&rules).into_iter().find(|((of, _), _)| *of == set).unwrap();
        assert_eq!(element.1, Value::Goto(chain.name().into()));
        assert_eq!(Sources::of(&rules, Side::Outside, at, &Target::Drop), None);
    }
}
