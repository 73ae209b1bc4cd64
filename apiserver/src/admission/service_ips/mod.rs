//! Allocates IP families, cluster IPs and node ports of Services on create and update.
//!
//! An address is taken if a Service has it or is being written with it. Nothing else is stored, so allocations
//! cannot leak. Masters that share an etcd select at random from a range that is mostly free.

mod allocations;
mod range;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::strategy::{Cause, Json, Part, addresses};
use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use self::allocations::{Allocations, Owner, ServiceAllocation};
pub use self::range::ServiceRange;
use super::{Admission, AdmissionRequest, Operation};
use crate::registry::Registry;
use crate::status::Status;
use crate::watch_cache::{Object, Scope, WatchCache};

/// The resource name of Services.
const SERVICES: &str = "services";

/// The service IP and node port allocator.
pub struct ServiceIpAllocator {
    registry: Arc<Registry>,
    ranges: Vec<ServiceRange>,
    taken: Mutex<Allocations>,
}

impl ServiceIpAllocator {
    /// Creates an allocator of these ranges, primary first.
    pub fn new(registry: Arc<Registry>, ranges: Vec<ServiceRange>) -> Self {
        Self { registry, ranges, taken: Mutex::default() }
    }

    /// The current allocations, refreshed from the cache.
    fn refresh(&self, now: Instant) -> MutexGuard<'_, Allocations> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.registry.cache().list(SERVICES, &Scope::All).objects;
        let owner = |it: &Object| (it.namespace().to_owned(), it.name().to_owned());
        taken.refresh(all.iter().map(|it| (owner(it), it.revision(), || it.decode())), now);
        taken
    }

    /// Sets the missing families, addresses and ports of a Service that no client writes, such as that of a manifest.
    /// Values of `before` are kept. A new value depends on the name of the Service, so it usually remains after a restart.
    ///
    /// # Errors
    /// If a field cannot be set. The error names the field and the reason.
    pub fn assign(
        &self,
        namespace: &str,
        name: &str,
        service: &mut Json,
        before: Option<&Json>,
    ) -> Result<(), (String, String)> {
        api::strategy::of("", "Service").prepare(service, before, &Part::Main);
        let mut hasher = DefaultHasher::new();
        (namespace, name).hash(&mut hasher);
        let seed = u128::from(hasher.finish());
        self.complete(service, before, &(namespace.to_owned(), name.to_owned()), seed, false)
    }

    /// Sets the missing families, addresses and ports of a Service. `seed` selects them. They are reserved,
    /// except for a dry run.
    fn complete(
        &self,
        service: &mut Json,
        before: Option<&Json>,
        owner: &Owner,
        seed: u128,
        dry_run: bool,
    ) -> Result<(), (String, String)> {
        let now = Instant::now();
        let families: Vec<&str> = self.ranges.iter().map(range::family).collect();
        let mut taken = self.refresh(now);
        let mut allocation = ServiceAllocation::new(owner, &taken, &self.ranges, seed);
        addresses::complete(service, before, &families, &mut allocation)?;
        let given = allocation.given;
        if !dry_run {
            taken.hold(owner, given, now);
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for ServiceIpAllocator {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if !attempt.is_of(SERVICES) || attempt.subresource.is_some() {
            return Ok(());
        }
        match attempt.operation {
            Operation::Create | Operation::Update => {}
            // A deleted Service is no longer being written.
            Operation::Delete => {
                drop(self.refresh(Instant::now()));
                return Ok(());
            }
            Operation::Connect => return Ok(()),
        }
        let mut service = std::mem::take(&mut attempt.object);
        // The strategy of the kind restores fields that the client omitted.
        api::strategy::of("", "Service").prepare(&mut service, attempt.old, &Part::Main);
        let completed = self.complete(
            &mut service,
            attempt.old,
            &owner(attempt),
            Uuid::new_v4().as_u128(),
            attempt.dry_run,
        );
        let refused = completed.map_err(|(field, why)| {
            let pointer = format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
            let service = Value::Object(service.clone());
            let value = service.pointer(&pointer).cloned().unwrap_or_default();
            Status::invalid(attempt.resource, attempt.name, &[Cause::invalid(field, value, &why)])
        });
        attempt.object = service;
        refused
    }

    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if is_written && attempt.is_of(SERVICES) && attempt.subresource.is_none() && !attempt.dry_run {
            // The object is valid: keep the allocation however long the write takes.
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.reserve(&owner(attempt), Instant::now());
        }
        Ok(())
    }
}

/// The Services with an address outside these ranges. They were created with another service CIDR.
pub fn services_outside_ranges(cache: &WatchCache, ranges: &[ServiceRange]) -> Vec<(String, IpAddr)> {
    let all = cache.list(SERVICES, &Scope::All).objects;
    let is_foreign = |it: &Object| {
        let held = allocations::addresses(&it.decode());
        let is_inside = |ip: IpAddr| ranges.iter().any(|range| range.contains(ip));
        let ip = held.into_iter().find(|ip| !is_inside(*ip))?;
        Some((format!("{}/{}", it.namespace(), it.name()), ip))
    };
    all.iter().filter_map(is_foreign).collect()
}

/// The Service of a request.
fn owner(attempt: &AdmissionRequest<'_>) -> Owner {
    (attempt.namespace.unwrap_or_default().to_owned(), attempt.name.to_owned())
}
