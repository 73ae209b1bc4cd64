//! Concurrent writes, of which one is canceled.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use apiserver::{Catalog, kinds, storage};
use futures_util::FutureExt as _;
use serde_json::Map;

use super::*;

#[tokio::test]
async fn who_decides_for_all_may_go_away() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": {"secrets": "3"}}, "status": {"hard": {"secrets": "3"}, "used": {"secrets": "0"}},
    });
    let row = registry.rows().find("", "v1", QUOTAS).unwrap().clone();
    registry.create(&row, quota.as_object().unwrap()).await.unwrap();
    let quotas = ResourceQuota::new(registry);
    let request = || QuotaRequest {
        resource: "secrets".to_owned(),
        object: Map::new(),
        usage: quota::usage("secrets", &Map::new(), Timestamp::UNIX_EPOCH),
        old: None,
    };
    let mut first = Box::pin(quotas.reserve("shop", request()));
    let mut second = Box::pin(quotas.reserve("shop", request()));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    // Both requests have left the queue before the first one is canceled.
    while !quotas.evaluator.shards.iter().all(|shard| shard.waiting.lock().unwrap().is_empty()) {
        tokio::task::yield_now().await;
    }
    drop(first);
    second.await.unwrap();
    quotas.reserve("shop", request()).await.unwrap();
    let refused = quotas.reserve("shop", request()).await;
    assert!(matches!(refused, Err(QuotaError::Exceeded(_))), "{refused:?}");
}
