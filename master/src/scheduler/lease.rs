//! One scheduler at a time: whoever holds the lease, and the next one when that does not renew it any more.
//!
//! A lease is over when it was not renewed for as long as it says by the clock of whoever looks: clocks of other machines count
//! for nothing. Were two to hold it for a moment, a pod would still get one node: the server takes one.

use std::time::Duration;

use api::time::micros;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::read::{at, text_at};
use crate::controllers::{Client, Error, Json, Kind};

/// Where it lies, and its name: those of the stock scheduler.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-scheduler";
/// How long it holds without being renewed; the stock scheduler's.
const LASTS: Duration = Duration::from_secs(15);
/// How often it is renewed: twice before it is over, for one that fails.
const RENEW: Duration = Duration::from_secs(5);
/// Who cannot renew it for so long stops; the stock scheduler's.
const GIVE_UP: Duration = Duration::from_secs(10);
/// How often those who wait look, and those who failed try; the stock scheduler's.
const LOOK: Duration = Duration::from_secs(2);

/// The lease as one of those sees it who want it.
#[derive(Debug)]
pub struct Lease {
    client: Client,
    own: String,
    /// The version that was seen last, and when it was first.
    seen: Option<(String, Instant)>,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
enum Step {
    Create(Value),
    Update(Json),
    Wait,
}

impl Lease {
    /// For who calls themselves so: somebody else for everyone who may run at the same time.
    pub fn new(client: Client, own: &str) -> Self {
        Self { client, own: own.to_owned(), seen: None }
    }

    /// Waits until it is held.
    pub async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::debug!(error = error.whole(), "the lease cannot be had; trying again"),
            }
            sleep(LOOK).await;
        }
    }

    /// Renews it until it is lost.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        let mut pause = RENEW;
        loop {
            sleep(pause).await;
            pause = LOOK;
            // An answer that does not come is none.
            match tokio::time::timeout(LOOK, self.attempt()).await {
                Ok(Ok(true)) => (renewed, pause) = (Instant::now(), RENEW),
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::debug!(error = error.whole(), "the lease is not renewed"),
                Err(_) => tracing::debug!("the lease is not renewed in time"),
            }
            if renewed.elapsed() >= GIVE_UP {
                return;
            }
        }
    }

    /// Gives it back, so that the next one need not wait.
    pub async fn leave(&mut self) {
        let Ok(Some(mut lease)) = self.client.find(&Kind::LEASE, NAMESPACE, NAME).await else { return };
        if holder(&lease) == self.own {
            set(&mut lease, "holderIdentity", "".into());
            if let Err(error) = self.client.update(&Kind::LEASE, "", lease).await {
                tracing::debug!(error = error.whole(), "the lease stays until it is over");
            }
        }
    }

    /// Takes or renews it; false where somebody else has it.
    async fn attempt(&mut self) -> Result<bool, Error> {
        let found = self.client.find(&Kind::LEASE, NAMESPACE, NAME).await?;
        let written = match self.plan(found, Timestamp::now(), Instant::now()) {
            Step::Wait => return Ok(false),
            Step::Create(lease) => self.client.create(&Kind::LEASE, NAMESPACE, lease).await,
            Step::Update(lease) => self.client.update(&Kind::LEASE, "", lease).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() || error.exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn plan(&mut self, found: Option<Json>, time: Timestamp, now: Instant) -> Step {
        let time = micros(time);
        let Some(mut lease) = found else {
            return Step::Create(json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": NAME, "namespace": NAMESPACE},
                "spec": {
                    "holderIdentity": self.own, "leaseDurationSeconds": LASTS.as_secs(), "leaseTransitions": 0,
                    "acquireTime": time, "renewTime": time,
                },
            }));
        };
        let version = text_at(&lease, "metadata.resourceVersion");
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => now,
        };
        self.seen = Some((version, since));
        let holder = holder(&lease);
        if holder != self.own {
            let number = |path: &str| at(&lease, path).and_then(Value::as_u64);
            let lasts = number("spec.leaseDurationSeconds").map_or(LASTS, Duration::from_secs);
            if !holder.is_empty() && now.duration_since(since) < lasts {
                return Step::Wait;
            }
            let transitions = number("spec.leaseTransitions").unwrap_or_default() + 1;
            set(&mut lease, "leaseTransitions", transitions.into());
            set(&mut lease, "holderIdentity", self.own.as_str().into());
            set(&mut lease, "leaseDurationSeconds", LASTS.as_secs().into());
            set(&mut lease, "acquireTime", time.as_str().into());
        }
        set(&mut lease, "renewTime", time.into());
        Step::Update(lease)
    }
}

fn holder(lease: &Json) -> String {
    text_at(lease, "spec.holderIdentity")
}

fn set(lease: &mut Json, field: &str, value: Value) {
    let spec = lease.entry("spec").or_insert_with(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        spec.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    //! A lease in time.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn lease(own: &str) -> Lease {
        Lease::new(Client::inside(axum::Router::new()), own)
    }

    #[tokio::test]
    async fn a_lease_goes_on_when_its_holder_does_not_renew_it() {
        let (mut one, mut two, now) = (lease("one"), lease("two"), Instant::now());
        let time = "2026-01-01T00:00:00Z".parse().unwrap();
        let Step::Create(Value::Object(mut made)) = one.plan(None, time, now) else { panic!("not made") };
        assert_eq!(
            (holder(&made), text_at(&made, "spec.renewTime")),
            ("one".into(), "2026-01-01T00:00:00.000000Z".into())
        );
        let written = |lease: &mut Json, version: &str| {
            lease.get_mut("metadata").unwrap()["resourceVersion"] = version.into();
            lease.clone()
        };
        let first = written(&mut made, "1");
        assert_eq!(two.plan(Some(first.clone()), time, now), Step::Wait);
        assert!(matches!(one.plan(Some(first.clone()), time, now), Step::Update(_)));
        assert_eq!(two.plan(Some(first), time, now + LASTS - LOOK), Step::Wait);
        let second = written(&mut made, "2");
        assert_eq!(two.plan(Some(second.clone()), time, now + LASTS), Step::Wait, "it was renewed");
        let Step::Update(mut taken) = two.plan(Some(second), time, now + LASTS * 2) else {
            panic!("not taken")
        };
        assert_eq!((holder(&taken), at(&taken, "spec.leaseTransitions")), ("two".into(), Some(&json!(1))));
        assert_eq!(one.plan(Some(written(&mut taken, "3")), time, now), Step::Wait);
        set(&mut taken, "holderIdentity", "".into());
        assert!(matches!(one.plan(Some(taken), time, now), Step::Update(_)), "it was given back");
    }
}
