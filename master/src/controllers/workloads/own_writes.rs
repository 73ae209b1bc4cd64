//! The writes of a controller that its informers have not shown yet, with requests that confirm overdue ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use client::{Client, Error, Kind};

use super::expectations::{Expectations, Expected};
use super::requests::{is_refused, seen};
use crate::controllers::informers::SharedInformers;
use crate::controllers::object::Object;

/// The writes of objects of one kind.
#[derive(Debug)]
pub struct OwnWrites {
    kind: Kind,
    expectations: Mutex<Expectations>,
}

impl OwnWrites {
    pub fn new(kind: Kind) -> Self {
        Self { kind, expectations: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Expectations> {
        self.expectations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a write of an object, before its request is sent.
    pub fn expect(&self, owner: &str, name: &str, expected: Expected) {
        self.lock().expect(owner, name, expected, Instant::now());
    }

    /// Removes a write that the API server refused. After any other error the write may have happened, so it stays
    /// expected.
    pub fn failed(&self, owner: &str, name: &str, error: &Error) {
        if is_refused(error) {
            self.lock().refused(owner, name);
        }
    }

    /// Records that an event showed the object. See [`Expectations::observe`].
    pub fn observe(&self, owner: &str, name: &str) {
        self.lock().observe(owner, name);
    }

    /// Removes the writes of an owner that no longer exists.
    pub fn forget(&self, owner: &str) {
        self.lock().forget(owner);
    }

    /// Whether the cached objects show all writes for an owner. Confirms overdue writes with the API server.
    ///
    /// The caller lists the objects after this check: an event in between makes the list newer than the check.
    ///
    /// # Errors
    /// If an overdue write cannot be confirmed. The caller retries.
    pub async fn are_seen(
        &self,
        client: &Client,
        informers: &SharedInformers,
        namespace: &str,
        owner: &str,
    ) -> Result<bool, Error> {
        let overdue = self.lock().overdue(owner, Instant::now());
        for name in overdue {
            // Some stock roles permit lists only.
            let found = client.find_by_list(&self.kind, namespace, &name).await?;
            let found = found.map(|found| Object::of(client, &self.kind, &found)).transpose()?;
            self.lock().confirm(owner, &name, found.as_ref().map(seen), Instant::now());
        }
        let pending = self.lock().pending(owner);
        let cached: HashMap<Box<str>, Arc<Object>> = pending
            .into_iter()
            .filter_map(|name| Some((name.clone(), informers.get(&self.kind, namespace, &name)?)))
            .collect();
        Ok(self.lock().settle(owner, |name| cached.get(name).map(|object| seen(object))))
    }
}
