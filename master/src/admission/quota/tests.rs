//! Writes that wait for each other, of which one is given up.
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
    let quotas = ResourceQuotas::new(registry);
    let ask = || Ask {
        resource: "secrets".to_owned(),
        object: Map::new(),
        usage: quota::usage("secrets", &Map::new(), Timestamp::UNIX_EPOCH),
        old: None,
    };
    let mut first = Box::pin(quotas.reserve("shop", ask()));
    let mut second = Box::pin(quotas.reserve("shop", ask()));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    // Both have been taken out of the line by the time that whoever was first goes.
    while !quotas.desk.lines.iter().all(|line| line.waiting.lock().unwrap().is_empty()) {
        tokio::task::yield_now().await;
    }
    drop(first);
    second.await.unwrap();
    quotas.reserve("shop", ask()).await.unwrap();
    let refused = quotas.reserve("shop", ask()).await;
    assert!(matches!(refused, Err(Refused::Exceeded(_))), "{refused:?}");
}
