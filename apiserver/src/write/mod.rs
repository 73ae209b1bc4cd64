//! Writes: an object is read from what a client sends, prepared, and written over what was there.
//!
//! The order is that of the stock server: read the body, prepare the metadata, decide who owns which field, write. A
//! write that somebody else came before is decided anew, unless the client said on what revision it is to be made.

pub(crate) mod body;
mod delete;
mod meta;
mod options;
mod patch;
#[cfg(test)]
mod tests;

use api::apply::{Part as Owned, Writer, manager_of, track_update};
use axum::body::{Body, to_bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, Request, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use self::meta::{Fresh, Part};
use self::options::Options;
use crate::auth::Caller;
use crate::registry::{self, Registry};
use crate::request::Objects;
use crate::resource::Resource;
use crate::status::Status;
use crate::store::Object;

/// How often a write is decided anew because somebody else came before it; the stock server's.
const TRIES: usize = 5;
/// The letters of generated names: no vowels, so that no words come about; the stock server's.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The field manager of what a master makes by itself.
const MASTER: &str = "master";
/// How many of them are put after `generateName`.
const SUFFIX: usize = 5;

/// A write of one resource.
struct Write<'a> {
    registry: &'a Registry,
    resource: &'a Resource,
    objects: &'a Objects,
    options: Options,
    manager: String,
    /// Who writes; absent for the server itself, and where nobody is asked who he is.
    caller: Option<Caller>,
    now: Timestamp,
}

/// What was written.
struct Written {
    object: Map<String, Value>,
    is_new: bool,
}

/// Answers a request that writes.
///
/// # Errors
/// What is wrong with the request, or with the store.
pub(crate) async fn answer(
    registry: &Registry,
    resource: &Resource,
    objects: &Objects,
    request: Request<Body>,
) -> Result<Response, Status> {
    let (parts, body) = request.into_parts();
    let options = Options::parse(&parts.uri)?;
    let bytes = to_bytes(body, body::MAX_BYTES).await.map_err(|_| {
        let message = format!("Request entity too large: limit is {}", body::MAX_BYTES);
        Status::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    })?;
    let agent =
        parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let manager = manager_of(options.field_manager.as_deref(), agent);
    let media_type = body::media_type(&parts.headers);
    let caller = parts.extensions.get().cloned();
    let write = Write { registry, resource, objects, options, manager, caller, now: Timestamp::now() };
    match (&parts.method, &objects.name) {
        (&Method::POST, None) => write.create(media_type, &bytes).await,
        (&Method::PUT, Some(name)) => write.update(name, media_type, &bytes).await,
        (&Method::PATCH, Some(name)) => write.patch(name, media_type, &bytes).await,
        (&Method::DELETE, Some(name)) => write.delete(name, media_type, &bytes).await,
        _ => {
            Err(Status::method_not_allowed("the server does not allow this method on the requested resource"))
        }
    }
}

/// Creates an object of a resource that lies in no namespace, as a client would, unless there is one of that name.
///
/// # Errors
/// What is wrong with the object, or with the store.
pub async fn ensure(registry: &Registry, plural: &str, object: Map<String, Value>) -> Result<(), Status> {
    let resource = registry.resources().iter().find(|resource| resource.plural == plural);
    let resource = resource.ok_or_else(Status::no_such_path)?;
    let objects = Objects::default();
    let (options, manager) = (Options::default(), MASTER.to_owned());
    let now = Timestamp::now();
    let write = Write { registry, resource, objects: &objects, options, manager, caller: None, now };
    if write.find(meta::text(&object, "name")).is_some() {
        return Ok(());
    }
    write.create_object(object).await.map(drop)
}

impl Write<'_> {
    async fn create(&self, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        if self.objects.subresource.is_some() {
            return Err(Status::no_such_path());
        }
        let sent = body::object(body::document(media_type, bytes)?, self.resource, self.options.validation)?;
        let written = self.create_object(sent.object).await?;
        Ok(response(StatusCode::CREATED, &written.object, &sent.warnings))
    }

    async fn create_object(&self, mut object: Map<String, Value>) -> Result<Written, Status> {
        self.check_namespace()?;
        meta::created(self.resource, &mut object, self.objects.namespace.as_deref(), &fresh(self.now))?;
        let mut object = self.owned(None, object, Part::Main);
        let name = meta::text(&object, "name").to_owned();
        check_name(self.resource, &name)?;
        self.check_grant(None, &object)?;
        if self.options.dry_run {
            if self.find(&name).is_some() {
                return Err(Status::already_exists(self.resource, &name));
            }
        } else {
            let written = self.registry.create(self.resource, &object).await;
            object = written.map_err(|error| self.failed(&name, &error))?.decode();
        }
        Ok(Written { object, is_new: true })
    }

    async fn update(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        let part = self.part()?;
        let sent = body::object(body::document(media_type, bytes)?, self.resource, self.options.validation)?;
        let is_pinned = !meta::text(&sent.object, "resourceVersion").is_empty();
        let written = self.change(name, part, is_pinned, |_| Ok(sent.object.clone())).await?;
        Ok(response(StatusCode::OK, &written.object, &sent.warnings))
    }

    /// Writes what `decide` makes of the object that is there, again when somebody else came before, unless the client
    /// has said which revision it means.
    async fn change(
        &self,
        name: &str,
        part: Part,
        is_pinned: bool,
        decide: impl Fn(&Map<String, Value>) -> Result<Map<String, Value>, Status>,
    ) -> Result<Written, Status> {
        for _ in 0..TRIES {
            let before = self.get(name)?;
            let old = before.decode();
            let object = meta::updated(self.resource, &old, decide(&old)?, part)?;
            self.check_grant(Some(&old), &object)?;
            let object = self.owned(Some(&old), object, part);
            if self.options.dry_run {
                return Ok(Written { object, is_new: false });
            }
            if meta::is_doomed(&object) && meta::finalizers(&object).is_empty() && !delete::waits(&object) {
                match self.registry.delete(self.resource, &before).await {
                    Ok(()) => return Ok(Written { object, is_new: false }),
                    Err(registry::Error::Changed) if !is_pinned => continue,
                    Err(error) => return Err(self.failed(name, &error)),
                }
            }
            if object == old {
                return Ok(Written { object, is_new: false });
            }
            match self.registry.replace(self.resource, &before, &object).await {
                Ok(written) => return Ok(Written { object: written.decode(), is_new: false }),
                Err(registry::Error::Changed) if !is_pinned => {}
                Err(error) => return Err(self.failed(name, &error)),
            }
        }
        Err(Status::changed(self.resource, name))
    }

    /// Notes who owns what of an object as a client other than an applier has it.
    fn owned(
        &self,
        before: Option<&Map<String, Value>>,
        object: Map<String, Value>,
        part: Part,
    ) -> Map<String, Value> {
        let before = before.map(|before| Value::Object(before.clone()));
        let mut object = Value::Object(object);
        let api_version = self.resource.api_version();
        track_update(before.as_ref(), &mut object, &self.writer(&api_version, part));
        match object {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }

    fn writer<'a>(&'a self, api_version: &'a str, part: Part) -> Writer<'a> {
        Writer {
            manager: &self.manager,
            part: match part {
                Part::Status => Owned::Status,
                Part::Main if meta::has_status(self.resource) => Owned::Main,
                Part::Main => Owned::Whole,
            },
            api_version,
            shape: api::schema::shape(api_version, self.resource.kind),
            now: self.now,
        }
    }

    /// Nobody gives what he does not have.
    fn check_grant(
        &self,
        before: Option<&Map<String, Value>>,
        object: &Map<String, Value>,
    ) -> Result<(), Status> {
        let Some(caller) = &self.caller else { return Ok(()) };
        caller.check_grant(self.resource.group, self.resource.plural, before, object)
    }

    /// Nothing is made in a namespace that is not there, or that is on its way out.
    fn check_namespace(&self) -> Result<(), Status> {
        const NAMESPACES: &str = "namespaces";
        let Some(namespace) = &self.objects.namespace else { return Ok(()) };
        if !self.registry.resources().iter().any(|resource| resource.plural == NAMESPACES) {
            return Ok(());
        }
        match self.registry.cache().get(NAMESPACES, "", namespace) {
            None => Err(Status::not_found(NAMESPACES, namespace)),
            Some(found) if meta::is_doomed(&found.decode()) => {
                let why = format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                );
                Err(Status::forbidden(&self.resource.qualified().to_string(), "", &why))
            }
            Some(_) => Ok(()),
        }
    }

    fn part(&self) -> Result<Part, Status> {
        match self.objects.subresource.as_deref() {
            None => Ok(Part::Main),
            Some("status") if meta::has_status(self.resource) => Ok(Part::Status),
            Some(_) => Err(Status::no_such_path()),
        }
    }

    fn find(&self, name: &str) -> Option<Object> {
        let namespace = self.objects.namespace.as_deref().unwrap_or_default();
        self.registry.cache().get(&self.resource.qualified().to_string(), namespace, name)
    }

    fn get(&self, name: &str) -> Result<Object, Status> {
        let missing = || Status::not_found(&self.resource.qualified().to_string(), name);
        self.find(name).ok_or_else(missing)
    }

    fn failed(&self, name: &str, error: &registry::Error) -> Status {
        match error {
            registry::Error::Exists => Status::already_exists(self.resource, name),
            registry::Error::Changed => Status::changed(self.resource, name),
            registry::Error::Store(error) => Status::internal(error),
        }
    }
}

/// Refuses a name that no object may have: `DNS-1123 subdomain`, which also keeps it in its place in paths and keys.
fn check_name(resource: &Resource, name: &str) -> Result<(), Status> {
    let is_part = |part: &str| {
        let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && is_edge(part.chars().next())
            && is_edge(part.chars().last())
    };
    // Names of roles and their bindings may hold almost anything: `system:node`.
    let is_free = resource.group == "rbac.authorization.k8s.io";
    let is_path = name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']);
    if !is_path && (is_free || name.len() <= 253 && name.split('.').all(is_part)) {
        return Ok(());
    }
    let why = format!(
        "Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
         '-' or '.', and must start and end with an alphanumeric character"
    );
    Err(Status::invalid(resource, name, &[("metadata.name", "FieldValueInvalid", &why)]))
}

/// An identity and a suffix nobody else has.
fn fresh(now: Timestamp) -> Fresh {
    let random = Uuid::new_v4();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    Fresh {
        uid: Uuid::new_v4().to_string(),
        suffix: random.as_bytes().iter().take(SUFFIX).map(letter).collect(),
        now,
    }
}

fn response(code: StatusCode, object: &Map<String, Value>, warnings: &[String]) -> Response {
    let body = serde_json::to_vec(object).unwrap_or_default();
    let mut response = (code, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
