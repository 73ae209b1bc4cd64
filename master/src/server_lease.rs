//! The API server identity lease in `kube-system` (`APIServerIdentity` in the stock server). The master also
//! deletes expired leases of other servers.

use std::time::Duration;

use api::time::micros;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::controllers::{ActAs as _, Client, DeleteOptions, Error, Json, Kind};
use crate::objects::Lease;

const NAMESPACE: &str = "kube-system";
/// The label of such a lease, with its value.
const LABEL: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
const HOST_NAME_LABEL: &str = "kubernetes.io/hostname";
/// Lease duration in seconds; the stock value.
const LASTS_SECONDS: i64 = 3600;
/// Interval between renewals. It allows six failed renewals, and rarely writes to an idle store.
const RENEW: Duration = Duration::from_secs(600);
/// Pause after an error.
const RETRY: Duration = Duration::from_secs(5);

/// Renews the lease of this server until shutdown. Afterwards the lease expires.
pub async fn keep(client: Client, own: String, mut stopped: watch::Receiver<bool>) {
    let client = client.as_master();
    let name = name(&own);
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    loop {
        let renewed = renew(&client, &name, &own, &host_name).await;
        if let Err(error) = &renewed {
            tracing::debug!(%error, name, "the lease of this API server is not renewed; retrying");
        }
        let pause = if renewed.is_ok() { RENEW } else { RETRY };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// The lease name. It stays the same across restarts.
fn name(own: &str) -> String {
    let digest = Sha256::digest(own);
    format!("apiserver-{}", hex::encode(&digest[..16]))
}

async fn renew(client: &Client, name: &str, own: &str, host_name: &str) -> Result<(), Error> {
    let now = Timestamp::now();
    let written = match client.find(&Kind::LEASE, NAMESPACE, name).await? {
        None => client.create(&Kind::LEASE, NAMESPACE, lease(name, own, host_name, now)).await,
        Some(found) => client.update(&Kind::LEASE, "", renewed(found, own, now)).await,
    };
    written?;
    for lease in client.list_by_labels::<Lease>(&Kind::LEASE, NAMESPACE, &[LABEL]).await? {
        if !is_expired(&lease, now) {
            continue;
        }
        let resource_version = Some(&*lease.metadata.resource_version);
        let unchanged = DeleteOptions { resource_version, ..DeleteOptions::default() };
        match client.delete(&Kind::LEASE, NAMESPACE, &lease.metadata.name, &unchanged).await {
            // It was renewed or deleted meanwhile.
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            deleted => deleted?,
        }
    }
    Ok(())
}

fn lease(name: &str, own: &str, host_name: &str, now: Timestamp) -> Value {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {LABEL.0: LABEL.1}},
        "spec": {"holderIdentity": own, "leaseDurationSeconds": LASTS_SECONDS, "renewTime": micros(now)},
    });
    // A host name that is not a valid label value is left out.
    if host_name.len() <= 63
        && host_name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    {
        lease["metadata"]["labels"][HOST_NAME_LABEL] = host_name.into();
    }
    lease
}

fn renewed(mut found: Json, own: &str, now: Timestamp) -> Json {
    let spec = found.entry("spec").or_insert_with(|| json!({}));
    spec["holderIdentity"] = own.into();
    spec["leaseDurationSeconds"] = LASTS_SECONDS.into();
    spec["renewTime"] = micros(now).into();
    found
}

/// Whether this is the lease of an API server and has expired. A lease that was never renewed does not expire.
fn is_expired(lease: &Lease, now: Timestamp) -> bool {
    let (Some(renewed), Some(lasts)) = (lease.spec.renew_time, lease.spec.lease_duration_seconds) else {
        return false;
    };
    lease.metadata.label(LABEL.0) == LABEL.1 && now.duration_since(renewed) > SignedDuration::from_secs(lasts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_lease_that_is_not_renewed_for_an_hour_is_deleted() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let made = lease(&name("master-a"), "master-a", "host", at("2026-03-04T10:00:00Z"));
        let made = made.as_object().unwrap();
        let is_expired = |lease: &Json, now: &str| is_expired(&crate::objects::read(lease), at(now));
        assert_eq!(made["spec"]["renewTime"], "2026-03-04T10:00:00.000000Z");
        assert!(!is_expired(made, "2026-03-04T11:00:00Z"));
        assert!(is_expired(made, "2026-03-04T11:00:01Z"));
        let renewed = renewed(made.clone(), "master-a", at("2026-03-04T10:30:00Z"));
        assert!(!is_expired(&renewed, "2026-03-04T11:00:01Z"));
        let mut other = made.clone();
        other["metadata"]["labels"] = json!({});
        assert!(!is_expired(&other, "2027-01-01T00:00:00Z"), "it is not of an API server");
        assert_ne!(name("master-a"), name("master-b"));
    }

    #[test]
    fn lease_omits_a_host_name_that_is_not_a_valid_label() {
        let labels = |host_name: &str| {
            lease("apiserver-x", "x", host_name, Timestamp::UNIX_EPOCH)["metadata"]["labels"].clone()
        };
        assert_eq!(labels("node-1.example")[HOST_NAME_LABEL], "node-1.example");
        assert_eq!(labels("node_1 ?"), json!({LABEL.0: LABEL.1}));
    }
}
