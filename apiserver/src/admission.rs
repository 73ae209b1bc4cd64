//! Admission plugins: mutate a write request, then validate it.
//!
//! [`crate::Api::writable`] takes an ordered list of plugins. All plugins mutate in order, then the strategy
//! of the kind validates, then all plugins validate the resulting object in the same order.

mod namespace_lifecycle;
mod nesting;
mod object;
mod service_ips;

use std::sync::{Mutex, PoisonError};

use api::strategy::Json;
use async_trait::async_trait;

pub(crate) use self::namespace_lifecycle::terminating;
pub use self::namespace_lifecycle::{NamespaceLifecycle, NamespaceRecheck};
pub use self::nesting::NestingLimit;
pub use self::object::AdmissionObject;
pub use self::service_ips::{ServiceIpAllocator, ServiceRange, services_outside_ranges};
use crate::identity::Identity;
use crate::resource::Resource;
use crate::status::Status;

/// Operation of a write request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object.
    Create,
    /// Updates an object.
    Update,
    /// Deletes an object.
    Delete,
    /// Opens a connection through an object: exec, attach, port-forward, proxy.
    Connect,
}

impl Operation {
    /// The name of the operation in admission webhooks and policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write request that passes admission.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// The operation of the request.
    pub operation: Operation,
    /// The resource of the object.
    pub resource: &'a Resource,
    /// The subresource, if the request targets one.
    pub subresource: Option<&'a str>,
    /// The namespace, or `None` for cluster-scoped resources.
    pub namespace: Option<&'a str>,
    /// Name of the object; empty for a delete of a collection.
    pub name: &'a str,
    /// The object to be written, or the body sent to the subresource; empty for a delete.
    pub object: AdmissionObject,
    /// The stored object.
    pub old: Option<&'a Json>,
    /// `metadata.managedFields` as JSON, of the new and of the stored object. Empty if the object itself contains
    /// them or they are absent.
    pub managed_fields: (&'a [u8], &'a [u8]),
    /// The user that sends the request.
    pub user: &'a Identity,
    /// True for a dry run, whose result is not stored.
    pub dry_run: bool,
    /// Warnings returned to the client in `Warning` headers.
    pub warnings: Warnings,
}

/// Warnings for the client, collected from mutating and validating plugins.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds a warning.
    pub fn push(&self, warning: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// All warnings, in the order they were added.
    pub fn into_vec(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdmissionRequest<'_> {
    /// True if the request is for this resource (`pods`, `deployments.apps`) in any version.
    pub fn is_of(&self, qualified: &str) -> bool {
        self.resource.stored() == qualified
    }
}

/// An admission plugin. The default implementation admits every request.
#[async_trait]
pub trait Admission: Send + Sync {
    /// Mutates the object, or rejects it.
    ///
    /// # Errors
    /// If the plugin rejects the request. The error is the reason.
    async fn mutate(&self, _attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Validates the object.
    ///
    /// # Errors
    /// If the plugin rejects the request. The error is the reason.
    async fn validate(&self, _attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Whether the stored object is only a placeholder for the object that this user creates. If so, the new object
    /// replaces the placeholder, and the create still returns 201.
    fn is_placeholder(&self, _resource: &Resource, _there: &Json, _user: &Identity) -> bool {
        false
    }
}
