//! The IPAddress controller: maintains one IPAddress object per cluster IP. The Services determine which addresses
//! are allocated (`admission::service_ips`), and the objects only show that.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Weak;
use std::time::Duration;

use apiserver::registry::Registry;
use apiserver::watch_cache::{Scope, WatchCache};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::controllers::{ActAs as _, Client, DeleteOptions, Error, Json, Kind};
use crate::objects::service::Service;
use crate::objects::{self, ObjectMeta};

const SERVICES: &str = "services";
const IP_ADDRESS: Kind = Kind::of("networking.k8s.io", "IPAddress", "ipaddresses", false);
/// The label with the IP family of an address that a server allocated.
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";
/// Pause between two reconciliations. Changes within it are carried out together.
const PAUSE: Duration = Duration::from_secs(1);

/// Maintains the objects until the registry is gone or this master stops.
pub async fn keep(registry: Weak<Registry>, client: Client, mut stopped: watch::Receiver<bool>) {
    let client = client.as_master();
    loop {
        let Some(cache) = registry.upgrade().map(|registry| registry.cache().clone()) else { return };
        // From before the pass, so that no change is missed.
        let watch = |resource: &str| cache.watch(resource, Scope::All, cache.revision()).ok();
        let (Some(mut services), Some(mut addresses)) = (watch(SERVICES), watch(&IP_ADDRESS.qualified()))
        else {
            return;
        };
        let settled = reconcile(&cache, &client).await;
        drop(cache);
        if let Err(error) = &settled {
            tracing::warn!(%error, "the IPAddresses of Services cannot be written; retrying");
        }
        tokio::select! {
            _ = services.next(), if settled.is_ok() => {}
            _ = addresses.next(), if settled.is_ok() => {}
            () = sleep(PAUSE), if settled.is_err() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

async fn reconcile(cache: &WatchCache, client: &Client) -> Result<(), Error> {
    let services = cache.list(SERVICES, &Scope::All).objects;
    let services: Vec<Service> = services.iter().map(|object| objects::decode(object.json())).collect();
    let addresses = cache.list(&IP_ADDRESS.qualified(), &Scope::All).objects;
    let addresses: Vec<Json> = addresses.iter().map(|object| object.decode()).collect();
    for step in plan(&services, &addresses) {
        let done = match step {
            Step::Create(object) => client.create(&IP_ADDRESS, "", object).await.map(drop),
            Step::Update(object) => client.update(&IP_ADDRESS, "", object).await.map(drop),
            Step::Delete { name, uid } => {
                let this = DeleteOptions { uid: Some(uid.as_str()), ..DeleteOptions::default() };
                client.delete(&IP_ADDRESS, "", &name, &this).await
            }
        };
        match done {
            // Another master was first: that is a change, and the watch brings it here.
            Err(error) if error.exists() || error.is_conflict() || error.is_not_found() => {}
            done => done?,
        }
    }
    Ok(())
}

/// A write to an IPAddress object.
#[derive(Debug, PartialEq)]
enum Step {
    Create(Value),
    Update(Json),
    Delete { name: String, uid: String },
}

/// Plans the writes. An address without a Service is deleted if this server allocated it. If a user created it, it
/// stays.
fn plan(services: &[Service], addresses: &[Json]) -> Vec<Step> {
    let mut wanted: BTreeMap<IpAddr, ParentReference> = BTreeMap::new();
    for Service { metadata, spec } in services {
        let parent = ParentReference {
            resource: SERVICES.into(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            ..ParentReference::default()
        };
        // The address of a headless Service is `None`.
        let addresses = spec.cluster_ips.iter().filter_map(|address| address.parse().ok());
        wanted.extend(addresses.map(|address| (address, parent.clone())));
    }
    let mut steps = Vec::new();
    for object in addresses {
        let IpAddressObject { metadata, spec } = objects::read(object);
        let is_ours = metadata.label(MANAGED_BY) == ALLOCATOR;
        let delete = || Step::Delete { name: metadata.name.to_string(), uid: metadata.uid.to_string() };
        let address = metadata.name.parse::<IpAddr>().ok();
        match address.and_then(|address| Some((address, wanted.remove(&address)?))) {
            // The parent of an address cannot be changed: it is deleted, and created in the next pass.
            Some((_, parent)) if spec.parent_ref != parent => steps.push(delete()),
            Some((address, _)) if is_ours && metadata.label(FAMILY) == family(address) => {}
            Some((address, _)) => {
                let mut object = object.clone();
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.insert("labels".to_owned(), labels(address));
                }
                steps.push(Step::Update(object));
            }
            None if is_ours => steps.push(delete()),
            None => {}
        }
    }
    steps.extend(wanted.iter().map(|(address, parent)| Step::Create(object(*address, parent))));
    steps
}

/// An IPAddress.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IpAddressObject {
    metadata: ObjectMeta,
    spec: IpAddressSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IpAddressSpec {
    parent_ref: ParentReference,
}

/// The object that uses an address. The core group is empty or missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
struct ParentReference {
    group: Box<str>,
    resource: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
}

fn object(address: IpAddr, parent: &ParentReference) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {"name": address.to_string(), "labels": labels(address)},
        "spec": {"parentRef": parent},
    })
}

fn labels(address: IpAddr) -> Value {
    json!({FAMILY: family(address), MANAGED_BY: ALLOCATOR})
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn map(object: Value) -> Json {
        object.as_object().unwrap().clone()
    }

    fn service(name: &str, addresses: &[&str]) -> Service {
        let object =
            json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"clusterIPs": addresses}});
        objects::read(&map(object))
    }

    fn shown(address: &Json) -> (String, String) {
        let ObjectMeta { name, labels, .. } = objects::read::<IpAddressObject>(address).metadata;
        (name.into(), labels.iter().map(|(_, value)| value).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn each_service_address_has_an_ip_address_object() {
        let services = [service("web", &["10.96.0.9", "fd00::9"]), service("headless", &["None"])];
        let steps = plan(&services, &[]);
        let created: Vec<Json> = steps
            .into_iter()
            .map(|step| match step {
                Step::Create(object) => map(object),
                step => panic!("{step:?}"),
            })
            .collect();
        let shown: Vec<_> = created.iter().map(shown).collect();
        let expected = [("10.96.0.9", "IPv4 ipallocator.k8s.io"), ("fd00::9", "IPv6 ipallocator.k8s.io")];
        assert_eq!(shown, expected.map(|(name, labels)| (name.to_owned(), labels.to_owned())));
        assert_eq!(
            created[0]["spec"]["parentRef"],
            json!({"group": "", "resource": "services", "namespace": "shop", "name": "web"})
        );
        assert_eq!(plan(&services, &created), []);
        // The core group may be left out.
        let mut read = created.clone();
        read[0]["spec"]["parentRef"].as_object_mut().unwrap().remove("group");
        assert_eq!(plan(&services, &read), []);

        let mut relabelled = created.clone();
        relabelled[0]["metadata"]["labels"] = json!({});
        let repaired = plan(&services, &relabelled);
        assert_eq!(repaired, [Step::Update(created[0].clone())]);

        let moved = [service("other", &["10.96.0.9", "fd00::9"])];
        let deleted = plan(&moved, &created);
        assert!(matches!(&deleted[..], [Step::Delete { .. }, Step::Delete { .. }]), "{deleted:?}");
        let gone = plan(&[], &created);
        assert!(matches!(&gone[..], [Step::Delete { name, .. }, _] if name == "10.96.0.9"), "{gone:?}");
        let own = map(json!({"metadata": {"name": "192.0.2.1"}, "spec": {"parentRef": {}}}));
        assert_eq!(plan(&[], &[own]), [], "a user created it");
    }
}
