//! What is true of the store on a disk, beside the contract of every store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use super::Embedded;
use crate::storage::tests::contract;
use crate::storage::{Limits, Store};

#[tokio::test]
async fn embedded_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let counter = std::sync::atomic::AtomicUsize::new(0);
    contract::contract(async |limits: Limits| {
        let number = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = directory.path().join(number.to_string());
        Arc::new(Embedded::open(path, limits).await.unwrap()) as Arc<dyn Store>
    })
    .await;
}
