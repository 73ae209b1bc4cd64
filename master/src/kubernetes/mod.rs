//! The service `kubernetes` in the namespace `default`, by which pods find the API, and the ServiceCIDR of that name, which
//! says where addresses of services are taken from: there from the start, and again when they go.
//!
//! A master writes the service with the addresses of all masters that share its store, and looks again when one of the
//! objects changes and when the leases of the masters are due.

mod masters;
mod plan;

use std::net::{IpAddr, SocketAddr};
use std::sync::Weak;
use std::time::Duration;

use api::strategy::addresses::leads_nowhere;
use apiserver::registry::Registry;
use apiserver::store::{Scope, Watcher};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

pub use self::masters::Masters;
use self::plan::{Front, NAME, NAMESPACE, Step};
use crate::controllers::{Client, Delete, Error, Json, Kind};
use crate::options::{SERVICES, ServiceRange};

/// What is followed, by the names in the store, and the namespace of what lies in one.
const FOLLOWED: [(&str, Option<&str>); 4] = [
    ("services", Some(NAMESPACE)),
    ("endpoints", Some(NAMESPACE)),
    ("endpointslices.discovery.k8s.io", Some(NAMESPACE)),
    ("servicecidrs.networking.k8s.io", None),
];
/// Ranges of addresses of services.
const SERVICE_CIDR: Kind = Kind::of("networking.k8s.io", "ServiceCIDR", "servicecidrs", false);
/// The pause before what has changed is looked at: two masters that disagree, by a mistake in their flags, do not keep the
/// store busy.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the API is.
#[derive(Clone, Debug)]
pub struct Place {
    /// The addresses of the cluster's services; the first of all is that of the service.
    pub ranges: Vec<ServiceRange>,
    /// Where this master is reached by everybody.
    pub advertised: SocketAddr,
}

impl Place {
    fn service(&self) -> IpAddr {
        self.ranges.first().unwrap_or(&SERVICES).first()
    }
}

/// Keeps the service until there is no registry any more, or this master is told to stop.
pub async fn keep(
    registry: Weak<Registry>,
    client: Client,
    place: Place,
    mut masters: Masters,
    mut stopped: watch::Receiver<bool>,
) {
    let client = client.for_master();
    if let Some(why) = leads_nowhere(place.advertised.ip()) {
        let address = place.advertised.ip();
        let what = "pods cannot reach the API by the service kubernetes; see --advertise-address";
        // Whoever serves this machine alone has said so, and tries things out.
        if address.is_loopback() {
            tracing::info!(%address, why, "{what}");
        } else {
            tracing::warn!(%address, why, "{what}");
        }
    }
    let mut ranges = Ranges { at_start: true, is_warned: false };
    loop {
        // From before the look, so that nothing goes unseen after it.
        let Some(watchers) = watchers(&registry) else { return };
        let settled = settle(&client, &place, &mut masters, &mut ranges).await;
        if let Err(error) = &settled {
            tracing::warn!(%error, "the service kubernetes or the ServiceCIDR of that name cannot be written; trying again");
        }
        let due = if settled.is_ok() { masters.due(Instant::now()) } else { Instant::now() };
        tokio::select! {
            () = changed(watchers, due) => {}
            () = told(&mut stopped) => return masters.leave().await,
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = told(&mut stopped) => return masters.leave().await,
        }
    }
}

/// Waits until this master is to stop.
async fn told(stopped: &mut watch::Receiver<bool>) {
    // That nobody can tell any more is the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn watchers(registry: &Weak<Registry>) -> Option<Vec<Watcher>> {
    let registry = registry.upgrade()?;
    let cache = registry.cache();
    let watch = |(resource, namespace): (&str, Option<&str>)| {
        let scope = namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.to_owned()));
        cache.watch(resource, scope, cache.revision()).ok()
    };
    Some(FOLLOWED.into_iter().filter_map(watch).collect())
}

/// Waits until one of the objects changes, or something is due.
async fn changed(watchers: Vec<Watcher>, due: Instant) {
    let waits = watchers.into_iter().map(|mut watcher| {
        Box::pin(async move {
            // What is forgotten may have changed.
            while let Ok(changes) = watcher.next().await {
                if changes.iter().any(|change| change.object.name() == NAME) {
                    return;
                }
            }
        })
    });
    let _ = timeout_at(due, futures_util::future::select_all(waits)).await;
}

/// What has become of the ServiceCIDR.
struct Ranges {
    /// It was not looked at yet.
    at_start: bool,
    /// It was said that it is another one.
    is_warned: bool,
}

/// Looks, and does what is to be done.
async fn settle(
    client: &Client,
    place: &Place,
    masters: &mut Masters,
    ranges: &mut Ranges,
) -> anyhow::Result<()> {
    let addresses = masters.addresses(Instant::now()).await?;
    let front = Front { service: place.service(), port: place.advertised.port(), masters: addresses };
    carry_out(client, &Kind::SERVICE, |found| plan::service(found, &front)).await?;
    carry_out(client, &Kind::ENDPOINTS, |found| plan::endpoints(found, &front)).await?;
    carry_out(client, &Kind::ENDPOINT_SLICE, |found| plan::slice(found, &front)).await?;
    let own: Vec<String> = place.ranges.iter().map(ToString::to_string).collect();
    settle_ranges(client, &own, ranges).await?;
    Ok(())
}

/// The same for the ServiceCIDR, which masters that disagree do not take from each other without end.
async fn settle_ranges(client: &Client, own: &[String], ranges: &mut Ranges) -> Result<(), Error> {
    let (at_start, mut others) = (ranges.at_start, None);
    let plan = |found: Option<&Json>| {
        others = found.filter(|found| !plan::has_ranges(found, own)).cloned();
        plan::ranges(found, own, at_start, Timestamp::now())
    };
    let is_done = carry_out(client, &SERVICE_CIDR, plan).await?;
    ranges.at_start &= !is_done;
    let Some(others) = others else { return Ok(()) };
    if at_start && is_done {
        // Before another master makes it as it was.
        let plan = |found: Option<&Json>| plan::ranges(found, own, false, Timestamp::now());
        carry_out(client, &SERVICE_CIDR, plan).await?;
    } else if !at_start && !ranges.is_warned {
        ranges.is_warned = true;
        let (own, others) = (own.join(", "), others.get("spec").map(ToString::to_string).unwrap_or_default());
        tracing::warn!(
            own,
            others,
            "the ServiceCIDR kubernetes tells of other ranges than this master gives addresses from: start all masters \
            with the same --service-cluster-ip-range"
        );
    }
    Ok(())
}

/// Does what is to be done about one; false where somebody else came before.
async fn carry_out(
    client: &Client,
    kind: &Kind,
    plan: impl FnOnce(Option<&Json>) -> Step,
) -> Result<bool, Error> {
    let found = client.find(kind, NAMESPACE, NAME).await?;
    let done = match plan(found.as_ref()) {
        Step::Nothing => Ok(()),
        Step::Create(object) => client.create(kind, NAMESPACE, object).await.map(drop),
        Step::Update(object) => client.update(kind, "", object).await.map(drop),
        Step::Tell(object) => client.update(kind, "status", object).await.map(drop),
        // Its deletion is a change, after which it is made anew.
        Step::Delete => {
            let metadata = |field: &str| found.as_ref()?.get("metadata")?.get(field)?.as_str();
            let this =
                Delete { uid: metadata("uid"), revision: metadata("resourceVersion"), ..Delete::default() };
            client.delete(kind, NAMESPACE, NAME, &this).await
        }
    };
    match done {
        // Another master came before: that is a change, and it is looked at again.
        Err(error) if error.exists() || error.is_conflict() || error.is_not_found() => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
mod tests;
