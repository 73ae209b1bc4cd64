//! What a request writes: objects of a resource, or a part of one.

use api::strategy::Part;
use http::Method;

use super::Write;
use crate::catalog::Rows;
use crate::request::Objects;
use crate::resource::{self, Pick, Resource, Subresource};
use crate::status::Status;

/// A resource, and the part of its objects if it is one.
#[derive(Clone, Copy)]
pub(super) struct Aim<'a> {
    pub resource: &'a Resource,
    pub part: Option<&'a Subresource>,
}

impl<'a> Aim<'a> {
    /// What a path names that leads to a resource.
    ///
    /// # Errors
    /// 404 for a part that its objects do not have.
    pub fn of(rows: &'a Rows, served: &'a Resource, objects: &Objects) -> Result<Self, Status> {
        let part = |resource: &'a Resource, name: &str| {
            let part = Some(resource.subresource(name).ok_or_else(Status::no_such_path)?);
            Ok(Self { resource, part })
        };
        match (&objects.name, objects.subresource.as_deref(), served.made_as) {
            (_, Some(name), _) => part(served, name),
            // What is made here is a part of an object that it names itself.
            (None, None, Some((plural, name))) => {
                let row = rows.find(&served.group, &served.version, plural);
                part(row.ok_or_else(Status::no_such_path)?, name)
            }
            (_, None, _) => Ok(Self { resource: served, part: None }),
        }
    }

    /// True when the method may be used here.
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
    /// The part of the object, as the kind's strategy knows it.
    pub(super) fn part(&self) -> Part<'a> {
        use resource::Part as To;
        match self.subresource.map(|of| (of.name, &of.part)) {
            Some((_, To::Status)) => Part::Status,
            Some((name, To::Fields(_) | To::Binding | To::Eviction)) => Part::Sub(name),
            // A scale is written by its numbers alone, which are of the object itself.
            Some((_, To::Scale(_) | To::Elsewhere | To::Stream)) | None => Part::Main,
        }
    }

    /// What the part may change, where it is one of some fields.
    pub(super) fn pick(&self) -> Option<Pick> {
        match self.subresource?.part {
            resource::Part::Fields(pick) => Some(pick),
            _ => None,
        }
    }
}
