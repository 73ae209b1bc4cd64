//! Applies the objects that are due: new, changed, failed before, or applied so long ago that they may differ by now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::backoff::Backoff;
use client::{Client, Error, Json, Kind};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::inventory::{Applied, Inventory};
use super::live::{self, Metadata};
use super::plan::{ObjectKey, Plan, Wanted};
use super::{NAME, RESYNC};
use crate::controllers::workloads::requests::message;
use crate::objects::{Conditioned, ObjectMeta};

/// Delay after the first failure of an object.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Longest delay of an object that fails again and again, also because its file is wrong. An edit ends it.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// How long a CustomResourceDefinition may take until its kind is served. The others wait for it.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a new definition is read again.
const ESTABLISH_INTERVAL: Duration = Duration::from_millis(50);
/// Longest text of a server in a report, in bytes. Messages of events have 1,024.
const MAX_REASON_BYTES: usize = 700;

/// Returns a backoff without failures.
pub fn backoff() -> Backoff {
    Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF)
}

/// The last attempt to apply an object.
#[derive(Debug)]
struct Attempt {
    object: Arc<Json>,
    backoff: Backoff,
    /// When the object is applied again.
    next: Instant,
    failure: Option<String>,
}

/// The last attempts, by object.
#[derive(Debug, Default)]
pub struct Applier {
    attempts: BTreeMap<ObjectKey, Attempt>,
    /// Number of requests.
    #[cfg(test)]
    pub requests: usize,
}

impl Applier {
    /// Applies the objects of one group that are due and not held back, and records those that were applied. Returns
    /// whether one of them was a CustomResourceDefinition.
    pub async fn apply(
        &mut self,
        client: &Client,
        plan: &Plan<'_>,
        are_first: bool,
        inventory: &mut Inventory,
        now: Instant,
    ) -> bool {
        let mut has_defined = false;
        let due = |wanted: &&Wanted<'_>| wanted.key.is_first() == are_first && !wanted.is_held;
        for wanted in plan.wanted.iter().filter(due) {
            let object = &wanted.manifest.object;
            let known = self.attempts.get(&wanted.key).filter(|known| known.object == *object);
            if known.is_some_and(|known| known.next > now) {
                continue;
            }
            let mut backoff = known.map_or_else(backoff, |known| known.backoff.clone());
            #[cfg(test)]
            {
                self.requests += 1;
            }
            let recorded = inventory.objects.get(&wanted.key);
            let (next, failure) = match apply(client, wanted, recorded).await {
                Ok(applied) => {
                    inventory.objects.insert(wanted.key.clone(), applied);
                    has_defined |= wanted.key.is_definition();
                    backoff.reset();
                    (now + RESYNC, None)
                }
                Err(why) => (now + backoff.next_delay(), Some(why)),
            };
            let attempt = Attempt { object: object.clone(), backoff, next, failure };
            self.attempts.insert(wanted.key.clone(), attempt);
        }
        has_defined
    }

    /// Forgets objects without a manifest. Returns when the next object is due.
    pub fn retain(&mut self, plan: &Plan<'_>) -> Option<Instant> {
        self.attempts.retain(|key, _| plan.names(key));
        self.attempts.values().map(|attempt| attempt.next).min()
    }

    /// Applies all objects again in the next pass.
    pub fn reset(&mut self) {
        self.attempts.clear();
    }

    /// Why objects are not applied.
    pub fn failures<'a>(&'a self, plan: &'a Plan<'_>) -> impl Iterator<Item = String> + 'a {
        plan.wanted.iter().filter_map(|Wanted { key, file, manifest, .. }| {
            let why = self.attempts.get(key)?.failure.as_ref()?;
            Some(format!("{file}: {manifest}: {why}"))
        })
    }
}

/// Applies an object and returns what to record. An object that existed before is not one of the add-ons, unless the
/// record or the object says so.
async fn apply(client: &Client, wanted: &Wanted<'_>, recorded: Option<&Applied>) -> Result<Applied, String> {
    let Wanted { key, kind, file, manifest, .. } = wanted;
    let unserved = || format!("the API server does not serve {} of {}", manifest.kind, manifest.api_version);
    let kind = kind.as_ref().ok_or_else(unserved)?;
    let before = client.find(kind, &key.namespace, &key.name).await.map_err(|error| reason(key, &error))?;
    let before = before.as_ref().map(Metadata::of);
    let is_adopted = before.as_ref().is_some_and(|before| match recorded {
        Some(recorded) if *recorded.uid == *before.uid => recorded.is_adopted,
        _ => !before.is_created(),
    });
    let object = live::marked(&manifest.object, is_adopted);
    let applied = client.apply(kind, &key.namespace, &key.name, NAME, &object).await;
    let applied = applied.map_err(|error| reason(key, &error))?;
    let metadata =
        applied.get("metadata").and_then(|metadata| ObjectMeta::<Value>::deserialize(metadata).ok());
    let metadata = metadata.filter(|metadata| !metadata.uid.is_empty()).ok_or("the response has no UID")?;
    if metadata.is_terminating() {
        return Err("the object is being deleted; it is created again after that".to_owned());
    }
    if key.is_definition() {
        let established = timeout(ESTABLISH_TIMEOUT, wait_until_established(client, kind, &key.name)).await;
        established.map_err(|_| format!("not Established after {} s", ESTABLISH_TIMEOUT.as_secs()))??;
    }
    // Another object may have taken the name in between.
    let is_other = before.is_some_and(|before| before.uid != metadata.uid);
    Ok(Applied { uid: metadata.uid.into(), file: (*file).to_owned(), is_adopted: is_adopted || is_other })
}

/// Waits until the API server serves the kind of a CustomResourceDefinition.
async fn wait_until_established(client: &Client, kind: &Kind, name: &str) -> Result<(), String> {
    loop {
        let found: Option<Conditioned> =
            client.find_as(kind, "", name).await.map_err(|error| error.full_message())?;
        let conditions = found.ok_or("the definition was deleted")?.status.conditions;
        if conditions.of_type("Established").is_some_and(|condition| condition.is_true()) {
            return Ok(());
        }
        sleep(ESTABLISH_INTERVAL).await;
    }
}

/// The reason of a failed request, for logs and events. The text of the server may quote values, so it is omitted for
/// Secrets.
pub fn reason(key: &ObjectKey, error: &Error) -> String {
    let mut text = match error {
        Error::Refused { code, reason, .. } if key.is_secret() => {
            format!(
                "the API server rejects it ({code} {reason}); details may quote the Secret and are omitted"
            )
        }
        other if key.is_secret() => other.to_string(),
        other => message(other),
    };
    if text.len() > MAX_REASON_BYTES {
        text.truncate(text.floor_char_boundary(MAX_REASON_BYTES));
        text.push('…');
    }
    text
}
