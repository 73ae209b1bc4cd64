//! A service gets its families, its addresses in the cluster and its ports on the nodes, when it is made and when it changes.
//!
//! What is taken is what services have, and what was given to those that are being written: nothing else is stored, so
//! nothing can leak. Masters that share an etcd choose at random out of a range that is nearly empty.

mod range;
mod taken;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::strategy::{Cause, Json, Part, addresses};
use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::registry::Registry;
use apiserver::store::{Memory, Object, Scope};
use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use self::taken::{Giving, Owner, Taken};
use crate::options::{ServiceRange, is_within};

/// The name of services in the store.
const SERVICES: &str = "services";

/// Gives addresses and ports.
pub struct Addresses {
    registry: Arc<Registry>,
    ranges: Vec<ServiceRange>,
    taken: Mutex<Taken>,
}

impl Addresses {
    /// Gives of these ranges, the first one first.
    pub fn new(registry: Arc<Registry>, ranges: Vec<ServiceRange>) -> Self {
        Self { registry, ranges, taken: Mutex::default() }
    }

    /// What is taken now.
    fn see(&self, now: Instant) -> MutexGuard<'_, Taken> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.registry.cache().list(SERVICES, &Scope::All).objects;
        let owner = |it: &Object| (it.namespace().to_owned(), it.name().to_owned());
        taken.see(all.iter().map(|it| (owner(it), it.revision(), || it.decode())), now);
        taken
    }

    /// Completes a service.
    fn complete(
        &self,
        service: &mut Json,
        before: Option<&Json>,
        owner: &Owner,
        dry_run: bool,
    ) -> Result<(), (String, String)> {
        let now = Instant::now();
        let families: Vec<&str> = self.ranges.iter().map(range::family).collect();
        let mut taken = self.see(now);
        let mut giving = Giving::to(owner, &taken, &self.ranges, Uuid::new_v4().as_u128());
        addresses::complete(service, before, &families, &mut giving)?;
        let given = giving.given;
        if !dry_run {
            taken.keep(owner, given, now);
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for Addresses {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if !attempt.is_of(SERVICES) || attempt.subresource.is_some() {
            return Ok(());
        }
        match attempt.operation {
            Operation::Create | Operation::Update => {}
            // What goes was there: it is not being written any more.
            Operation::Delete => {
                drop(self.see(Instant::now()));
                return Ok(());
            }
            Operation::Connect => return Ok(()),
        }
        let mut service = std::mem::take(&mut attempt.object);
        // What the client is silent about stays as it was; that is the kind's to say.
        api::strategy::of("", "Service").prepare(&mut service, attempt.old, &Part::Main);
        let completed = self.complete(&mut service, attempt.old, &owner(attempt), attempt.dry_run);
        let refused = completed.map_err(|(field, why)| {
            let pointer = format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
            let service = Value::Object(service.clone());
            let value = service.pointer(&pointer).cloned().unwrap_or_default();
            Status::invalid(attempt.resource, attempt.name, &[Cause::invalid(field, value, &why)])
        });
        attempt.object = service;
        refused
    }

    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if is_written && attempt.is_of(SERVICES) && attempt.subresource.is_none() && !attempt.dry_run {
            // The kind has found it right: from here on it is as good as written, however long that takes.
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.promise(&owner(attempt), Instant::now());
        }
        Ok(())
    }
}

/// The services with an address that is in none of these ranges, and that address: they were made while services had
/// another range.
pub fn outside(cache: &Memory, ranges: &[ServiceRange]) -> Vec<(String, IpAddr)> {
    let all = cache.list(SERVICES, &Scope::All).objects;
    let stranger = |it: &Object| {
        let held = taken::addresses(&it.decode());
        let is_inside = |ip: IpAddr| ranges.iter().any(|range| is_within(ip, range.network, range.bits));
        let ip = held.into_iter().find(|ip| !is_inside(*ip))?;
        Some((format!("{}/{}", it.namespace(), it.name()), ip))
    };
    all.iter().filter_map(stranger).collect()
}

/// The service that is written.
fn owner(attempt: &Attempt<'_>) -> Owner {
    (attempt.namespace.unwrap_or_default().to_owned(), attempt.name.to_owned())
}

#[cfg(test)]
mod tests;
