//! Admission plugin that rejects creates of custom resources whose definition is terminating.

use std::sync::Arc;

use api::crd;
use async_trait::async_trait;

use super::DEFINITIONS;
use crate::admission::{Admission, AdmissionRequest, Operation};
use crate::registry::Registry;
use crate::status::Status;

/// Rejects new objects of definitions that are terminating.
pub struct Definitions {
    registry: Arc<Registry>,
}

impl Definitions {
    /// Creates the plugin, which reads definitions from the registry.
    pub fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Self { registry })
    }
}

#[async_trait]
impl Admission for Definitions {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        // Built-in kinds, which are most of the writes, have no definition.
        if attempt.operation != Operation::Create || attempt.resource.schema.is_none() {
            return Ok(());
        }
        let definition = self.registry.cache().get(DEFINITIONS, "", attempt.resource.stored());
        if definition.is_some_and(|definition| crd::is_terminating(&definition.decode())) {
            let what = "create not allowed while custom resource definition is terminating";
            return Err(Status::method_not_allowed(what));
        }
        Ok(())
    }
}
