//! One of several works at a time: whoever holds the lease, and the next one when that does not renew it any more.
//!
//! A lease is over when it was not renewed for as long as it says by the clock of whoever looks: clocks of other machines count
//! for nothing. Were two to hold it for a moment, nothing would be done twice: the server takes one write on each version.

use std::time::Duration;

use api::time::micros;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

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
/// How long a try may take: as long as leaves the time to renew it once.
const TRY: Duration = Duration::from_secs(5);
/// After a write that somebody came before: a server of several reads what another one wrote a moment later.
const AGAIN: Duration = Duration::from_millis(50);
/// A server that says nothing for so long does not answer; before that it is slow.
const SILENT: Duration = Duration::from_secs(30);
/// How long who stops tries to tell the others.
pub const FAREWELL: Duration = Duration::from_secs(2);

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
            let since = tokio::select! {
                since = self.acquire() => since,
                () = told(&mut stopped) => return,
            };
            tracing::info!(lease = self.name, holder = self.own, "held: what it is for works here");
            tokio::select! {
                () = work() => return self.leave().await,
                () = self.hold(since) => {
                    tracing::warn!(
                        lease = self.name, holder = self.own,
                        "lost: another one works, or the server does not answer; waiting for it",
                    );
                }
                () = told(&mut stopped) => return self.leave().await,
            }
        }
    }

    /// Waits until it is held; since when, which is no later than what the server wrote down.
    async fn acquire(&mut self) -> Instant {
        let mut heard = Instant::now();
        loop {
            let begun = Instant::now();
            let answer = timeout(TRY, self.attempt()).await;
            if answer.is_ok() {
                heard = Instant::now();
            }
            let error = match answer {
                Ok(Ok(true)) => return begun,
                Ok(Err(error)) => Some(error),
                Err(late) if heard.elapsed() >= SILENT => Some(Error::Lost(late.into())),
                Ok(Ok(false)) | Err(_) => None,
            };
            if let Some(error) = error {
                tracing::debug!(error = error.whole(), "the lease cannot be had; trying again");
                self.complaint.tell(self.name, &error);
            }
            sleep_until(begun + LOOK).await;
        }
    }

    /// Renews what was had then, until it is lost: another one has it, or it could not be renewed for too long.
    async fn hold(&mut self, mut renewed: Instant) {
        let mut next = renewed + RENEW;
        loop {
            sleep_until(next).await;
            let begun = Instant::now();
            // An answer that does not come is none.
            let until = (begun + TRY).min(renewed + GIVE_UP);
            next = begun + LOOK;
            match timeout_at(until, self.attempt()).await {
                Ok(Ok(true)) => (renewed, next) = (begun, begun + RENEW),
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::debug!(error = error.whole(), "the lease is not renewed"),
                Err(_) => tracing::debug!("the lease is not renewed in time"),
            }
            if next >= renewed + GIVE_UP {
                return sleep_until(renewed + GIVE_UP).await;
            }
        }
    }

    /// Gives it back, so that the next one need not wait.
    async fn leave(&mut self) {
        match timeout(FAREWELL, self.give_back()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = error.whole(), "the lease stays until it is over"),
            Err(_) => tracing::debug!("the lease stays until it is over: the server does not answer"),
        }
    }

    async fn give_back(&self) -> Result<(), Error> {
        loop {
            let found = self.client.find(&Kind::LEASE, NAMESPACE, self.name).await?;
            let Some(mut lease) = found.filter(|lease| holder(lease) == self.own) else { return Ok(()) };
            set(&mut lease, "holderIdentity", "".into());
            match self.client.update(&Kind::LEASE, "", lease).await {
                Err(error) if error.is_conflict() => sleep(AGAIN).await,
                written => return written.map(drop),
            }
        }
    }

    /// Takes or renews it; false where somebody else has it. Where somebody came before it is read again: what they wrote may be
    /// anything, or what this one wrote itself and heard nothing of.
    async fn attempt(&mut self) -> Result<bool, Error> {
        loop {
            let found = self.client.find(&Kind::LEASE, NAMESPACE, self.name).await?;
            let written = match self.plan(found, Timestamp::now(), Instant::now()) {
                Step::Wait => return Ok(false),
                Step::Create(lease) => self.client.create(&Kind::LEASE, NAMESPACE, lease).await,
                Step::Update(lease) => self.client.update(&Kind::LEASE, "", lease).await,
            };
            match written {
                Ok(_) => return Ok(true),
                Err(error) if error.is_conflict() || error.exists() => sleep(AGAIN).await,
                Err(error) => return Err(error),
            }
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
mod tests;
