//! What a request alone does not show: whether its writer holds what a role gives, and may make what a patch would make.

use std::sync::Arc;

use async_trait::async_trait;

use super::rbac::Kind;
use super::rbac::index::RBAC;
use super::{Attributes, Auth, ResourceAttributes};
use crate::admission::{Admission, Attempt, Operation};
use crate::status::Status;

/// Refuses writes that give more than their writer has.
#[derive(Debug)]
pub struct Grants {
    auth: Arc<Auth>,
}

impl Grants {
    /// Decides by these roles.
    pub fn new(auth: Arc<Auth>) -> Arc<Self> {
        Arc::new(Self { auth })
    }
}

#[async_trait]
impl Admission for Grants {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
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
                self.auth.authorizer().check_grant(attempt.user, kind, attempt.old, &attempt.object)
            }
            None => Ok(()),
        }
    }
}
