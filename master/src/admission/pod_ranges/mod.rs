//! A Node that has no range for its pods gets one with the next write of it, the first one as a rule; what it claims it keeps where
//! nobody else has it. A Node that is made gets another one then; whoever writes one into a Node that is there is told.
//!
//! Taken is what Nodes have, and what was promised to Nodes that are being written. Promises stand in one ConfigMap that all masters
//! of a store write by comparing first: whoever has written it had seen every Node and every promise of before, since what a
//! registry shows is never older than what its writes were compared with. So no two masters give the same.

mod promises;

use std::collections::HashMap;
use std::sync::Arc;

use api::strategy::{Cause, Json};
use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::registry::{self, Registry};
use apiserver::store::Scope;
use async_trait::async_trait;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Mutex;

use self::promises::Promises;
use crate::pod_ranges::{self, PodRange};

/// The name of Nodes in the store.
const NODES: &str = "nodes";
/// How often a promise is tried again because another master has given one; each time one of them gets through.
const TRIES: usize = 32;

/// Gives ranges to nodes.
pub struct PodRanges {
    registry: Arc<Registry>,
    ranges: Vec<PodRange>,
    /// What is in use for something else: the ranges of services.
    reserved: Vec<IpNet>,
    /// What each Node had in the revision in which it was read last. Held while one is given.
    seen: Mutex<HashMap<String, (u64, Vec<IpNet>)>>,
}

impl PodRanges {
    /// Gives pieces of these ranges, nothing where there are none, and nothing of what is reserved.
    pub fn new(registry: Arc<Registry>, ranges: Vec<PodRange>, reserved: Vec<IpNet>) -> Self {
        Self { registry, ranges, reserved, seen: Mutex::default() }
    }

    /// Gives a node a range, and promises it to it unless nothing is to be written.
    async fn give(&self, attempt: &Attempt<'_>, claimed: &[IpNet]) -> Result<Vec<IpNet>, Status> {
        let name = attempt.name;
        let mut seen = self.seen.lock().await;
        for _ in 0..TRIES {
            // First the promises, then the Nodes: what is promised no more is seen in its Node.
            let kept = self.registry.cache().get(promises::RESOURCE, promises::NAMESPACE, promises::NAME);
            let now = Timestamp::now();
            let mut promises =
                kept.as_ref().map(|kept| Promises::of(&kept.decode(), now)).unwrap_or_default();
            self.look(&mut seen);
            let others = seen.iter().filter(|(node, _)| *node != name).flat_map(|(_, (_, held))| held);
            let taken = others.chain(&self.reserved).copied().chain(promises.to_others(name));
            let taken: Vec<IpNet> = taken.collect();
            let refusal = claimed.iter().find_map(|claim| {
                let why = pod_ranges::refusal(&self.ranges, claim, &taken)?;
                Some(Cause::invalid("spec.podCIDR", Value::from(claim.to_string()), &why))
            });
            if let Some(cause) = refusal.filter(|_| attempt.operation == Operation::Update) {
                return Err(Status::invalid(attempt.resource, name, &[cause]));
            }
            // Whoever tries again gets what he was promised before.
            let claimed = [claimed, promises.to(name)].concat();
            let given = pod_ranges::give(&self.ranges, &claimed, &taken);
            if attempt.dry_run || given.is_empty() {
                return Ok(given);
            }
            promises.forget(|node| seen.get(node).is_some_and(|(_, held)| !held.is_empty()));
            promises.add(name, &given, now);
            let rows = self.registry.rows();
            let Some(row) = rows.find("", "v1", promises::RESOURCE) else { return Ok(given) };
            let written = match &kept {
                Some(kept) => self.registry.replace(row, kept, &promises.written(kept.decode())).await,
                None => self.registry.create(row, &promises.object(now)).await,
            };
            match written {
                Ok(_) => return Ok(given),
                // Another master was first; what it has promised is seen now.
                Err(registry::Error::Changed | registry::Error::Exists) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Status::internal("other masters give ranges to nodes all the time: try again"))
    }

    /// Reads the Nodes that have changed since.
    fn look(&self, seen: &mut HashMap<String, (u64, Vec<IpNet>)>) {
        let mut before = std::mem::take(seen);
        for node in self.registry.cache().list(NODES, &Scope::All).objects {
            let held = match before.remove(node.name()) {
                Some(known) if known.0 == node.revision() => known,
                _ => (node.revision(), pod_ranges::of(&node.decode()).unwrap_or_default()),
            };
            seen.insert(node.name().to_owned(), held);
        }
    }
}

#[async_trait]
impl Admission for PodRanges {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if self.ranges.is_empty() || !is_written || !attempt.is_of(NODES) || attempt.subresource.is_some() {
            return Ok(());
        }
        let has = |node: &Json| pod_ranges::of(node).is_none_or(|ranges| !ranges.is_empty());
        if attempt.operation == Operation::Update && attempt.old.is_some_and(has) {
            return Ok(());
        }
        // What does not read is refused by the kind itself.
        let Some(claimed) = pod_ranges::of(&attempt.object) else { return Ok(()) };
        let given = self.give(attempt, &claimed).await?;
        if given != claimed {
            pod_ranges::set(&mut attempt.object, &given);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
