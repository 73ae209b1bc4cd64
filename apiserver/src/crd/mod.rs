//! Custom resources: each served version of a CustomResourceDefinition becomes a row of the catalog.
//!
//! `api::crd` parses and validates definitions; this module serves them. A change of a definition, or of an object
//! of a terminating one, triggers a reconciliation.

mod controller;
mod finalizer;
mod row;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::crd::is_terminating;
use async_trait::async_trait;

pub use self::controller::start;
use crate::admission::{Admission, AdmissionRequest, Operation};
use crate::registry::Registry;
use crate::status::Status;

/// Storage name of definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Admission plugin that rejects new objects of definitions that are terminating.
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
        if definition.is_some_and(|definition| is_terminating(&definition.decode())) {
            let what = "create not allowed while custom resource definition is terminating";
            return Err(Status::method_not_allowed(what));
        }
        Ok(())
    }
}
