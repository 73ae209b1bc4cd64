//! Nothing is made in a namespace that is not there or on its way out, and some namespaces stay.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::{Admission, Attempt, Operation};
use crate::registry::Registry;
use crate::resource::Resource;
use crate::status::Status;

/// The name of namespaces in the store.
const NAMESPACES: &str = "namespaces";
/// Namespaces that no cluster is without; the stock server's.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The life of namespaces; the stock server's `NamespaceLifecycle`.
pub struct Namespaces {
    registry: Arc<Registry>,
}

impl Namespaces {
    /// Looks at the namespaces of that registry.
    pub fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Self { registry })
    }

    async fn check(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let Some(namespace) = attempt.namespace else { return Ok(()) };
        // An eviction makes nothing, and what is there may always be changed.
        if attempt.operation != Operation::Create || attempt.subresource.is_some() {
            return Ok(());
        }
        // Another server may have made it a moment ago.
        match self.registry.read(NAMESPACES, "", namespace).await {
            Ok(Some(found)) if found.is_doomed() => Err(ending(attempt.resource, attempt.name, namespace)),
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Status::not_found(NAMESPACES, namespace)),
            Err(error) => Err((&error).into()),
        }
    }
}

#[async_trait]
impl Admission for Namespaces {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let is_removal = attempt.operation == Operation::Delete;
        if attempt.is_of(NAMESPACES) && is_removal && IMMORTAL.contains(&attempt.name) {
            return Err(Status::forbidden(NAMESPACES, attempt.name, "this namespace may not be deleted"));
        }
        self.check(attempt).await
    }
}

/// Looks at the namespace once more: the last to validate, behind those that take their time.
pub struct StillThere(pub Arc<Namespaces>);

#[async_trait]
impl Admission for StillThere {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        self.0.check(attempt).await
    }
}

/// That nothing more is made in a namespace.
pub(crate) fn ending(resource: &Resource, name: &str, namespace: &str) -> Status {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(&resource.qualified().to_string(), name, &why);
    if let Some(details) = &mut status.details {
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
    }
    status
}
