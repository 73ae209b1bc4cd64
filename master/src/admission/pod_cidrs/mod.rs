//! Allocates pod CIDRs. A Node without one gets it with its next write, usually its creation. A CIDR that a Node
//! requests is kept if it is free. Otherwise a new Node gets another one, and an update is rejected.
//!
//! A CIDR is taken if a Node has it, or if it is reserved for a Node that is being written. Reservations are stored
//! in one ConfigMap, which all masters of a store update by compare-and-swap. A successful update has read all
//! earlier Nodes and reservations, so two masters never allocate the same CIDR.

mod reservations;

use std::collections::HashMap;
use std::sync::Arc;

use api::strategy::{Cause, Json};
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::registry::{self, Registry};
use apiserver::watch_cache::Scope;
use async_trait::async_trait;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Mutex;

use self::reservations::Reservations;
use crate::objects::node::NodeSpec;
use crate::objects::{self, Spec};
use crate::pod_cidrs::{self, ClusterCidr};

/// The resource name of Nodes.
const NODES: &str = "nodes";
/// Maximum number of attempts at a reservation. In each round, one of the competing masters succeeds.
const MAX_ATTEMPTS: usize = 32;

pub struct PodCidrAllocator {
    registry: Arc<Registry>,
    ranges: Vec<ClusterCidr>,
    /// CIDRs that must not be allocated, namely the service CIDRs.
    reserved: Vec<IpNet>,
    /// The pod CIDRs of each Node at the last revision that was read. Locked during an allocation.
    seen: Mutex<HashMap<String, (u64, Vec<IpNet>)>>,
}

impl PodCidrAllocator {
    /// Creates an allocator of these cluster CIDRs, except for the reserved ones. Without cluster CIDRs, it
    /// allocates nothing.
    pub fn new(registry: Arc<Registry>, ranges: Vec<ClusterCidr>, reserved: Vec<IpNet>) -> Self {
        Self { registry, ranges, reserved, seen: Mutex::default() }
    }

    /// Allocates pod CIDRs for a Node, and reserves them unless it is a dry run.
    async fn allocate(
        &self,
        attempt: &AdmissionRequest<'_>,
        claimed: &[IpNet],
    ) -> Result<Vec<IpNet>, Status> {
        let name = attempt.name;
        let mut seen = self.seen.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            // Reservations are read before Nodes: a reservation that was removed is visible in its Node.
            let kept = self.registry.cache().get(
                reservations::RESOURCE,
                reservations::NAMESPACE,
                reservations::NAME,
            );
            let now = Timestamp::now();
            let mut reservations =
                kept.as_ref().map(|kept| Reservations::of(&kept.decode(), now)).unwrap_or_default();
            self.refresh(&mut seen);
            let others = seen.iter().filter(|(node, _)| *node != name).flat_map(|(_, (_, held))| held);
            let taken = others.chain(&self.reserved).copied().chain(reservations.reserved_for_others(name));
            let taken: Vec<IpNet> = taken.collect();
            let refusal = claimed.iter().find_map(|claim| {
                let why = pod_cidrs::refusal(&self.ranges, claim, &taken)?;
                Some(Cause::invalid("spec.podCIDR", Value::from(claim.to_string()), &why))
            });
            if let Some(cause) = refusal.filter(|_| attempt.operation == Operation::Update) {
                return Err(Status::invalid(attempt.resource, name, &[cause]));
            }
            // A retried request gets the CIDRs that were reserved before.
            let claimed = [claimed, reservations.reserved_for(name)].concat();
            let given = pod_cidrs::allocate(&self.ranges, &claimed, &taken);
            if attempt.dry_run || given.is_empty() {
                return Ok(given);
            }
            reservations.remove_settled(|node| seen.get(node).is_some_and(|(_, held)| !held.is_empty()));
            reservations.add(name, &given, now);
            let rows = self.registry.rows();
            let Some(row) = rows.find("", "v1", reservations::RESOURCE) else { return Ok(given) };
            let written = match &kept {
                Some(kept) => self.registry.replace(row, kept, &reservations.write_to(kept.decode())).await,
                None => self.registry.create(row, &reservations.object(now)).await,
            };
            match written {
                Ok(_) => return Ok(given),
                // Another master wrote first; the next attempt sees its reservation.
                Err(registry::Error::Changed | registry::Error::Exists) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Status::internal("too many concurrent pod CIDR allocations by other masters: try again"))
    }

    /// Decodes the Nodes that changed since the last call.
    fn refresh(&self, seen: &mut HashMap<String, (u64, Vec<IpNet>)>) {
        let mut before = std::mem::take(seen);
        for node in self.registry.cache().list(NODES, &Scope::All).objects {
            let held = match before.remove(node.name()) {
                Some(known) if known.0 == node.revision() => known,
                _ => (node.revision(), ranges_of(&node.decode()).unwrap_or_default()),
            };
            seen.insert(node.name().to_owned(), held);
        }
    }
}

/// The pod CIDRs of a Node, or `None` if one is invalid.
fn ranges_of(node: &Json) -> Option<Vec<IpNet>> {
    pod_cidrs::of(&objects::read::<Spec<NodeSpec>>(node).spec)
}

#[async_trait]
impl Admission for PodCidrAllocator {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if self.ranges.is_empty() || !is_written || !attempt.is_of(NODES) || attempt.subresource.is_some() {
            return Ok(());
        }
        let has = |node: &Json| ranges_of(node).is_none_or(|ranges| !ranges.is_empty());
        if attempt.operation == Operation::Update && attempt.old.is_some_and(has) {
            return Ok(());
        }
        // Validation rejects a CIDR that cannot be parsed.
        let Some(claimed) = ranges_of(&attempt.object) else { return Ok(()) };
        let given = self.allocate(attempt, &claimed).await?;
        if given != claimed {
            pod_cidrs::set(&mut attempt.object, &given);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
