//! No new objects of a kind whose definition is being deleted: they would be deleted next.

use std::sync::Arc;

use api::crd;
use async_trait::async_trait;

use super::DEFINITIONS;
use crate::admission::{Admission, Attempt, Operation};
use crate::registry::Registry;
use crate::status::Status;

/// Refuses new objects of kinds that are on their way out.
pub struct Definitions {
    registry: Arc<Registry>,
}

impl Definitions {
    /// Reads the definitions there.
    pub fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Self { registry })
    }
}

#[async_trait]
impl Admission for Definitions {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        // Built-in kinds have no definition and are most of what is written.
        if attempt.operation != Operation::Create || attempt.resource.schema.is_none() {
            return Ok(());
        }
        let definition = self.registry.cache().get(DEFINITIONS, "", attempt.resource.stored());
        if definition.is_some_and(|definition| crd::is_doomed(&definition.decode())) {
            let what = "create not allowed while custom resource definition is terminating";
            return Err(Status::method_not_allowed(what));
        }
        Ok(())
    }
}
