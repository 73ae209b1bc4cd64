//! One of several works at a time: whoever holds the lease, and the next one when that does not renew it any more.
//!
//! A lease is over when it was not renewed for as long as it says by the clock of whoever looks: clocks of other machines count
//! for nothing. Were two to hold it for a moment, nothing would be done twice: the server takes one write on each version.

use std::time::Duration;

use api::time::micros;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::client::{Client, Error, Json, Kind};
use super::complaint::Complaint;

/// Where leases lie: with those of the stock ones.
const NAMESPACE: &str = "kube-system";
/// How long one holds without being renewed; the stock one's.
const LASTS: Duration = Duration::from_secs(15);
/// How often it is renewed: twice before it is over, for one that fails.
const RENEW: Duration = Duration::from_secs(5);
/// Who cannot renew it for so long stops; the stock one's.
const GIVE_UP: Duration = Duration::from_secs(10);
/// How often those who wait look, and those who failed try; the stock one's.
const LOOK: Duration = Duration::from_secs(2);

/// A lease as one of those sees it who want it.
#[derive(Debug)]
pub struct Lease {
    client: Client,
    name: &'static str,
    own: String,
    complaint: Complaint,
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
    /// That of a name, for who calls themselves so: somebody else for everyone who may run at the same time. Who is called as before
    /// gets back what it held.
    pub fn new(client: Client, name: &'static str, own: &str) -> Self {
        Self { client, name, own: own.to_owned(), complaint: Complaint::default(), seen: None }
    }

    /// Works whenever it is held, until told to stop.
    pub async fn work<W: Future<Output = ()>>(
        mut self,
        work: impl Fn() -> W,
        mut stopped: watch::Receiver<bool>,
    ) {
        loop {
            tokio::select! {
                () = self.acquire() => {}
                () = told(&mut stopped) => return,
            }
            tracing::info!(lease = self.name, holder = self.own, "held: what it is for works here");
            tokio::select! {
                () = work() => return self.leave().await,
                () = self.hold() => {
                    tracing::warn!(
                        lease = self.name, holder = self.own,
                        "lost: another one works, or the server does not answer; waiting for it",
                    );
                }
                () = told(&mut stopped) => return self.leave().await,
            }
        }
    }

    /// Waits until it is held.
    async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(error = error.whole(), "the lease cannot be had; trying again");
                    self.complaint.tell(self.name, &error);
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Renews it until it is lost.
    async fn hold(&mut self) {
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
    async fn leave(&mut self) {
        let Ok(Some(mut lease)) = self.client.find(&Kind::LEASE, NAMESPACE, self.name).await else { return };
        if holder(&lease) == self.own {
            set(&mut lease, "holderIdentity", "".into());
            if let Err(error) = self.client.update(&Kind::LEASE, "", lease).await {
                tracing::debug!(error = error.whole(), "the lease stays until it is over");
            }
        }
    }

    /// Takes or renews it; false where somebody else has it.
    async fn attempt(&mut self) -> Result<bool, Error> {
        let found = self.client.find(&Kind::LEASE, NAMESPACE, self.name).await?;
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
                "metadata": {"name": self.name, "namespace": NAMESPACE},
                "spec": {
                    "holderIdentity": self.own, "leaseDurationSeconds": LASTS.as_secs(), "leaseTransitions": 0,
                    "acquireTime": time, "renewTime": time,
                },
            }));
        };
        let version = lease.get("metadata").and_then(|metadata| metadata["resourceVersion"].as_str());
        let version = version.unwrap_or_default().to_owned();
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => now,
        };
        self.seen = Some((version, since));
        let holder = holder(&lease);
        if holder != self.own {
            let number = |field: &str| spec(&lease, field).and_then(Value::as_u64);
            let lasts = number("leaseDurationSeconds").map_or(LASTS, Duration::from_secs);
            if !holder.is_empty() && now.duration_since(since) < lasts {
                return Step::Wait;
            }
            let transitions = number("leaseTransitions").unwrap_or_default() + 1;
            set(&mut lease, "leaseTransitions", transitions.into());
            set(&mut lease, "holderIdentity", self.own.as_str().into());
            set(&mut lease, "leaseDurationSeconds", LASTS.as_secs().into());
            set(&mut lease, "acquireTime", time.as_str().into());
        }
        set(&mut lease, "renewTime", time.into());
        Step::Update(lease)
    }
}

/// Waits until it is to stop.
async fn told(stopped: &mut watch::Receiver<bool>) {
    // That nobody can tell any more is the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn spec<'a>(lease: &'a Json, field: &str) -> Option<&'a Value> {
    lease.get("spec")?.get(field)
}

fn holder(lease: &Json) -> String {
    spec(lease, "holderIdentity").and_then(Value::as_str).unwrap_or_default().to_owned()
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
        Lease::new(Client::inside(axum::Router::new()), "lease", own)
    }

    #[tokio::test]
    async fn a_lease_goes_on_when_its_holder_does_not_renew_it() {
        let (mut one, mut two, now) = (lease("one"), lease("two"), Instant::now());
        let time = "2026-01-01T00:00:00Z".parse().unwrap();
        let Step::Create(Value::Object(mut made)) = one.plan(None, time, now) else { panic!("not made") };
        assert_eq!(
            (holder(&made), spec(&made, "renewTime")),
            ("one".into(), Some(&json!("2026-01-01T00:00:00.000000Z")))
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
        assert_eq!((holder(&taken), spec(&taken, "leaseTransitions")), ("two".into(), Some(&json!(1))));
        assert_eq!(one.plan(Some(written(&mut taken, "3")), time, now), Step::Wait);
        set(&mut taken, "holderIdentity", "".into());
        assert!(matches!(one.plan(Some(taken), time, now), Step::Update(_)), "it was given back");
    }
}
