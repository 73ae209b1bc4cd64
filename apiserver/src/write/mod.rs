//! Write requests: create, update, patch, apply, delete, and subresources.
//!
//! All writes share one pipeline: parse the body or apply the patch, set defaults, mutating admission, prepare,
//! update managed fields, validate, validating admission, commit. A conflicting write is retried, unless the client
//! specified a revision.

mod binding;
pub(crate) mod body;
mod commit;
mod delete;
mod eviction;
mod object_meta;
mod options;
mod patch;
mod propagation;
mod scale;
mod subresource_strategy;
mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::strategy::{Cause, Json};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use jiff::Timestamp;

use self::body::Sent;
#[cfg(test)]
use self::commit::tree;
use self::commit::{WriteOrigin, Written};
pub(crate) use self::object_meta::mark_deleted;
use self::options::Options;
pub(crate) use self::scale::scale;
pub(crate) use self::subresource_strategy::{
    approval, ephemeral_containers, finalizers, finished, resources,
};
use self::target::WriteTarget;
use crate::admission::{self, Admission};
use crate::compute_pool::Deadline;
use crate::identity::Identity;
use crate::registry::{self, Registry};
use crate::represent;
use crate::request::Objects;
use crate::resource::{Part, Resource, Subresource};
use crate::status::Status;
use crate::watch_cache::Object;

/// Maximum number of attempts of a conflicting write, as in kube-apiserver.
const MAX_ATTEMPTS: usize = 5;
/// Maximum number of attempts to generate a free name, as in kube-apiserver.
const MAX_NAME_ATTEMPTS: usize = 8;
/// Maximum length of a name in bytes. It is that of a DNS subdomain, and few kinds have longer names.
const NAME_MAX: usize = 253;
/// Field manager of objects that the control plane creates.
const MASTER: &str = "master";

/// The registry and the admission plugins of a write.
#[derive(Clone, Copy)]
pub(crate) struct WriteContext<'a> {
    pub registry: &'a Registry,
    pub admission: &'a [Arc<dyn Admission>],
}

/// A write request: its target, options and user.
struct Write<'a> {
    context: WriteContext<'a>,
    resource: &'a Resource,
    /// The subresource, if any.
    subresource: Option<&'a Subresource>,
    namespace: Option<&'a str>,
    options: Options,
    manager: String,
    user: Identity,
    now: Timestamp,
    /// The deadline of the computation. Nothing is committed after it.
    deadline: Deadline,
}

/// Handles a write request whose body has been read.
///
/// # Errors
/// If the request is invalid, or the storage returns an error.
pub(crate) async fn answer(
    context: WriteContext<'_>,
    resource: &Resource,
    objects: &Objects,
    parts: &Parts,
    bytes: &[u8],
    deadline: Deadline,
) -> Result<Response, Status> {
    let media_type = body::media_type(&parts.headers);
    let options = Options::parse(&parts.uri, &parts.method, media_type)?;
    let user = parts.extensions.get().cloned().unwrap_or_else(Identity::anonymous);
    let rows = context.registry.rows();
    let target = WriteTarget::of(&rows, resource, objects)?;
    let name = objects.name.as_deref();
    if !target.allows(&parts.method, name.is_some()) {
        return Err(Status::no_such_method());
    }
    let agent =
        parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let write = Write {
        context,
        resource: target.resource,
        subresource: target.part,
        namespace: objects.namespace.as_deref(),
        manager: api::apply::manager_of(options.field_manager.as_deref(), agent),
        options,
        user,
        now: Timestamp::now(),
        deadline,
    };
    match (&parts.method, name, target.part.map(|part| &part.part)) {
        (&Method::POST, name, Some(Part::Binding)) => write.bind(name, media_type, bytes).await,
        (&Method::POST, Some(name), Some(Part::Eviction)) => write.evict(name, media_type, bytes).await,
        (_, _, Some(Part::Binding | Part::Eviction | Part::Elsewhere | Part::Stream)) => {
            Err(Status::no_such_method())
        }
        (method @ (&Method::PUT | &Method::PATCH), Some(name), Some(Part::Scale(replicas))) => {
            write.scale(method, name, replicas, media_type, bytes).await
        }
        (&Method::POST, None, None) => write.create(media_type, bytes).await,
        (&Method::DELETE, None, None) => write.delete_all(&parts.uri, media_type, bytes).await,
        (&Method::PUT, Some(name), _) => write.update(name, media_type, bytes).await,
        (&Method::PATCH, Some(name), _) => write.patch(name, media_type, bytes).await,
        (&Method::DELETE, Some(name), None) => write.delete(name, media_type, bytes).await,
        _ => Err(Status::no_such_method()),
    }
}

/// Creates a cluster-scoped object in the name of the server, unless the object exists.
///
/// # Errors
/// If the object is invalid, or the storage returns an error.
pub async fn ensure(registry: &Registry, plural: &str, object: Json) -> Result<(), Status> {
    let rows = registry.rows();
    let resource = rows.all().iter().find(|resource| resource.plural == plural);
    let write = Write {
        context: WriteContext { registry, admission: &[] },
        resource: resource.ok_or_else(Status::no_such_path)?,
        subresource: None,
        namespace: None,
        options: Options::default(),
        manager: MASTER.to_owned(),
        user: Identity::server(),
        now: Timestamp::now(),
        deadline: Deadline::default(),
    };
    if write.find(object_meta::text(&object, "name")).is_some() {
        return Ok(());
    }
    write.make(Sent::decided(object)).await.map(drop)
}

impl Write<'_> {
    async fn create(&self, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        let written = self.make(self.read(media_type, bytes)?).await?;
        Ok(written.response(StatusCode::CREATED))
    }

    /// Creates an object. If a generated name is taken, it retries with another one.
    async fn make(&self, sent: Sent) -> Result<Written, Status> {
        let text = |field: &str| object_meta::text(&sent.object, field).to_owned();
        let (name, prefix) = (text("name"), text("generateName"));
        if !name.is_empty() {
            let written = self.commit_new(sent, WriteOrigin::Update).await?;
            return written.ok_or_else(|| Status::already_exists(self.resource, &name));
        }
        for _ in 0..MAX_NAME_ATTEMPTS {
            if let Some(written) = self.commit_new(sent.clone(), WriteOrigin::Update).await? {
                return Ok(written);
            }
        }
        Err(Status::already_exists(self.resource, &prefix))
    }

    async fn update(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        let sent = self.read(media_type, bytes)?;
        if self.resource.creates_on_update && self.subresource.is_none() && self.find(name).is_none() {
            let mut sent = sent.clone();
            object_meta::created_by_update(self.resource, &mut sent.object, name)?;
            if let Some(written) = self.commit_new(sent, WriteOrigin::Update).await? {
                return Ok(written.response(StatusCode::CREATED));
            }
            // Created concurrently: update it.
        }
        let is_pinned = !object_meta::text(&sent.object, "resourceVersion").is_empty();
        let written = self.change(name, is_pinned, |_, _| Ok(sent.clone())).await?;
        Ok(written.response(StatusCode::OK))
    }

    /// Updates the stored object with `decide`, which gets the object decoded without managed fields and as it is
    /// stored. Retries on conflicts, unless the client specified a revision.
    async fn change(
        &self,
        name: &str,
        is_pinned: bool,
        decide: impl Fn(&Json, &Object) -> Result<Sent, Status>,
    ) -> Result<Written, Status> {
        for _ in 0..MAX_ATTEMPTS {
            self.deadline.check()?;
            let before = self.get(name)?;
            let old = self.resource.tree_without_managed_fields(&before);
            let sent = decide(&old, &before)?;
            if let Some(written) = self.commit_over(&before, &old, sent, WriteOrigin::Update).await? {
                return Ok(written);
            }
            if is_pinned {
                break;
            }
        }
        Err(Status::changed(self.resource, name))
    }

    fn read(&self, media_type: &str, bytes: &[u8]) -> Result<Sent, Status> {
        let document = body::read(media_type, bytes)?;
        let mut sent = body::object(document, self.resource, self.options.validation)?;
        body::check_types(&mut sent, self.resource)?;
        Ok(sent)
    }

    fn find(&self, name: &str) -> Option<Object> {
        let namespace = self.namespace.unwrap_or_default();
        self.context.registry.cache().get(self.resource.stored(), namespace, name)
    }

    fn get(&self, name: &str) -> Result<Object, Status> {
        let missing = || Status::not_found(&self.resource.qualified().to_string(), name);
        self.find(name).ok_or_else(missing)
    }

    fn failed(&self, name: &str, error: &registry::Error) -> Status {
        match error {
            registry::Error::Exists => Status::already_exists(self.resource, name),
            registry::Error::Changed => Status::changed(self.resource, name),
            registry::Error::NamespaceTerminating => {
                admission::terminating(self.resource, name, self.namespace.unwrap_or_default())
            }
            registry::Error::TooLarge { .. } => Status::object_too_large(error),
            registry::Error::Store(error) => error.as_ref().into(),
        }
    }
}

/// Rejects names that cannot be path segments or storage keys.
fn check_name(resource: &Resource, name: &str) -> Result<(), Status> {
    let wrong = |why: &str| Cause::invalid("metadata.name", format!("\"{name}\""), why);
    let cause = match name {
        "." | ".." => wrong(&format!("may not be '{name}'")),
        _ if name.contains(['/', '%']) => wrong("may not contain '/' or '%'"),
        _ if name.len() > NAME_MAX => wrong(&format!("must be no more than {NAME_MAX} bytes")),
        _ => return Ok(()),
    };
    Err(Status::invalid(resource, name, &[cause]))
}

fn response(code: StatusCode, body: impl Into<Vec<u8>>, warnings: &[String]) -> Response {
    let mut response = (code, represent::json("application/json", body)).into_response();
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
