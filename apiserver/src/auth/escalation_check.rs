//! Admission plugin that prevents privilege escalation: by writing RBAC objects, and by creating objects through
//! update or apply.

use std::sync::Arc;

use async_trait::async_trait;

use super::rbac::Kind;
use super::rbac::index::RBAC;
use super::{Attributes, Auth, ResourceAttributes};
use crate::admission::{Admission, AdmissionRequest, Operation};
use crate::status::Status;

/// Rejects writes that would grant a user more permissions than the user has.
#[derive(Debug)]
pub struct EscalationCheck {
    auth: Arc<Auth>,
}

impl EscalationCheck {
    /// Creates the plugin, which decides by the roles that `auth` knows.
    pub fn new(auth: Arc<Auth>) -> Arc<Self> {
        Arc::new(Self { auth })
    }
}

#[async_trait]
impl Admission for EscalationCheck {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_write = matches!(attempt.operation, Operation::Create | Operation::Update);
        if !is_write || attempt.subresource.is_some() {
            return Ok(());
        }
        let resource = attempt.resource;
        if attempt.operation == Operation::Create {
            let on = ResourceAttributes {
                group: resource.group.to_string(),
                version: resource.version.to_string(),
                resource: resource.plural.to_string(),
                name: attempt.name.to_owned(),
                namespace: attempt.namespace.unwrap_or_default().to_owned(),
                ..ResourceAttributes::default()
            };
            self.auth.check(attempt.user, &Attributes::on("create", on))?;
        }
        match Kind::of_plural(&resource.plural).filter(|_| resource.group == RBAC) {
            Some(kind) => {
                self.auth.authorizer().check_escalation(attempt.user, kind, attempt.old, &attempt.object)
            }
            None => Ok(()),
        }
    }
}
