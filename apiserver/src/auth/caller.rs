//! Who writes an object, for decisions that need the object: what a request alone does not show.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::rbac::Kind;
use super::rbac::index::RBAC;
use super::{Attributes, Auth, ResourceAttributes};
use crate::identity::Identity;
use crate::request::Objects;
use crate::status::Status;

/// Whoever has passed the guard; stands in the extensions of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(super) who: Identity,
    pub(super) auth: Arc<Auth>,
}

impl Caller {
    /// Refuses a role or a binding that gives what its writer does not have.
    ///
    /// # Errors
    /// 403 with what is missing.
    pub fn check_grant(
        &self,
        group: &str,
        plural: &str,
        before: Option<&Map<String, Value>>,
        object: &Map<String, Value>,
    ) -> Result<(), Status> {
        match Kind::of_plural(plural).filter(|_| group == RBAC) {
            Some(kind) => self.auth.authorizer.check_grant(&self.who, kind, before, object),
            None => Ok(()),
        }
    }

    /// Refuses an update or a patch that makes the object when the caller may not create it.
    ///
    /// # Errors
    /// 403.
    pub fn check_create(&self, objects: &Objects) -> Result<(), Status> {
        let on = ResourceAttributes {
            group: objects.group.clone(),
            version: objects.version.clone(),
            resource: objects.plural.clone(),
            name: objects.name.clone().unwrap_or_default(),
            namespace: objects.namespace.clone().unwrap_or_default(),
            subresource: String::new(),
        };
        self.auth.check(&self.who, &Attributes::on("create", on))
    }
}
