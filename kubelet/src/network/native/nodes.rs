//! The network as part of a cluster: which ranges are its own, and the way to those of others.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use ipnet::IpNet;

use super::bridge::{Laid, overlap};
use super::netlink::Netlink;
use super::own::{Decision, Own, decide, without};
use super::{Native, Ranges, range};
use crate::network::members::Members;

/// What came of taking in what the cluster says.
#[derive(Debug)]
pub(super) struct Joined {
    /// Why the node has no range of its own, if so.
    pub standing: Result<(), String>,
    /// What is new, and as it should be.
    pub news: Vec<String>,
    /// What had gone and is there again.
    pub mended: Vec<String>,
    /// What somebody should know, for as long as it is so.
    pub troubles: BTreeSet<String>,
    /// What is to be tried again.
    pub failed: Option<String>,
}

impl Native {
    /// Sees to it that the node's ranges are those of the cluster, and that pods of other nodes are reached.
    pub(super) fn join(&self, members: &Members) -> Joined {
        let Decision { own, taken, standing } = decide(&self.node, &self.given, &self.ranges().own, members);
        let mut joined = Joined {
            standing,
            news: Vec::new(),
            mended: Vec::new(),
            troubles: BTreeSet::new(),
            failed: None,
        };
        let servers = (self.servers)();
        let decided = own.current.clone();
        match self.adopt(own, &taken, &servers, &mut joined.news) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => joined.standing = Err(why),
            Err(error) => {
                let why = format!("cannot take the addresses that the cluster has for pods: {error}");
                joined.standing = without(&decided, &self.current(), joined.standing, &why);
                joined.failed = Some(why);
            }
        }
        let current = self.current();
        self.across().keep_clear_of(servers);
        let told = self.across().settle(&current, &members.others, |cluster| self.know_besides(cluster));
        joined.mended.extend(told.mended);
        joined.troubles.extend(told.troubles);
        joined.failed = joined.failed.or(told.failed);
        if let Some(cluster) = told.cluster
            && let Err(error) = self.know(cluster)
        {
            joined.failed =
                Some(format!("pods may be seen by other nodes as if they were this one: {error}"));
        }
        joined
    }

    /// Lets go of whatever there is of a cluster that this node belongs to no more.
    pub(super) fn leave(&self) -> io::Result<()> {
        self.across().remove()?;
        self.know(Vec::new())
    }

    /// Has these ranges from now on, unless something else here has them: then it says what. The bridge has an address of a range
    /// before any pod has one, and none of a range that another node has.
    fn adopt(
        &self,
        mut own: Own,
        taken: &[(IpNet, String)],
        servers: &[IpAddr],
        news: &mut Vec<String>,
    ) -> io::Result<Result<(), String>> {
        let before = self.ranges().own.clone();
        let addresses = self.state().addresses();
        let mut gone: Vec<IpNet> = taken.iter().map(|(range, _)| *range).collect();
        own.former.retain(|range| {
            let is_in_use = addresses.iter().any(|ip| range.contains(ip));
            gone.extend((!is_in_use).then_some(*range));
            is_in_use
        });
        if own == before {
            return Ok(Ok(()));
        }
        let mut netlink = Netlink::open()?;
        let new: Vec<IpNet> =
            own.current.iter().filter(|range| !before.all().contains(range)).copied().collect();
        // Whoever waits here holds up all pods of the node; it is tried again.
        let _choosing = range::lock_now()?;
        if let Some(route) = overlap(&mut netlink, &new, &self.across(), Laid::Apart)? {
            let (node, new) = (&self.node, range::list(&new, " and "));
            return Ok(Err(format!(
                "the cluster has {new} for pods of node {node}, and this machine reaches {route}: take that route \
                 away, or have the cluster give the node another range"
            )));
        }
        if let Some(server) = range::held(&new, servers) {
            let (node, new) = (&self.node, range::list(&new, " and "));
            return Ok(Err(format!(
                "the cluster has {new} for pods of node {node}, and the API server at {server} lies within, which would not be \
                 reached any more: have the master give ranges that no machine is in (--cluster-cidr)"
            )));
        }
        self.bridge.ensure(&mut netlink, &own.all())?;
        for range in &gone {
            self.bridge.let_go(&mut netlink, range)?;
        }
        if self.given.is_empty() {
            range::choose(&self.directory, &own.current)?;
        }
        range::keep_all(&self.directory, &own.all())?;
        if own.current != before.current {
            news.push(format!(
                "new pods get addresses of {}, as the cluster says",
                range::list(&own.current, " and ")
            ));
        }
        for (range, node) in taken {
            let pods = addresses.iter().filter(|ip| range.contains(*ip)).count();
            if pods > 0 {
                news.push(format!(
                    "node {node} has {range} now: {pods} pods with addresses of it are made anew"
                ));
            }
        }
        self.set(|ranges| ranges.own = own);
        self.ensure_rules()?;
        Ok(Ok(()))
    }

    /// Knows of these ranges of other nodes before there is a way to them, lest pods are seen as this node on it, and of those of
    /// before until theirs has gone.
    fn know_besides(&self, cluster: &[IpNet]) {
        let mut all = self.ranges().others.clone();
        let new: Vec<IpNet> = cluster.iter().filter(|range| !all.contains(range)).copied().collect();
        all.extend(new);
        // Once the ways are laid it is tried again, and told.
        let _ = self.know(all);
    }

    /// Knows what the ranges of other nodes are.
    fn know(&self, others: Vec<IpNet>) -> io::Result<()> {
        if self.ranges().others == others {
            return Ok(());
        }
        range::keep_cluster(&self.directory, &others)?;
        let before = self.ranges();
        self.set(|ranges| ranges.others = others);
        self.ensure_rules()
            .map(drop)
            .inspect_err(|_| self.set(|ranges| ranges.others.clone_from(&before.others)))
    }

    fn set(&self, change: impl FnOnce(&mut Ranges)) {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut ranges));
    }
}
