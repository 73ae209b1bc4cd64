//! Leader election: one of several processes holds a Lease and works. Another process takes over when the holder
//! stops renewing the Lease.
//!
//! A lease expires when its holder has not renewed it for its duration, measured by the observer's clock. Clocks of
//! other machines are not compared. If two processes held the lease for a moment, the API server would still accept
//! one write per object version.

use std::time::Duration;

use api::time::micros;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::object::{Source as _, unreadable};
use super::problems::ProblemReporter;
use crate::objects::Lease;

/// The namespace of the stock leader-election leases.
const NAMESPACE: &str = "kube-system";
/// Lease duration, the stock default.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// Renewal interval. After a failed renewal there is time for another one.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How long the holder keeps working without a renewal, the stock default.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often candidates check the lease, and failed renewals are retried. This is the stock default.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How long one attempt may take. There is then time for one more renewal.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a write conflict. With several API servers, a read may briefly return older data than a write.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);
/// How long the API server may not respond before it is reported as unreachable.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(30);
/// Timeout for releasing leases at shutdown.
pub const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// A candidate for one lease.
#[derive(Debug)]
pub struct LeaderElector {
    client: Client,
    name: &'static str,
    identity: String,
    problems: ProblemReporter,
    /// The resource version that was observed last, and when this process first observed it.
    seen: Option<(Box<str>, Instant)>,
}

/// The next write to the lease.
#[derive(Debug, PartialEq)]
enum Step {
    Create(Value),
    Update(Json),
    Wait,
}

impl LeaderElector {
    /// Creates a candidate for the lease with the given name. The identity must be unique among running processes.
    /// A process that restarts with the same identity keeps its lease.
    pub fn new(client: Client, name: &'static str, identity: &str) -> Self {
        Self { client, name, identity: identity.to_owned(), problems: ProblemReporter::default(), seen: None }
    }

    /// Runs `work` whenever this process holds the lease, until `stopped` becomes true.
    pub async fn run<W: Future<Output = ()>>(
        mut self,
        work: impl Fn() -> W,
        mut stopped: watch::Receiver<bool>,
    ) {
        loop {
            let since = tokio::select! {
                since = self.acquire() => since,
                () = wait_for_stop(&mut stopped) => return,
            };
            tracing::info!(lease = self.name, holder = self.identity, "acquired the lease: starting to work");
            tokio::select! {
                () = work() => return self.release().await,
                () = self.renew_until_lost(since) => {
                    tracing::warn!(
                        lease = self.name, holder = self.identity,
                        "lost the lease to another holder, or the API server does not respond; waiting to acquire it again",
                    );
                }
                () = wait_for_stop(&mut stopped) => return self.release().await,
            }
        }
    }

    /// Waits until this process holds the lease. Returns a time no later than the renewal that the API server
    /// stored.
    async fn acquire(&mut self) -> Instant {
        let mut last_response = Instant::now();
        loop {
            let begun = Instant::now();
            let answer = timeout(ATTEMPT_TIMEOUT, self.try_acquire_or_renew()).await;
            if answer.is_ok() {
                last_response = Instant::now();
            }
            let error = match answer {
                Ok(Ok(true)) => return begun,
                Ok(Err(error)) => Some(error),
                Err(late) if last_response.elapsed() >= UNREACHABLE_AFTER => {
                    Some(Error::lost(&self.client.server().into(), late.into()))
                }
                Ok(Ok(false)) | Err(_) => None,
            };
            if let Some(error) = error {
                tracing::debug!(error = error.full_message(), "cannot acquire the lease; retrying");
                self.problems.report(self.name, &error);
            }
            sleep_until(begun + RETRY_PERIOD).await;
        }
    }

    /// Renews the lease until it is lost: another process holds it, or renewals failed until the deadline.
    async fn renew_until_lost(&mut self, mut renewed: Instant) {
        let mut next = renewed + RENEW_INTERVAL;
        loop {
            sleep_until(next).await;
            let begun = Instant::now();
            // A response that does not arrive counts as a failure.
            let until = (begun + ATTEMPT_TIMEOUT).min(renewed + RENEW_DEADLINE);
            next = begun + RETRY_PERIOD;
            match timeout_at(until, self.try_acquire_or_renew()).await {
                Ok(Ok(true)) => (renewed, next) = (begun, begun + RENEW_INTERVAL),
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    tracing::debug!(error = error.full_message(), "cannot renew the lease; retrying")
                }
                Err(_) => tracing::debug!("renewing the lease timed out; retrying"),
            }
            if next >= renewed + RENEW_DEADLINE {
                return sleep_until(renewed + RENEW_DEADLINE).await;
            }
        }
    }

    /// Releases the lease, so that the next candidate does not wait until the lease expires.
    async fn release(&mut self) {
        match timeout(RELEASE_TIMEOUT, self.clear_holder()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(
                    error = error.full_message(),
                    "cannot release the lease; it expires by itself"
                )
            }
            Err(_) => tracing::debug!(
                "cannot release the lease: the API server does not respond; it expires by itself"
            ),
        }
    }

    async fn clear_holder(&self) -> Result<(), Error> {
        loop {
            let found = self.client.find(&Kind::LEASE, NAMESPACE, self.name).await?;
            let Some(mut lease) = found else { return Ok(()) };
            let read: Lease = lease.read().map_err(|source| unreadable(&self.client, source))?;
            if *read.spec.holder_identity != *self.identity {
                return Ok(());
            }
            set(&mut lease, "holderIdentity", "".into());
            match self.client.update(&Kind::LEASE, "", lease).await {
                Err(error) if error.is_conflict() => sleep(CONFLICT_PAUSE).await,
                written => return written.map(drop),
            }
        }
    }

    /// Acquires or renews the lease. Returns false if another process holds it.
    ///
    /// After a conflict the lease is read again, because the other write may have come from this process, and only
    /// its response was lost.
    async fn try_acquire_or_renew(&mut self) -> Result<bool, Error> {
        loop {
            let found = self.client.find(&Kind::LEASE, NAMESPACE, self.name).await?;
            let step = self.plan(found, Timestamp::now(), Instant::now());
            let written = match step.map_err(|source| unreadable(&self.client, source))? {
                Step::Wait => return Ok(false),
                Step::Create(lease) => self.client.create(&Kind::LEASE, NAMESPACE, lease).await,
                Step::Update(lease) => self.client.update(&Kind::LEASE, "", lease).await,
            };
            match written {
                Ok(_) => return Ok(true),
                Err(error) if error.is_conflict() || error.exists() => sleep(CONFLICT_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    fn plan(
        &mut self,
        found: Option<Json>,
        time: Timestamp,
        now: Instant,
    ) -> Result<Step, serde_json::Error> {
        let time = micros(time);
        let Some(mut lease) = found else {
            return Ok(Step::Create(json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": NAMESPACE},
                "spec": {
                    "holderIdentity": self.identity, "leaseDurationSeconds": LEASE_DURATION.as_secs(), "leaseTransitions": 0,
                    "acquireTime": time, "renewTime": time,
                },
            })));
        };
        let Lease { metadata, spec } = lease.read()?;
        let version = metadata.resource_version;
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => now,
        };
        self.seen = Some((version, since));
        if *spec.holder_identity != *self.identity {
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let lease_duration = seconds.map_or(LEASE_DURATION, Duration::from_secs);
            if !spec.holder_identity.is_empty() && now.duration_since(since) < lease_duration {
                return Ok(Step::Wait);
            }
            set(&mut lease, "leaseTransitions", (spec.lease_transitions + 1).into());
            set(&mut lease, "holderIdentity", self.identity.as_str().into());
            set(&mut lease, "leaseDurationSeconds", LEASE_DURATION.as_secs().into());
            set(&mut lease, "acquireTime", time.as_str().into());
        }
        set(&mut lease, "renewTime", time.into());
        Ok(Step::Update(lease))
    }
}

/// Waits until shutdown is requested.
async fn wait_for_stop(stopped: &mut watch::Receiver<bool>) {
    // A closed channel counts as a shutdown request.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn set(lease: &mut Json, field: &str, value: Value) {
    let spec = lease.entry("spec").or_insert_with(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        spec.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
