//! What is true of the store in a file, beside the contract of every store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod backups;
mod codec;
mod disk;
mod faults;
mod files;
mod kills;
mod medium;
mod power;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Embedded;
use crate::storage::tests::contract;
use crate::storage::{Limits, Store};

#[tokio::test]
async fn embedded_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let number = AtomicUsize::new(0);
    contract::contract(async |limits: Limits| {
        let path = directory.path().join(number.fetch_add(1, Ordering::Relaxed).to_string());
        Arc::new(Embedded::open(path, limits).await.unwrap()) as Arc<dyn Store>
    })
    .await;
}

async fn open(directory: &Path) -> Embedded {
    Embedded::open(directory, Limits::default()).await.unwrap()
}
