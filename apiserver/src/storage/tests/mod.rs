//! Tests of all stores and of shared code.

pub(super) mod contract;
pub(super) mod decide;
mod history;
mod late;

use std::sync::Arc;

use super::{Limits, Memory};

#[tokio::test]
async fn memory_keeps_the_contract() {
    contract::contract(async |limits: Limits| Arc::new(Memory::new(limits)) as Arc<dyn super::Store>).await;
}
