//! Admission plugin `NamespaceLifecycle`: rejects creates in missing or terminating namespaces, and deletes
//! of system namespaces.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::{Admission, AdmissionRequest, Operation};
use crate::registry::Registry;
use crate::resource::Resource;
use crate::status::Status;

/// Storage name of namespaces.
const NAMESPACES: &str = "namespaces";
/// Namespaces that cannot be deleted, as in kube-apiserver.
const SYSTEM_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The admission plugin `NamespaceLifecycle` of kube-apiserver.
pub struct NamespaceLifecycle {
    registry: Arc<Registry>,
}

impl NamespaceLifecycle {
    /// Creates the plugin, which reads namespaces from `registry`.
    pub fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Self { registry })
    }

    async fn check(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let Some(namespace) = attempt.namespace else { return Ok(()) };
        // Evictions create no object, and existing objects may always be updated.
        if attempt.operation != Operation::Create || attempt.subresource.is_some() {
            return Ok(());
        }
        // Reads through to the storage: another API server may have created the namespace a moment ago.
        match self.registry.read(NAMESPACES, "", namespace).await {
            Ok(Some(found)) if found.is_terminating() => {
                Err(terminating(attempt.resource, attempt.name, namespace))
            }
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Status::not_found(NAMESPACES, namespace)),
            Err(error) => Err((&error).into()),
        }
    }
}

#[async_trait]
impl Admission for NamespaceLifecycle {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_removal = attempt.operation == Operation::Delete;
        if attempt.is_of(NAMESPACES) && is_removal && SYSTEM_NAMESPACES.contains(&attempt.name) {
            return Err(Status::forbidden(NAMESPACES, attempt.name, "this namespace may not be deleted"));
        }
        self.check(attempt).await
    }
}

/// Repeats the namespace check of [`NamespaceLifecycle`] as the last validating plugin, after plugins that may take
/// long.
pub struct NamespaceRecheck(pub Arc<NamespaceLifecycle>);

#[async_trait]
impl Admission for NamespaceRecheck {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        self.0.check(attempt).await
    }
}

/// The error for a create in a terminating namespace.
pub(crate) fn terminating(resource: &Resource, name: &str, namespace: &str) -> Status {
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
