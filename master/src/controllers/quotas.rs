//! The status of a ResourceQuota: how much there is of what it limits.
//!
//! What is made is added when it is admitted; this controller counts anew when something goes, and now and then.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::agenda::Next;
use super::client::{Client, Error, Json, Kind};
use super::object::{Object, at, text};
use super::queue::{Controller, Queue};
use super::world::{Change, World};
use crate::quota::{self, Amounts, Quota};

/// Its name in `--controllers`.
pub const NAME: &str = "resourcequota-controller";
/// Quotas that are counted at once; the stock controller's.
const WORKERS: usize = 5;
/// When something goes, others usually go with it.
const GATHER: Duration = Duration::from_millis(200);
/// What was reserved and then not written is given back after this at the latest; the stock controller's.
const ANEW: Duration = Duration::from_secs(5 * 60);

/// The controller.
#[derive(Debug)]
pub struct Usage {
    client: Client,
    world: World,
}

impl Usage {
    /// Counts what is in that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world }
    }

    /// How much there is of what a quota limits.
    async fn count(&self, quota: &Quota, namespace: &str) -> Result<Amounts, Error> {
        let now = Timestamp::now();
        let mut used = quota.nothing();
        let kinds = self.world.kinds();
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

/// True when an object stops using something: it is gone, or a pod that has come to its end.
fn is_less(change: &Change) -> bool {
    let has_ended = |pod: &Object| {
        matches!(pod.kept("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
    };
    match (&change.before, &change.now) {
        (_, None) => true,
        (Some(before), Some(now)) => change.kind.is(&Kind::POD) && has_ended(now) && !has_ended(before),
        (None, Some(_)) => false,
    }
}

/// True when a quota has not been counted as it is.
fn is_new(quota: &Object) -> bool {
    let names = |pointer: &str| -> BTreeSet<String> {
        let amounts = quota.kept(pointer).and_then(Value::as_object);
        amounts.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    quota.kept("/spec/hard") != quota.kept("/status/hard") || names("/spec/hard") != names("/status/used")
}

/// The status that a quota should have; `None` when it has it.
fn status(quota: &Json, used: &Amounts) -> Option<Value> {
    let wanted =
        json!({"hard": at(quota, "/spec/hard").cloned().unwrap_or_default(), "used": quota::texts(used)});
    (quota.get("status") != Some(&wanted)).then_some(wanted)
}

#[async_trait]
impl Controller for Usage {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::RESOURCE_QUOTA) && change.now.as_deref().is_some_and(is_new) {
            queue.add(&object.key());
        }
        // A list of names in the namespace, none where there is no quota: most deletions cost one look into a map.
        if !object.namespace.is_empty() && is_less(change) {
            for quota in self.world.list(&Kind::RESOURCE_QUOTA, &object.namespace) {
                queue.add_in(&quota.key(), GATHER);
            }
        }
    }

    async fn look(&self, key: &str, _: &Queue) -> Result<Next, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let mut found = None;
        // Its role, the stock one, lets it list.
        let take = |quota: Json| {
            if text(at(&quota, "/metadata/name")) == name {
                found = Some(quota);
            }
        };
        self.client.list(&Kind::RESOURCE_QUOTA, namespace, take).await?;
        let Some(found) = found else { return Ok(Next::Change) };
        let used = self.count(&Quota::of(&found), namespace).await?;
        if let Some(status) = status(&found, &used) {
            let mut object = found;
            object.insert("status".to_owned(), status);
            // Whoever reserved something meanwhile came before: then it is counted anew.
            self.client.update(&Kind::RESOURCE_QUOTA, "status", object).await?;
        }
        Ok(Next::In(ANEW))
    }
}

#[cfg(test)]
mod tests {
    //! When it is counted, and what is written.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn it_is_counted_until_the_status_says_so() {
        let quota = |value: Value| value.as_object().unwrap().clone();
        let fresh = quota(json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}));
        assert!(is_new(&Object::of("resourcequotas", &fresh)));
        let used = Quota::of(&fresh).nothing();
        let told = status(&fresh, &used).unwrap();
        assert_eq!(told, json!({"hard": {"pods": "2"}, "used": {"pods": "0"}}));
        let mut known = fresh;
        known.insert("status".to_owned(), told);
        assert!(!is_new(&Object::of("resourcequotas", &known)) && status(&known, &used).is_none());
        known.insert("spec".to_owned(), json!({"hard": {"pods": "3"}}));
        assert!(is_new(&Object::of("resourcequotas", &known)));
    }
}
