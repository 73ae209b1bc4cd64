//! The target of a write: a resource or a subresource.

use api::strategy::Part;
use http::Method;

use super::Write;
use crate::catalog::Rows;
use crate::request::Objects;
use crate::resource::{self, Resource, Subresource, UpdateFields};
use crate::status::Status;

/// A resource, and a subresource if the write has one.
#[derive(Clone, Copy)]
pub(super) struct WriteTarget<'a> {
    pub resource: &'a Resource,
    pub part: Option<&'a Subresource>,
}

impl<'a> WriteTarget<'a> {
    /// Finds the target of a path.
    ///
    /// # Errors
    /// 404 for an unknown subresource.
    pub fn of(rows: &'a Rows, served: &'a Resource, objects: &Objects) -> Result<Self, Status> {
        let part = |resource: &'a Resource, name: &str| {
            let part = Some(resource.subresource(name).ok_or_else(Status::no_such_path)?);
            Ok(Self { resource, part })
        };
        match (&objects.name, objects.subresource.as_deref(), served.creates_subresource) {
            (_, Some(name), _) => part(served, name),
            // Virtual resource: the body names the object.
            (None, None, Some((plural, name))) => {
                let row = rows.find(&served.group, &served.version, plural);
                part(row.ok_or_else(Status::no_such_path)?, name)
            }
            (_, None, _) => Ok(Self { resource: served, part: None }),
        }
    }

    /// Whether the target supports the method.
    pub fn allows(&self, method: &Method, is_named: bool) -> bool {
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if !is_named => "deletecollection",
            Method::DELETE => "delete",
            _ => return false,
        };
        self.part.map_or(self.resource.verbs, |part| part.verbs).contains(&verb)
    }
}

impl<'a> Write<'a> {
    /// The subresource, as the strategy knows it.
    pub(super) fn part(&self) -> Part<'a> {
        use resource::Part as To;
        match self.subresource.map(|of| (of.name, &of.part)) {
            Some((_, To::Status)) => Part::Status,
            Some((name, To::Fields(_) | To::Binding | To::Eviction)) => Part::Sub(name),
            // A scale update changes the main object.
            Some((_, To::Scale(_) | To::Elsewhere | To::Stream)) | None => Part::Main,
        }
    }

    /// The function that merges the fields which the subresource may change, or `None` if it is not restricted.
    pub(super) fn update_fields(&self) -> Option<UpdateFields> {
        match self.subresource?.part {
            resource::Part::Fields(update_fields) => Some(update_fields),
            _ => None,
        }
    }
}
