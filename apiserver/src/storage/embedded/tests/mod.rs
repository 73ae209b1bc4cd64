//! Tests of the embedded store beyond the contract.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod backups;
mod codec;
mod disk;
mod faults;
mod files;
mod kills;
mod late;
mod medium;
mod power;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::FutureExt;
use proptest::prelude::*;

use self::disk::Disk;
use super::Embedded;
use crate::storage::tests::contract;
use crate::storage::tests::decide::{is_a_map_with_a_counter, steps};
use crate::storage::{Limits, Store, Transaction};

#[tokio::test]
async fn embedded_store_fulfils_the_storage_contract() {
    let directory = tempfile::tempdir().unwrap();
    let number = AtomicUsize::new(0);
    contract::contract(async |limits: Limits| {
        let path = directory.path().join(number.fetch_add(1, Ordering::Relaxed).to_string());
        Arc::new(Embedded::open(path, limits).await.unwrap()) as Arc<dyn Store>
    })
    .await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn embedded_is_a_map_with_a_counter(steps in steps()) {
        is_a_map_with_a_counter(&Disk::with_store().open().unwrap(), &steps)?;
    }
}

#[tokio::test]
async fn a_commit_whose_caller_is_gone_is_applied_in_order() {
    let store = Disk::with_store().open().unwrap();
    let impatient = store.commit(Transaction::create("/a", Bytes::new()));
    // Cancelled at once, whether or not the writer was faster.
    drop(impatient.now_or_never());
    assert_eq!(contract::put(&store, "/b", "x").await, 3);
    assert_eq!(contract::values(&store, "/").await, ["/a=", "/b=x"]);
}

/// Number of power failure histories; `CORACLE_SEEDS` raises it.
const SEEDS: u64 = 3;

fn seeds() -> u64 {
    std::env::var("CORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

async fn open(directory: &Path) -> Embedded {
    Embedded::open(directory, Limits::default()).await.unwrap()
}
