//! APIServices of an in-process API, read by a client.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::storage::{Limits, Memory};
use apiserver::{Api, VERSION, crd, kinds};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use super::*;

/// Timeout, sufficient on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until the APIServices satisfy the condition.
async fn until(registry: &Registry, is: impl Fn(&[Value]) -> bool) {
    let look = async || loop {
        let listing = registry.cache().list(RESOURCE, &Scope::All);
        let all: Vec<Value> = listing.objects.iter().map(|object| object.decode().into()).collect();
        if is(&all) {
            return;
        }
        drop(registry.cache().watch(RESOURCE, Scope::All, listing.revision).unwrap().next().await);
    };
    tokio::time::timeout(DEADLINE, look()).await.unwrap_or_else(|_| panic!("they are never right"));
}

fn find<'a>(all: &'a [Value], name: &str) -> Option<&'a Value> {
    all.iter().find(|object| object["metadata"]["name"] == name)
}

fn is_available(object: Option<&Value>) -> bool {
    object.is_some_and(|object| object["status"]["conditions"][0]["status"] == "True")
}

#[tokio::test(start_paused = true)]
async fn api_services_follow_the_served_group_versions() {
    let catalog = Catalog::new(kinds::all());
    let registry = Registry::open(Arc::new(Memory::new(Limits::default())), catalog.clone()).await.unwrap();
    crd::start(&registry).await.unwrap();
    let client = Client::in_process(Api::writable(registry.clone(), Vec::new(), VERSION).router());
    let stop = watch::Sender::new(false);
    tokio::spawn(keep(Arc::downgrade(&registry), catalog.clone(), client.clone(), stop.subscribe()));
    until(&registry, |all| all.len() == 21 && all.iter().all(|object| is_available(Some(object)))).await;
    let (found, _) = list_and_watch(&Arc::downgrade(&registry)).unwrap();
    assert_eq!(plan::plan(&served(&catalog), &found, false, Timestamp::now()), [], "nothing is left to do");

    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let definitions =
        Kind::of("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false);
    client.create(&definitions, "", definition).await.unwrap();
    until(&registry, |all| is_available(find(all, "v1.example.com"))).await;

    // A served APIService that is deleted is re-created; an edited one is reset.
    client.delete(&API_SERVICE, "", "v1.apps", &DeleteOptions::default()).await.unwrap();
    let edit = json!({"spec": {"versionPriority": 3}});
    client.patch(&API_SERVICE, "", "v1.batch", edit).await.unwrap();
    until(&registry, |all| {
        let batch = find(all, "v1.batch").is_some_and(|object| object["spec"]["versionPriority"] == 15);
        batch && is_available(find(all, "v1.apps"))
    })
    .await;

    client.delete(&definitions, "", "widgets.example.com", &DeleteOptions::default()).await.unwrap();
    until(&registry, |all| find(all, "v1.example.com").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_api_service_does_not_block_others() {
    let catalog = Catalog::new(kinds::all());
    let registry = Registry::open(Arc::new(Memory::new(Limits::default())), catalog.clone()).await.unwrap();
    let api = Api::writable(registry.clone(), Vec::new(), VERSION).router();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let refuse = axum::middleware::from_fn(move |request: axum::extract::Request, next: Next| {
        let tries = counted.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            if head.method == http::Method::POST && String::from_utf8_lossy(&body).contains("\"v1.apps\"") {
                tries.fetch_add(1, Ordering::Relaxed);
                return http::StatusCode::FORBIDDEN.into_response();
            }
            next.run(axum::extract::Request::from_parts(head, body.into())).await
        }
    });
    let client = Client::in_process(api.layer(refuse));
    let stop = watch::Sender::new(false);
    let begun = tokio::time::Instant::now();
    tokio::spawn(keep(Arc::downgrade(&registry), catalog.clone(), client, stop.subscribe()));
    until(&registry, |all| all.len() == 20 && all.iter().all(|object| is_available(Some(object)))).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "the others are there at once");
    // The retries back off.
    tokio::time::advance(Duration::from_secs(600)).await;
    assert!(tries.load(Ordering::Relaxed) < 30, "{tries:?}");
}
