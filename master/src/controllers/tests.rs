//! Controllers over an in-process API, observed through their client.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod autoscaling;
mod jobs;
mod nodes;

use std::collections::BTreeMap;

use apiserver::admission::Admission;
use apiserver::registry::Registry;
use apiserver::storage::{Limits, Memory};
use apiserver::{Api, Catalog, Version, crd, kinds};
use client::{Propagation, Scope, Typed};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

/// Timeout, sufficient on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The API over an empty store, with these admission plugins.
async fn api(admission: Vec<Arc<dyn Admission>>) -> axum::Router {
    let version = Version { major: "1", minor: "36", git_version: "test" };
    let registry =
        Registry::open(Arc::new(Memory::new(Limits::default())), Catalog::new(kinds::all())).await.unwrap();
    crd::start(&registry).await.unwrap();
    Api::writable(registry, admission, version).router()
}

/// A client of a server with these controllers.
async fn running(which: Controllers) -> Client {
    running_on(api(Vec::new()).await, which)
}

/// Runs these controllers on a server. Returns a client.
fn running_on(api: axum::Router, which: Controllers) -> Client {
    let client = Client::in_process(api);
    tokio::spawn(run(
        client.clone(),
        which,
        ControllerContext {
            root_ca: "PEM".to_owned(),
            authority: None,
            allocates_pod_cidrs: false,
            lifecycle: NodeLifecycle::default(),
        },
    ));
    client
}

async fn namespace(client: &Client, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        "spec": {"finalizers": ["kubernetes"]}});
    client.create(&Kind::NAMESPACE, "", namespace).await.unwrap();
}

async fn config_map(client: &Client, namespace: &str, name: &str, owner: Option<(&str, &str)>) -> String {
    let owners: Vec<Value> = owner
        .into_iter()
        .map(|(name, uid)| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}))
        .collect();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners},
    });
    let made = client.create(&Kind::CONFIG_MAP, namespace, object).await.unwrap();
    text(at(&made, "/metadata/uid"))
}

/// A field of an object by JSON pointer (`/status/phase`).
fn at<'a>(object: &'a Json, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(2).try_fold(object.get(pointer.split('/').nth(1)?)?, |value, name| match value {
        Value::Array(all) => all.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

/// A string; empty if the value is missing.
fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The condition of that type in the status of an object.
fn condition<'a>(object: &'a Json, kind: &str) -> Option<&'a Value> {
    let all = at(object, "/status/conditions").and_then(Value::as_array);
    all.into_iter().flatten().find(|condition| condition["type"] == kind)
}

fn condition_is(object: &Json, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|found| found["status"] == status)
}

/// Waits until the objects of a kind, by `namespace/name`, satisfy the condition.
async fn until(client: &Client, kind: &Kind, is_right: impl Fn(&BTreeMap<String, Json>) -> bool) {
    let look = async || loop {
        let mut found = BTreeMap::new();
        let resource_version = client
            .list(kind, "", |object| {
                let key = [text(at(&object, "/metadata/namespace")), text(at(&object, "/metadata/name"))];
                found.insert(key.join("/"), object);
            })
            .await
            .unwrap();
        if is_right(&found) {
            return;
        }
        let seed = Typed::<Value>::default();
        let mut watch =
            client.watch(kind, &Scope::default(), &resource_version, DEADLINE, seed).await.unwrap();
        watch.next(DEADLINE).await.unwrap().unwrap();
    };
    tokio::time::timeout(DEADLINE, look()).await.unwrap_or_else(|_| panic!("{kind:?} is never right"));
}

#[tokio::test]
async fn every_namespace_gets_its_account_and_certificate() {
    let client = running(Controllers::All).await;
    namespace(&client, "shop").await;
    until(&client, &Kind::SERVICE_ACCOUNT, |found| found.contains_key("shop/default")).await;
    let certificate = |found: &BTreeMap<String, Json>| {
        found.get("shop/kube-root-ca.crt").map(|object| text(at(object, "/data/ca.crt")))
    };
    until(&client, &Kind::CONFIG_MAP, |found| certificate(found).as_deref() == Some("PEM")).await;
    let edit = json!({"data": {"ca.crt": "mine", "more": "x"}});
    client.patch(&Kind::CONFIG_MAP, "shop", "kube-root-ca.crt", edit).await.unwrap();
    until(&client, &Kind::CONFIG_MAP, |found| {
        found.get("shop/kube-root-ca.crt").and_then(|object| object.get("data"))
            == Some(&json!({"ca.crt": "PEM"}))
    })
    .await;
}

#[tokio::test]
async fn garbage_collector_deletes_only_objects_without_owners() {
    let client = running(Controllers::Only(vec![garbage_collector::NAME.to_owned()])).await;
    namespace(&client, "shop").await;
    namespace(&client, "far").await;
    let owner = config_map(&client, "shop", "owner", None).await;
    let child = config_map(&client, "shop", "child", Some(("owner", &owner))).await;
    config_map(&client, "shop", "grandchild", Some(("child", &child))).await;
    config_map(&client, "shop", "stranger", None).await;
    // The owner exists, but in another namespace.
    config_map(&client, "far", "lost", Some(("owner", &owner))).await;
    until(&client, &Kind::CONFIG_MAP, |found| !found.contains_key("far/lost") && found.len() == 4).await;
    until(&client, &Kind::EVENT, |found| {
        found.values().any(|event| event.get("reason") == Some(&"OwnerRefInvalidNamespace".into()))
    })
    .await;
    let how = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    client.delete(&Kind::CONFIG_MAP, "shop", "owner", &how).await.unwrap();
    until(&client, &Kind::CONFIG_MAP, |found| found.keys().eq(["shop/stranger"])).await;
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_not_an_object_that_is_not_there() {
    let client = running(Controllers::None).await;
    let missing = client.get(&Kind::CONFIG_MAP, "shop", "a").await.unwrap_err();
    assert!(missing.is_not_found() && !missing.is_unknown_resource(), "{missing}");
    let odd = Kind { plural: "widgets".into(), ..Kind::CONFIG_MAP };
    let odd = client.get(&odd, "shop", "a").await.unwrap_err();
    assert!(!odd.is_not_found() && odd.is_unknown_resource(), "{odd}");
}

#[tokio::test]
async fn orphans_stay_and_forget() {
    let client = running(Controllers::Only(vec![garbage_collector::NAME.to_owned()])).await;
    namespace(&client, "shop").await;
    let owner = config_map(&client, "shop", "owner", None).await;
    config_map(&client, "shop", "child", Some(("owner", &owner))).await;
    let how = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    client.delete(&Kind::CONFIG_MAP, "shop", "owner", &how).await.unwrap();
    until(&client, &Kind::CONFIG_MAP, |found| {
        let owners = |object: &Json| {
            at(object, "/metadata/ownerReferences").and_then(Value::as_array).map_or(0, Vec::len)
        };
        found.keys().eq(["shop/child"]) && found.values().all(|object| owners(object) == 0)
    })
    .await;
}

#[tokio::test]
async fn quota_usage_is_recounted() {
    let client = running(Controllers::Only(vec![resource_quota::NAME.to_owned()])).await;
    namespace(&client, "shop").await;
    config_map(&client, "shop", "a", None).await;
    config_map(&client, "shop", "b", None).await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"configmaps": "5", "count/secrets": "1"}},
    });
    client.create(&Kind::RESOURCE_QUOTA, "shop", quota).await.unwrap();
    let used = |found: &BTreeMap<String, Json>, expected: Value| {
        found.get("shop/q").and_then(|quota| at(quota, "/status/used").cloned()) == Some(expected)
    };
    until(&client, &Kind::RESOURCE_QUOTA, |found| {
        used(found, json!({"configmaps": "2", "count/secrets": "0"}))
    })
    .await;
    client.delete(&Kind::CONFIG_MAP, "shop", "a", &DeleteOptions::default()).await.unwrap();
    until(&client, &Kind::RESOURCE_QUOTA, |found| {
        used(found, json!({"configmaps": "1", "count/secrets": "0"}))
    })
    .await;
}

#[tokio::test]
async fn a_namespace_goes_with_everything_in_it() {
    let client = running(Controllers::All).await;
    namespace(&client, "shop").await;
    until(&client, &Kind::SERVICE_ACCOUNT, |found| found.contains_key("shop/default")).await;
    config_map(&client, "shop", "free", None).await;
    config_map(&client, "shop", "held", None).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    client.patch(&Kind::CONFIG_MAP, "shop", "held", hold).await.unwrap();
    client.delete(&Kind::NAMESPACE, "", "shop", &DeleteOptions::default()).await.unwrap();
    until(&client, &Kind::NAMESPACE, |found| {
        let conditions =
            found.get("/shop").and_then(|shop| at(shop, "/status/conditions")).map(Value::to_string);
        conditions.is_some_and(|all| all.contains("example.com/hold in 1 resource instances"))
    })
    .await;
    until(&client, &Kind::CONFIG_MAP, |found| {
        found.keys().filter(|key| key.starts_with("shop/")).eq(["shop/held"])
    })
    .await;
    let free = json!({"metadata": {"finalizers": null}});
    client.patch(&Kind::CONFIG_MAP, "shop", "held", free).await.unwrap();
    until(&client, &Kind::NAMESPACE, |found| !found.contains_key("/shop")).await;
}

/// A pod behind the service `web` that is ready at that address.
async fn ready_pod(client: &Client, number: usize) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}"), "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let mut pod = client.create(&Kind::POD, "shop", pod).await.unwrap();
    let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
    let condition = json!({"type": "Ready", "status": "True"});
    let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]});
    pod.insert("status".to_owned(), status);
    client.update(&Kind::POD, "status", pod).await.unwrap();
}

#[tokio::test]
async fn endpoint_slices_are_repaired_after_foreign_changes() {
    /// More than one slice can hold.
    const PODS: usize = 105;
    let names = [endpoints::slices::NAME, endpoints::legacy::NAME].map(str::to_owned);
    let client = running(Controllers::Only(names.to_vec())).await;
    namespace(&client, "shop").await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    client.create(&Kind::SERVICE, "shop", service).await.unwrap();
    let count = |slice: &Json| at(slice, "/endpoints").and_then(Value::as_array).map_or(0, Vec::len);
    let told = |found: &BTreeMap<String, Json>, slices: usize, endpoints: usize| {
        found.len() == slices && found.values().map(count).sum::<usize>() == endpoints
    };
    until(&client, &Kind::ENDPOINT_SLICE, |found| told(found, 1, 0)).await;
    for number in 0..PODS {
        ready_pod(&client, number).await;
        // Another client changes the slice that the controller is about to write.
        if number % 40 == 7 {
            let meddle = async |slice: Json| {
                let name = text(at(&slice, "/metadata/name"));
                let edit = json!({"endpoints": [], "metadata": {"labels": {"mine": number.to_string()}}});
                client.patch(&Kind::ENDPOINT_SLICE, "shop", &name, edit).await.map(drop)
            };
            let mut slices = Vec::new();
            client.list(&Kind::ENDPOINT_SLICE, "shop", |slice| slices.push(slice)).await.unwrap();
            for slice in slices {
                let _ = meddle(slice).await;
            }
        }
    }
    until(&client, &Kind::ENDPOINT_SLICE, |found| {
        let is_clean = |slice: &Json| at(slice, "/metadata/labels/mine").is_none() && count(slice) <= 100;
        told(found, found.len(), PODS) && found.len() <= 3 && found.values().all(is_clean)
    })
    .await;
    until(&client, &Kind::ENDPOINTS, |found| {
        let addresses = found.get("shop/web").and_then(|web| at(web, "/subsets/0/addresses"));
        addresses.and_then(Value::as_array).map_or(0, Vec::len) == PODS
    })
    .await;
    client.delete(&Kind::SERVICE, "shop", "web", &DeleteOptions::default()).await.unwrap();
    until(&client, &Kind::ENDPOINTS, |found| found.is_empty()).await;
}

#[test]
fn a_master_leaves_its_lease_to_a_stock_controller_manager_that_does_the_rest() {
    let only = |names: &[&str]| Controllers::Only(names.iter().map(|name| (*name).to_owned()).collect());
    for (which, is_inside, expected) in [
        (Controllers::All, true, CONTROLLER_MANAGER),
        (Controllers::Without(vec!["disruption-controller".to_owned()]), true, CONTROLLER_MANAGER),
        (only(&complementary_names()), true, COMPLEMENTARY_LEASE),
        (only(&["certificatesigningrequest-signing-controller"]), true, COMPLEMENTARY_LEASE),
        (only(&["node-ipam-controller", "garbage-collector-controller"]), true, CONTROLLER_MANAGER),
        (Controllers::All, false, EXTERNAL_LEASE),
        (only(&complementary_names()), false, EXTERNAL_LEASE),
    ] {
        assert_eq!(lease_name(&which, is_inside), expected, "{which:?} {is_inside}");
    }
    let own = master_identity("10.0.0.1:6443".parse().unwrap(), "4f2a");
    assert_eq!(own, "master-10.0.0.1:6443_4f2a");
    assert!(is_master_identity(&own) && !is_master_identity("master-1_4f2a"));
}
