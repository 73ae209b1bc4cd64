//! Writes: an object is read from what a client sends, completed, checked, and written over what was there.
//!
//! Every write goes one way, whatever it was asked with: the body is read, or the patch carried out; the kind's defaults are
//! filled in and admission completes the object; the kind prepares it; who owns which field is noted; the kind and
//! admission check it; it is committed. A write that somebody else came before is decided anew, unless the client said
//! on what revision it is to be made.

mod aim;
mod binding;
pub(crate) mod body;
mod commit;
mod delete;
mod eviction;
mod meta;
mod options;
mod patch;
mod pick;
mod scale;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::strategy::{Cause, Json};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, Request, StatusCode, header};
use jiff::Timestamp;

use self::aim::Aim;
use self::body::Sent;
#[cfg(test)]
use self::commit::tree;
use self::commit::{By, Written};
pub(crate) use self::meta::doomed;
use self::options::Options;
pub(crate) use self::pick::{approval, ephemeral_containers, finalizers, finished, resources};
pub(crate) use self::scale::scale;
use crate::admission::{self, Admission};
use crate::identity::Identity;
use crate::registry::{self, Registry};
use crate::request::Objects;
use crate::resource::{Part, Resource, Subresource};
use crate::status::Status;
use crate::store::Object;

/// How often a write is decided anew because somebody else came before it; the stock server's.
const TRIES: usize = 5;
/// How often a name is made up anew because there is an object of that name; the stock server's.
const NAMES: usize = 8;
/// Bytes of the longest name: a DNS subdomain's, which hardly any kind goes beyond and no key of a store needs to.
const NAME_MAX: usize = 253;
/// The field manager of what a master makes by itself.
const MASTER: &str = "master";

/// Where writes are made, and what they have to pass.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub registry: &'a Registry,
    pub admission: &'a [Arc<dyn Admission>],
}

/// A write of one resource.
struct Write<'a> {
    desk: Desk<'a>,
    resource: &'a Resource,
    /// The part of the object, where one is written.
    subresource: Option<&'a Subresource>,
    namespace: Option<&'a str>,
    options: Options,
    manager: String,
    user: Identity,
    now: Timestamp,
}

/// Answers a request that writes.
///
/// # Errors
/// What is wrong with the request, or with the store.
pub(crate) async fn answer(
    desk: Desk<'_>,
    resource: &Resource,
    objects: &Objects,
    request: Request<Body>,
) -> Result<Response, Status> {
    let (parts, body) = request.into_parts();
    let media_type = body::media_type(&parts.headers);
    let options = Options::parse(&parts.uri, &parts.method, media_type)?;
    let bytes = body::whole(body).await?;
    let rows = desk.registry.rows();
    let aim = Aim::of(&rows, resource, objects)?;
    let name = objects.name.as_deref();
    if !aim.allows(&parts.method, name.is_some()) {
        return Err(Status::no_such_method());
    }
    let agent =
        parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let write = Write {
        desk,
        resource: aim.resource,
        subresource: aim.part,
        namespace: objects.namespace.as_deref(),
        manager: api::apply::manager_of(options.field_manager.as_deref(), agent),
        options,
        user: parts.extensions.get().cloned().unwrap_or_else(Identity::anonymous),
        now: Timestamp::now(),
    };
    let bytes = bytes.as_ref();
    match (&parts.method, name, aim.part.map(|part| &part.part)) {
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

/// Creates an object of a resource that lies in no namespace, in the server's own name, unless there is one of that name.
///
/// # Errors
/// What is wrong with the object, or with the store.
pub async fn ensure(registry: &Registry, plural: &str, object: Json) -> Result<(), Status> {
    let rows = registry.rows();
    let resource = rows.all().iter().find(|resource| resource.plural == plural);
    let write = Write {
        desk: Desk { registry, admission: &[] },
        resource: resource.ok_or_else(Status::no_such_path)?,
        subresource: None,
        namespace: None,
        options: Options::default(),
        manager: MASTER.to_owned(),
        user: Identity::server(),
        now: Timestamp::now(),
    };
    if write.find(meta::text(&object, "name")).is_some() {
        return Ok(());
    }
    write.make(Sent::decided(object)).await.map(drop)
}

impl Write<'_> {
    async fn create(&self, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        let written = self.make(self.read(media_type, bytes)?).await?;
        Ok(written.response(StatusCode::CREATED))
    }

    /// Creates an object; a name that was to be made up is made up anew while there is an object of that name.
    async fn make(&self, sent: Sent) -> Result<Written, Status> {
        let text = |field: &str| meta::text(&sent.object, field).to_owned();
        let (name, prefix) = (text("name"), text("generateName"));
        if !name.is_empty() {
            let written = self.commit_new(sent, By::Update).await?;
            return written.ok_or_else(|| Status::already_exists(self.resource, &name));
        }
        for _ in 0..NAMES {
            if let Some(written) = self.commit_new(sent.clone(), By::Update).await? {
                return Ok(written);
            }
        }
        Err(Status::already_exists(self.resource, &prefix))
    }

    async fn update(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        let sent = self.read(media_type, bytes)?;
        if self.resource.made_by_update && self.subresource.is_none() && self.find(name).is_none() {
            let mut sent = sent.clone();
            meta::created_by_update(self.resource, &mut sent.object, name)?;
            if let Some(written) = self.commit_new(sent, By::Update).await? {
                return Ok(written.response(StatusCode::CREATED));
            }
            // Somebody else was quicker: it is there now.
        }
        let is_pinned = !meta::text(&sent.object, "resourceVersion").is_empty();
        let written = self.change(name, is_pinned, |_, _| Ok(sent.clone())).await?;
        Ok(written.response(StatusCode::OK))
    }

    /// Writes what `decide` makes of the object that is there, as a tree without its record and as it is stored, again when
    /// somebody else came before, unless the client has said which revision it means.
    async fn change(
        &self,
        name: &str,
        is_pinned: bool,
        decide: impl Fn(&Json, &Object) -> Result<Sent, Status>,
    ) -> Result<Written, Status> {
        for _ in 0..TRIES {
            let before = self.get(name)?;
            let old = self.resource.bare(&before);
            let sent = decide(&old, &before)?;
            if let Some(written) = self.commit_over(&before, &old, sent, By::Update).await? {
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
        self.desk.registry.cache().get(self.resource.stored(), namespace, name)
    }

    fn get(&self, name: &str) -> Result<Object, Status> {
        let missing = || Status::not_found(&self.resource.qualified().to_string(), name);
        self.find(name).ok_or_else(missing)
    }

    fn failed(&self, name: &str, error: &registry::Error) -> Status {
        match error {
            registry::Error::Exists => Status::already_exists(self.resource, name),
            registry::Error::Changed => Status::changed(self.resource, name),
            registry::Error::Ending => {
                admission::ending(self.resource, name, self.namespace.unwrap_or_default())
            }
            registry::Error::Store(error) => error.as_ref().into(),
        }
    }
}

/// Refuses a name that no object may have, whatever its kind: it has to keep its place in paths and keys.
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

fn response(code: StatusCode, body: impl Into<Body>, warnings: &[String]) -> Response {
    let mut response = (code, [(header::CONTENT_TYPE, "application/json")], body.into()).into_response();
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
