//! The resource quota controller: recounts the usage in the status of ResourceQuotas.
//!
//! The ResourceQuota admission plugin adds usage of new objects. This controller recounts after deletions and
//! periodically.

use std::time::Duration;

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::Fields;
use super::informers::{Change, SharedInformers};
use super::object::Object;
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use crate::quota::{self, Amounts, Quota};

/// The controller's name in `--controllers`.
pub const NAME: &str = "resourcequota-controller";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;
/// Batch period. Many deletions happen at once.
const BATCH_PERIOD: Duration = Duration::from_millis(200);
/// Interval of full recounts, which release unused reservations. This is the stock default.
const RESYNC_INTERVAL: Duration = Duration::from_secs(5 * 60);

#[derive(Debug)]
pub struct ResourceQuotaController {
    client: Client,
    informers: SharedInformers,
}

impl ResourceQuotaController {
    /// Creates the controller. It counts objects of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }

    /// Counts the usage of the resources that a quota limits.
    async fn count(&self, quota: &Quota, namespace: &str) -> Result<Amounts, Error> {
        let now = Timestamp::now();
        let mut used = quota.zero_usage();
        let kinds = self.informers.kinds();
        for kind in kinds.iter().filter(|kind| kind.namespaced) {
            let resource = kind.qualified();
            if !quota.limits(&resource) {
                continue;
            }
            let take = |object: Json| {
                if quota.counts(&resource, &object) {
                    quota::add(&mut used, &quota.share(&quota::usage(&resource, &object, now)));
                }
            };
            self.client.list(kind, namespace, take).await?;
        }
        Ok(used)
    }
}

/// Whether a change releases usage: an object was deleted, or a pod terminated.
fn frees_resources(change: &Change) -> bool {
    match (&change.before, &change.now) {
        (_, None) => true,
        (Some(before), Some(now)) => {
            change.kind.is(&Kind::POD) && now.pod().is_terminal() && !before.pod().is_terminal()
        }
        (None, Some(_)) => false,
    }
}

/// Whether the status does not match the spec yet.
fn needs_recount(quota: &Object) -> bool {
    let Fields::ResourceQuota(quota) = &quota.fields else { return false };
    let (hard, used) = (&quota.spec.hard, &quota.status.used);
    *hard != quota.status.hard || !hard.iter().map(|(name, _)| name).eq(used.iter().map(|(name, _)| name))
}

/// Returns the status that the quota should have, or `None` if it already has this status.
fn status(quota: &Json, used: &Amounts) -> Option<Value> {
    let hard = quota.get("spec").and_then(|spec| spec.get("hard")).cloned().unwrap_or_default();
    let wanted = json!({"hard": hard, "used": quota::texts(used)});
    (quota.get("status") != Some(&wanted)).then_some(wanted)
}

#[async_trait]
impl Controller for ResourceQuotaController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::RESOURCE_QUOTA) && change.now.as_deref().is_some_and(needs_recount) {
            queue.add(&object.key());
        }
        // This lookup is cheap for namespaces without a quota.
        if !object.namespace.is_empty() && frees_resources(change) {
            for quota in self.informers.list(&Kind::RESOURCE_QUOTA, &object.namespace) {
                queue.add_in(&quota.key(), BATCH_PERIOD);
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        // The stock role may list quotas but not get them.
        let found: Option<Json> = self.client.find_by_list(&Kind::RESOURCE_QUOTA, namespace, name).await?;
        let Some(found) = found else { return Ok(Action::AwaitChange) };
        let used = self.count(&Quota::of(&found), namespace).await?;
        if let Some(status) = status(&found, &used) {
            let mut object = found;
            object.insert("status".to_owned(), status);
            // A reservation since the read causes a conflict, and the quota is counted again.
            self.client.update(&Kind::RESOURCE_QUOTA, "status", object).await?;
        }
        Ok(Action::RequeueAfter(RESYNC_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    //! Tests of when usage is counted, and which status is written.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn usage_is_counted_until_the_status_matches_the_spec() {
        let quota = |value: Value| value.as_object().unwrap().clone();
        let fresh = quota(json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}));
        let cached = |quota: &Json| Object::decode("resourcequotas", quota).unwrap();
        assert!(needs_recount(&cached(&fresh)));
        let used = Quota::of(&fresh).zero_usage();
        let told = status(&fresh, &used).unwrap();
        assert_eq!(told, json!({"hard": {"pods": "2"}, "used": {"pods": "0"}}));
        let mut known = fresh;
        known.insert("status".to_owned(), told);
        assert!(!needs_recount(&cached(&known)) && status(&known, &used).is_none());
        known.insert("spec".to_owned(), json!({"hard": {"pods": "3"}}));
        assert!(needs_recount(&cached(&known)));
    }
}
