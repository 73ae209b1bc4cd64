//! The kubernetes service controller: maintains the Service `kubernetes` in `default`, its endpoints, and the
//! ServiceCIDR `kubernetes`.
//!
//! The endpoints are the addresses of all masters that share the store. The controller reconciles when one of the
//! objects changes, and when the master leases are due.

mod master_leases;
mod plan;

use std::net::{IpAddr, SocketAddr};
use std::sync::Weak;
use std::time::Duration;

use api::strategy::addresses::reject_special_ip;
use apiserver::registry::Registry;
use apiserver::watch_cache::{Scope, Watcher};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

pub use self::master_leases::MasterLeases;
use self::plan::{ApiServers, NAME, NAMESPACE, Step};
use crate::controllers::{ActAs as _, Client, DeleteOptions, Error, Json, Kind};
use crate::options::{SERVICES, ServiceRange};

/// The watched resources. Namespaced ones have their namespace.
const WATCHED: [(&str, Option<&str>); 4] = [
    ("services", Some(NAMESPACE)),
    ("endpoints", Some(NAMESPACE)),
    ("endpointslices.discovery.k8s.io", Some(NAMESPACE)),
    ("servicecidrs.networking.k8s.io", None),
];
/// The kind `ServiceCIDR`.
const SERVICE_CIDR: Kind = Kind::of("networking.k8s.io", "ServiceCIDR", "servicecidrs", false);
/// Pause between reconciliations, so that two masters with conflicting flags do not write continuously.
const PAUSE: Duration = Duration::from_secs(1);

/// The addresses of the API.
#[derive(Clone, Debug)]
pub struct ApiAddress {
    /// The service CIDRs. The service has the first address of the first one.
    pub ranges: Vec<ServiceRange>,
    /// The advertised address of this master.
    pub advertised: SocketAddr,
}

impl ApiAddress {
    fn service(&self) -> IpAddr {
        self.ranges.first().unwrap_or(&SERVICES).first()
    }
}

/// Keeps the Service `kubernetes` and its endpoints up to date, until the registry is dropped or shutdown is
/// requested.
pub async fn keep(
    registry: Weak<Registry>,
    client: Client,
    address_config: ApiAddress,
    mut masters: MasterLeases,
    mut stopped: watch::Receiver<bool>,
) {
    let client = client.as_master();
    if let Some(why) = reject_special_ip(address_config.advertised.ip()) {
        let address = address_config.advertised.ip();
        let what = "pods cannot reach the API through the Service kubernetes; see --advertise-address";
        // A loopback address is chosen on purpose, for experiments.
        if address.is_loopback() {
            tracing::info!(%address, why, "{what}");
        } else {
            tracing::warn!(%address, why, "{what}");
        }
    }
    let mut ranges = ServiceCidrState { at_start: true, is_warned: false };
    loop {
        // The watches start before the pass, so that no change is missed.
        let Some(watchers) = watchers(&registry) else { return };
        let settled = reconcile(&client, &address_config, &mut masters, &mut ranges).await;
        if let Err(error) = &settled {
            tracing::warn!(%error, "cannot write the Service kubernetes or the ServiceCIDR kubernetes; retrying");
        }
        let due = if settled.is_ok() { masters.due(Instant::now()) } else { Instant::now() };
        tokio::select! {
            () = changed(watchers, due) => {}
            () = wait_for_stop(&mut stopped) => return masters.release().await,
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = wait_for_stop(&mut stopped) => return masters.release().await,
        }
    }
}

/// Waits until shutdown is requested.
async fn wait_for_stop(stopped: &mut watch::Receiver<bool>) {
    // A closed channel counts as a shutdown request.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn watchers(registry: &Weak<Registry>) -> Option<Vec<Watcher>> {
    let registry = registry.upgrade()?;
    let cache = registry.cache();
    let watch = |(resource, namespace): (&str, Option<&str>)| {
        let scope = namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.to_owned()));
        cache.watch(resource, scope, cache.revision()).ok()
    };
    Some(WATCHED.into_iter().filter_map(watch).collect())
}

/// Waits until one of the objects changes, or until `due`.
async fn changed(watchers: Vec<Watcher>, due: Instant) {
    let waits = watchers.into_iter().map(|mut watcher| {
        Box::pin(async move {
            // A failed watch counts as a change.
            while let Ok(changes) = watcher.next().await {
                if changes.iter().any(|change| change.object.name() == NAME) {
                    return;
                }
            }
        })
    });
    let _ = timeout_at(due, futures_util::future::select_all(waits)).await;
}

struct ServiceCidrState {
    /// Whether the first reconciliation is still due.
    at_start: bool,
    /// Whether a conflict with another master was logged.
    is_warned: bool,
}

/// Reconciles all objects once.
async fn reconcile(
    client: &Client,
    address_config: &ApiAddress,
    masters: &mut MasterLeases,
    ranges: &mut ServiceCidrState,
) -> anyhow::Result<()> {
    let addresses = masters.addresses(Instant::now()).await?;
    let servers = ApiServers {
        service: address_config.service(),
        port: address_config.advertised.port(),
        masters: addresses,
    };
    apply(client, &Kind::SERVICE, |found| plan::service(found, &servers)).await?;
    apply(client, &Kind::ENDPOINTS, |found| plan::endpoints(found, &servers)).await?;
    apply(client, &Kind::ENDPOINT_SLICE, |found| plan::slice(found, &servers)).await?;
    let own: Vec<String> = address_config.ranges.iter().map(ToString::to_string).collect();
    reconcile_service_cidr(client, &own, ranges).await?;
    Ok(())
}

/// Reconciles the ServiceCIDR. Masters with different ranges replace it only at their start.
async fn reconcile_service_cidr(
    client: &Client,
    own: &[String],
    ranges: &mut ServiceCidrState,
) -> Result<(), Error> {
    let (at_start, mut others) = (ranges.at_start, None);
    let plan = |found: Option<&Json>| {
        others = found.filter(|found| !plan::has_ranges(found, own)).cloned();
        plan::ranges(found, own, at_start, Timestamp::now())
    };
    let is_done = apply(client, &SERVICE_CIDR, plan).await?;
    ranges.at_start &= !is_done;
    let Some(others) = others else { return Ok(()) };
    if at_start && is_done {
        // Created at once, before another master restores the old one.
        let plan = |found: Option<&Json>| plan::ranges(found, own, false, Timestamp::now());
        apply(client, &SERVICE_CIDR, plan).await?;
    } else if !at_start && !ranges.is_warned {
        ranges.is_warned = true;
        let (own, others) = (own.join(", "), others.get("spec").map(ToString::to_string).unwrap_or_default());
        tracing::warn!(
            own,
            others,
            "the ServiceCIDR kubernetes has other ranges than this master: start all masters with the same \
             --service-cluster-ip-range"
        );
    }
    Ok(())
}

/// Applies the plan to one object. Returns false if another client has written the object meanwhile.
async fn apply(
    client: &Client,
    kind: &Kind,
    plan: impl FnOnce(Option<&Json>) -> Step,
) -> Result<bool, Error> {
    let found = client.find(kind, NAMESPACE, NAME).await?;
    let done = match plan(found.as_ref()) {
        Step::Nothing => Ok(()),
        Step::Create(object) => client.create(kind, NAMESPACE, object).await.map(drop),
        Step::Update(object) => client.update(kind, "", object).await.map(drop),
        Step::UpdateStatus(object) => client.update(kind, "status", object).await.map(drop),
        // The deletion triggers another pass, which creates the object again.
        Step::Delete => {
            let metadata = |field: &str| found.as_ref()?.get("metadata")?.get(field)?.as_str();
            let this = DeleteOptions {
                uid: metadata("uid"),
                resource_version: metadata("resourceVersion"),
                ..DeleteOptions::default()
            };
            client.delete(kind, NAMESPACE, NAME, &this).await
        }
    };
    match done {
        // Another master wrote first; its change triggers another pass.
        Err(error) if error.exists() || error.is_conflict() || error.is_not_found() => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
mod tests;
