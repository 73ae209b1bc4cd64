//! Errors of the storage, and concurrent writers.

use std::path::Path;
use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::Map;

use super::*;
use crate::storage::{Batches, Error, Expected, Found, Memory, Outcome, Page, Revision, Store, Transaction};

/// An in-memory store that fails or has concurrent writers.
#[derive(Default)]
struct Contrary {
    inner: Memory,
    /// What happens instead of the next commit, or before it.
    next: Mutex<Option<Next>>,
}

enum Next {
    Fails(Error),
    Comes(Transaction),
}

impl Contrary {
    fn next(&self, next: Next) {
        *self.next.lock().unwrap() = Some(next);
    }
}

#[async_trait]
impl Store for Contrary {
    async fn get(&self, key: &str) -> Result<Found, Error> {
        self.inner.get(key).await
    }

    async fn range(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, Error> {
        self.inner.range(prefix, after, limit).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        let next = self.next.lock().unwrap().take();
        match next {
            Some(Next::Fails(error)) => return Err(error),
            Some(Next::Comes(other)) => drop(self.inner.commit(other).await?),
            None => {}
        }
        self.inner.commit(transaction).await
    }

    async fn commit_deferred(&self, transaction: Transaction) -> Result<Outcome, Error> {
        self.commit(transaction).await
    }

    async fn flush(&self) -> Result<(), Error> {
        self.inner.flush().await
    }

    async fn watch(&self, from: Revision) -> Result<Batches, Error> {
        self.inner.watch(from).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner.compact(revision).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.inner.revision().await
    }

    async fn check_health(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn backup(&self, path: &Path) -> Result<(), Error> {
        self.inner.backup(path).await
    }
}

async fn bed() -> (Arc<Contrary>, Server) {
    let store = Arc::new(Contrary::default());
    let namespaces = Resource::new("", "v1", "Namespace", "namespaces", "namespace").cluster();
    let rows = resources().into_iter().chain([namespaces]);
    let registry = Registry::open(store.clone(), Catalog::new(rows)).await.unwrap();
    let admission: Vec<Arc<dyn Admission>> = vec![NamespaceLifecycle::new(registry.clone())];
    let server = Server(Api::writable(registry, admission, VERSION).router());
    let (code, made) =
        server.json("POST", "/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
    assert_eq!(code, 201, "{made}");
    (store, server)
}

#[tokio::test]
async fn storage_failure_is_reported_with_a_remedy_and_recovers() {
    let (store, server) = bed().await;
    assert_eq!(server.json("POST", MAPS, map("there")).await.0, 201);
    let file = std::path::PathBuf::from("/data/store");
    let io = || Arc::new(std::io::Error::from(std::io::ErrorKind::StorageFull));
    for (error, code, reason, text) in [
        (
            Error::Full { file: file.clone(), source: io() },
            507,
            "InsufficientStorage",
            "free disk space and retry",
        ),
        (
            Error::Quota { store: "etcd".to_owned(), reason: "space".to_owned() },
            507,
            "InsufficientStorage",
            "etcdctl alarm disarm",
        ),
        (
            Error::Failed { file: file.clone(), reason: "EIO".to_owned(), source: None },
            503,
            "ServiceUnavailable",
            "nothing was written",
        ),
        (Error::Unreachable { store: "etcd".to_owned() }, 503, "ServiceUnavailable", "retry later"),
        (
            Error::Unknown { file: file.clone(), reason: "EIO".to_owned() },
            504,
            "Timeout",
            "read the object before you retry",
        ),
        (Error::Invalid("make it smaller".to_owned()), 413, "RequestEntityTooLarge", "make it smaller"),
        (Error::Closed, 503, "ServiceUnavailable", "shutting down"),
        (Error::Damaged { file, reason: "x".to_owned() }, 500, "InternalError", "restore a backup"),
    ] {
        for (method, path, body) in [
            ("POST", MAPS.to_owned(), map("new")),
            ("PUT", format!("{MAPS}/there"), {
                let mut changed = map("there");
                changed["data"]["a"] = "2".into();
                changed
            }),
            ("DELETE", format!("{MAPS}/there"), Value::Null),
        ] {
            store.next(Next::Fails(error.clone()));
            let body = if body.is_null() { json!({}) } else { body };
            refused(server.json(method, &path, body).await, code, reason, text);
            let (code, read) = server.get(&format!("{MAPS}/there")).await;
            assert_eq!((code, &read["data"]["a"]), (200, &json!("1")), "what is there is read");
        }
    }
    assert_eq!(server.json("POST", MAPS, map("new")).await.0, 201);
}

fn namespace(name: &str, ends: bool) -> Transaction {
    let mut metadata = json!({"name": name});
    if ends {
        metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    }
    let object: Map<String, Value> =
        [("apiVersion", json!("v1")), ("kind", json!("Namespace")), ("metadata", metadata)]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect();
    let key = format!("/registry/namespaces//{name}");
    Transaction::put(&key, Expected::Any, Value::Object(object).to_string().into())
}

#[tokio::test]
async fn server_rejects_creates_if_the_namespace_terminates_concurrently() {
    let (store, server) = bed().await;
    store.next(Next::Comes(namespace("default", true)));
    let ending = "because it is being terminated";
    refused(server.json("POST", MAPS, map("late")).await, 403, "Forbidden", ending);
    refused(server.json("POST", MAPS, map("later")).await, 403, "Forbidden", ending);
    // Nor in a deleted namespace.
    let (store, server) = bed().await;
    store.next(Next::Comes(Transaction::delete("/registry/namespaces//default", Expected::Any)));
    refused(server.json("POST", MAPS, map("late")).await, 403, "Forbidden", ending);
    refused(
        server.json("POST", MAPS, map("later")).await,
        404,
        "NotFound",
        "namespaces \"default\" not found",
    );
    // A change of its labels does not matter.
    let (store, server) = bed().await;
    store.next(Next::Comes(namespace("default", false)));
    assert_eq!(server.json("POST", MAPS, map("in-time")).await.0, 201);
}

#[tokio::test]
async fn namespace_created_by_another_server_is_found_at_once() {
    let (store, server) = bed().await;
    for number in 0..20 {
        let name = format!("n{number}");
        // The cache does not know it yet.
        store.inner.commit(namespace(&name, false)).await.unwrap();
        let path = format!("/api/v1/namespaces/{name}/configmaps");
        let (code, made) = server.json("POST", &path, map("a")).await;
        assert_eq!(code, 201, "{made}");
    }
    let none = server.json("POST", "/api/v1/namespaces/none/configmaps", map("a")).await;
    refused(none, 404, "NotFound", "namespaces \"none\" not found");
}
