//! The kubernetes Service of an in-process API, read by a client.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use apiserver::storage::{Limits, Memory, Store};
use apiserver::{Api, Catalog, VERSION, kinds};

use super::*;

/// Timeout, sufficient on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server, and a client of it.
struct Server {
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    client: Client,
    stop: watch::Sender<bool>,
}

impl Server {
    async fn over(store: Arc<dyn Store>) -> Self {
        let registry = Registry::open(store.clone(), Catalog::new(kinds::all())).await.unwrap();
        let client = Client::in_process(Api::writable(registry.clone(), Vec::new(), VERSION).router());
        Self { store, registry, client, stop: watch::Sender::new(false) }
    }

    /// Maintains the Service for a master at this address.
    fn keep(&self, address: &str, masters: impl FnOnce(IpAddr, Arc<dyn Store>) -> MasterLeases) {
        self.keep_with(vec![SERVICES], address, masters);
    }

    /// The same with these service CIDRs.
    fn keep_with(
        &self,
        ranges: Vec<ServiceRange>,
        address: &str,
        masters: impl FnOnce(IpAddr, Arc<dyn Store>) -> MasterLeases,
    ) {
        let advertised: SocketAddr = address.parse().unwrap();
        let address_config = ApiAddress { ranges, advertised };
        let masters = masters(advertised.ip(), self.store.clone());
        let registry = Arc::downgrade(&self.registry);
        tokio::spawn(keep(registry, self.client.clone(), address_config, masters, self.stop.subscribe()));
    }

    /// Waits until an object satisfies the condition.
    async fn until(&self, kind: &Kind, is: impl Fn(&Json) -> bool) -> Json {
        let look = async || loop {
            let mut changes = self
                .registry
                .cache()
                .watch(&kind.qualified(), Scope::All, self.registry.cache().revision())
                .unwrap();
            match self.client.get(kind, NAMESPACE, NAME).await {
                Ok(object) if is(&object) => return object,
                _ => drop(changes.next().await),
            }
        };
        tokio::time::timeout(DEADLINE, look()).await.unwrap_or_else(|_| panic!("{kind:?} is never right"))
    }

    /// Waits until the Endpoints and the slice have these addresses.
    async fn assert_endpoints(&self, addresses: &[&str]) {
        let ips = |object: &Json, list: &str, ip: &str| -> Vec<String> {
            let all = serde_json::Value::from(object.clone());
            let all = all.pointer(list).and_then(|list| list.as_array().cloned()).unwrap_or_default();
            all.iter().map(|it| it.pointer(ip).unwrap().as_str().unwrap().to_owned()).collect()
        };
        self.until(&Kind::ENDPOINTS, |object| ips(object, "/subsets/0/addresses", "/ip") == addresses).await;
        self.until(&Kind::ENDPOINT_SLICE, |object| ips(object, "/endpoints", "/addresses/0") == addresses)
            .await;
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(Limits::default()))
}

#[tokio::test(start_paused = true)]
async fn deleted_kubernetes_service_is_created_again() {
    let server = Server::over(memory()).await;
    server.keep("192.0.2.7:6443", |own, _| MasterLeases::Alone(own));
    server.assert_endpoints(&["192.0.2.7"]).await;
    let service = server.until(&Kind::SERVICE, |_| true).await;
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    for kind in [Kind::SERVICE, Kind::ENDPOINTS, Kind::ENDPOINT_SLICE] {
        let before = server.until(&kind, |_| true).await["metadata"]["uid"].clone();
        server.client.delete(&kind, NAMESPACE, NAME, &DeleteOptions::default()).await.unwrap();
        server.until(&kind, |object| object["metadata"]["uid"] != before).await;
    }
    let edit = serde_json::json!({"subsets": null});
    server.client.patch(&Kind::ENDPOINTS, NAMESPACE, NAME, edit).await.unwrap();
    server.assert_endpoints(&["192.0.2.7"]).await;
}

#[tokio::test(start_paused = true)]
async fn master_that_changes_its_address_removes_the_old_endpoint() {
    let store = memory();
    let server = Server::over(store.clone()).await;
    server.keep("192.0.2.7:6443", |own, _| MasterLeases::Alone(own));
    server.assert_endpoints(&["192.0.2.7"]).await;
    server.stop.send_replace(true);
    let server = Server::over(store).await;
    server.keep("192.0.2.8:6443", |own, _| MasterLeases::Alone(own));
    server.assert_endpoints(&["192.0.2.8"]).await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_list_all_masters_until_they_stop() {
    let (store, one) = (memory(), "192.0.2.7");
    let first = Server::over(store.clone()).await;
    first.keep("192.0.2.7:6443", MasterLeases::sharing);
    first.assert_endpoints(&[one]).await;
    let second = Server::over(store.clone()).await;
    second.keep("192.0.2.8:6443", MasterLeases::sharing);
    first.assert_endpoints(&[one, "192.0.2.8"]).await;
    second.stop.send_replace(true);
    first.assert_endpoints(&[one]).await;
    // A killed master leaves its lease behind until it expires.
    let key = "/registry/masterleases/192.0.2.9";
    store.commit(apiserver::storage::Transaction::create(key, "".into())).await.unwrap();
    first.assert_endpoints(&[one, "192.0.2.9"]).await;
    first.assert_endpoints(&[one]).await;
}

#[tokio::test(start_paused = true)]
async fn masters_with_other_service_ranges_publish_them_only_at_start() {
    let store = memory();
    let other = ServiceRange { network: "10.0.0.0".parse().unwrap(), bits: 16 };
    let (old, new) = (serde_json::json!(["10.96.0.0/12"]), serde_json::json!(["10.0.0.0/16"]));
    let is_ready = |object: &Json| {
        object.get("status").is_some_and(|status| status["conditions"][0]["status"] == "True")
    };
    let first = Server::over(store.clone()).await;
    first.keep("192.0.2.7:6443", MasterLeases::sharing);
    first.until(&SERVICE_CIDR, |object| object["spec"]["cidrs"] == old && is_ready(object)).await;
    let second = Server::over(store.clone()).await;
    second.keep_with(vec![other], "192.0.2.8:6443", MasterLeases::sharing);
    let published =
        first.until(&SERVICE_CIDR, |object| object["spec"]["cidrs"] == new && is_ready(object)).await;
    // Both masters observe the ServiceCIDR when another master starts and when it stops.
    first.assert_endpoints(&["192.0.2.7", "192.0.2.8"]).await;
    let third = Server::over(store).await;
    third.keep_with(vec![other], "192.0.2.9:6443", MasterLeases::sharing);
    first.assert_endpoints(&["192.0.2.7", "192.0.2.8", "192.0.2.9"]).await;
    third.stop.send_replace(true);
    first.assert_endpoints(&["192.0.2.7", "192.0.2.8"]).await;
    assert_eq!(first.until(&SERVICE_CIDR, |_| true).await["metadata"]["uid"], published["metadata"]["uid"]);
}
