//! Request handlers for objects, served from the watch cache.

use std::sync::Arc;

use api::protobuf::encode;
use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, Request, Uri, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::admission::Admission;
use crate::catalog::Catalog;
use crate::compute_pool::{self, ComputePool, Deadline};
use crate::guarded_body::GuardedBody;
use crate::identity::Identity;
use crate::list::Page;
use crate::list_body::KEPT_BYTES;
use crate::registry::Registry;
use crate::represent::{self, Accept, As, Encoding, Format, Offer, Table, TableOptions};
use crate::request::{Include, ListOptions, Objects, Target};
use crate::resource::{Part, Resource, Subresource};
use crate::status::Status;
use crate::version::Version;
use crate::watch::limits::WatchLimits;
use crate::watch_cache::{Scope, WatchCache};
use crate::write::WriteContext;
use crate::{compress, discovery, openapi, watch, write};

const JSON: &str = "application/json";
/// Encodings of discovery documents. They have no protobuf messages here, so a client that accepts only protobuf
/// gets JSON.
const DISCOVERY: Offer = Offer { has_message: false, is_stream: false };
/// Size in bytes above which a user may have only one table, or one list of partial metadata as JSON, at a time. Such
/// a list stays in memory until the client has read it. No page of a list with `limit` is this large.
const HELD_BYTES: u64 = 16 * 1024 * 1024;
/// Media type of length-prefixed protobuf watch events.
const WATCH_PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Response extension: the body is encoded while it is sent, and holds no encoded copy of the whole list.
#[derive(Clone, Copy, Debug)]
struct EncodedWhileSent;

/// The API server, which serves objects from a watch cache.
pub struct Api {
    store: WatchCache,
    /// The registry that executes writes, or `None` for a read-only server.
    registry: Option<Arc<Registry>>,
    /// The admission plugins, in order.
    admission: Vec<Arc<dyn Admission>>,
    catalog: Catalog,
    version: Version,
    watches: Arc<WatchLimits>,
    pool: Arc<ComputePool>,
}

impl Api {
    /// Creates a read-only API server for these resources.
    pub fn new(store: WatchCache, catalog: Catalog, version: Version) -> Arc<Self> {
        Arc::new(Self::over(store, catalog, version))
    }

    fn over(store: WatchCache, catalog: Catalog, version: Version) -> Self {
        let (watches, pool) = (WatchLimits::new(), ComputePool::new());
        Self { store, registry: None, admission: Vec::new(), catalog, version, watches, pool }
    }

    /// Creates an API server that accepts writes. Each write passes all admission plugins in this order.
    pub fn writable(
        registry: Arc<Registry>,
        admission: Vec<Arc<dyn Admission>>,
        version: Version,
    ) -> Arc<Self> {
        let (store, catalog) = (registry.cache().clone(), registry.catalog().clone());
        Arc::new(Self { registry: Some(registry), admission, ..Self::over(store, catalog, version) })
    }

    /// Returns a router that handles every path and answers unknown paths with a `Status`.
    pub fn router(self: &Arc<Self>) -> Router {
        let documents = openapi::router(self.catalog.clone(), self.version.git_version);
        Router::new().fallback(answer).with_state(self.clone()).merge(documents)
    }

    fn answer(&self, method: &Method, request: &Request<Body>) -> Result<Response, Status> {
        let target = Target::parse(request.uri().path()).ok_or_else(Status::no_such_path)?;
        let accept = Accept::of(request.headers());
        let rows = self.catalog.rows();
        if let Target::Objects(objects) = target {
            return self.objects(method, &objects, request, &accept);
        }
        if method != Method::GET && method != Method::HEAD {
            return Err(Status::method_not_allowed(
                "the server does not allow this method on the requested resource",
            ));
        }
        let is_discovery = target != Target::Version;
        let document = match target {
            Target::Version => self.version.document(),
            Target::CoreVersions | Target::Groups if accept.discovery.is_some() => {
                let (media_type, api_version) = accept.discovery.unwrap_or_default();
                let core = target == Target::CoreVersions;
                return Ok(represent::json(
                    media_type,
                    discovery::aggregated(rows.all(), core, api_version).to_string(),
                ));
            }
            Target::CoreVersions => discovery::core_versions(),
            Target::Groups => discovery::groups(rows.all()),
            Target::Group(name) => match discovery::group(rows.all(), &name) {
                Value::Object(mut group) => {
                    group.insert("kind".to_owned(), "APIGroup".into());
                    group.insert("apiVersion".to_owned(), "v1".into());
                    Value::Object(group)
                }
                other => other,
            },
            Target::GroupVersion(group, version) => discovery::group_version(rows.all(), &group, &version),
            Target::Objects(_) => Value::Null,
        };
        if document.is_null() {
            Err(Status::no_such_path())
        } else if is_discovery && accept.format(DISCOVERY).is_ok_and(|it| it.encoding == Encoding::Yaml) {
            represent::answer(Encoding::Yaml, document.to_string().as_bytes())
        } else {
            Ok(represent::json(JSON, document.to_string()))
        }
    }

    fn objects(
        &self,
        method: &Method,
        objects: &Objects,
        request: &Request<Body>,
        accept: &Accept,
    ) -> Result<Response, Status> {
        let resource = self.resource(objects).ok_or_else(Status::no_such_path)?;
        if !resource.namespaced && objects.namespace.is_some() {
            return Err(Status::no_such_path());
        }
        if method != Method::GET && method != Method::HEAD {
            return Err(self.refuse_write(method, &resource, objects));
        }
        if let (Some(part), Some(name)) = (&objects.subresource, &objects.name) {
            return self.part(&resource, objects, name, part, accept);
        }
        let options = ListOptions::parse(request.uri(), objects.is_watch)?;
        let verb = match &objects.name {
            _ if options.watch => "watch",
            Some(_) => "get",
            None => "list",
        };
        if !resource.verbs.contains(&verb) {
            return Err(Status::no_such_method());
        }
        match &objects.name {
            Some(name) if !options.watch => self.get(&resource, objects, name, accept, options.include),
            name => {
                let who = request.extensions().get();
                self.list(&resource, objects, name.as_deref(), accept, options, who)
            }
        }
    }

    async fn write(self: &Arc<Self>, request: Request<Body>) -> Result<Response, Status> {
        let Some(Target::Objects(objects)) = Target::parse(request.uri().path()) else {
            return Err(Status::no_such_path());
        };
        let resource = self.resource(&objects).ok_or_else(Status::no_such_path)?;
        if objects.is_watch {
            return Err(Status::no_such_method());
        }
        if resource.is_read_only() && !(resource.owner)(&serde_json::Map::new()).is_empty() {
            return Err(self.refuse_write(request.method(), &resource, &objects));
        }
        match (resource.namespaced, &objects.namespace, &objects.name) {
            (true, Some(_), _) | (false, None, _) => {}
            // The collection over all namespaces can only be listed and watched.
            (true, None, None) if resource.verbs.contains(&"list") => return Err(Status::no_such_method()),
            _ => return Err(Status::no_such_path()),
        }
        // Checked before the write: a client that cannot read the response would not know the result.
        let part = objects.subresource.as_deref().and_then(|part| resource.subresource(part));
        let format = Accept::of(request.headers()).format(offer(&resource, part, false))?;
        let include = ListOptions::include(request.uri())?;
        let (parts, body) = request.into_parts();
        let who = parts.extensions.get().cloned().unwrap_or_else(Identity::anonymous);
        let bytes = write::body::whole(body, write::body::max_bytes(&resource, &who)).await?;
        let stored = objects.name.as_deref().and_then(|name| {
            self.store.get(resource.stored(), objects.namespace.as_deref().unwrap_or_default(), name)
        });
        let bytes_of_work = bytes.len() + stored.map_or(0, |stored| stored.json().len());
        let api = self.clone();
        let columns_of = resource.clone();
        let shaped = move |answer| async move {
            let table_options = TableOptions { columns: columns_of.columns.as_ref(), include };
            represent::respond(format, Some(table_options), answer).await
        };
        let write = move |deadline| async move {
            let registry = api.registry.as_ref().ok_or_else(Status::no_such_method)?;
            let context = WriteContext { registry, admission: &api.admission };
            write::answer(context, &resource, &objects, &parts, &bytes, deadline).await
        };
        if bytes_of_work >= compute_pool::LARGE_BYTES {
            let work = move |deadline| async move { Ok(shaped(write(deadline).await?).await) };
            return self.pool.run(&who, work).await;
        }
        let answer = write(Deadline::default()).await?;
        // A small request may have a large answer, such as the list of a deleted collection.
        let is_large = answer.body().size_hint().lower() >= compute_pool::LARGE_BYTES as u64;
        if format == Format::JSON || !is_large {
            return Ok(shaped(answer).await);
        }
        self.pool.finish(&who, move || shaped(answer)).await
    }

    /// Loads the watch history of a resource from before this server started. Returns false when there is nothing
    /// to load.
    async fn load_history(&self, uri: Uri) -> bool {
        let Some(Target::Objects(objects)) = Target::parse(uri.path()) else { return false };
        match (&self.registry, self.resource(&objects)) {
            (Some(registry), Some(resource)) => registry.load_history(resource.stored()).await,
            _ => false,
        }
    }

    /// True for a list that is large and whose objects must be decoded.
    fn is_large_read(&self, request: &Request<Body>) -> bool {
        let Some(Target::Objects(objects @ Objects { name: None, .. })) = Target::parse(request.uri().path())
        else {
            return false;
        };
        let (Some(resource), Ok(options)) =
            (self.resource(&objects), ListOptions::parse(request.uri(), objects.is_watch))
        else {
            return false;
        };
        let format = Accept::of(request.headers()).format(offer(&resource, None, false));
        let is_decoded = format.is_ok_and(|format| format != Format::JSON);
        if options.watch || !(is_decoded || resource.conversion.is_some()) {
            return false;
        }
        let scope = objects.namespace.map_or(Scope::All, Scope::Namespace);
        let snapshot = self.store.snapshot(resource.stored());
        let mut bytes = 0;
        let sizes = snapshot
            .after(&scope, None)
            .take(options.limit.unwrap_or(usize::MAX))
            .map(|object| object.json().len());
        sizes.into_iter().any(|size| {
            bytes += size;
            bytes >= compute_pool::LARGE_BYTES
        })
    }

    /// Answers a large read. The user's next large request waits until a very large answer has been sent.
    async fn read_large(self: &Arc<Self>, parts: Parts) -> Result<Response, Status> {
        let api = self.clone();
        let who = parts.extensions.get().cloned().unwrap_or_else(Identity::anonymous);
        let read = move |_| async move {
            let request = Request::from_parts(parts, Body::empty());
            api.answer(request.method(), &request)
        };
        let (response, turn) = self.pool.run_in_turn(&who, read).await?;
        // A list of unknown size costs processor time until it is sent.
        let is_measured_before = response.extensions().get::<EncodedWhileSent>().is_some();
        let is_held = match response.body().size_hint().exact() {
            Some(bytes) => bytes > HELD_BYTES && !is_measured_before,
            None => true,
        };
        Ok(if is_held { response.map(|body| Body::new(GuardedBody::new(body, turn))) } else { response })
    }

    fn resource(&self, objects: &Objects) -> Option<Arc<Resource>> {
        self.catalog.rows().find(&objects.group, &objects.version, &objects.plural).cloned()
    }

    fn get(
        &self,
        resource: &Resource,
        objects: &Objects,
        name: &str,
        accept: &Accept,
        include: Include,
    ) -> Result<Response, Status> {
        let namespace = objects.namespace.as_deref().unwrap_or_default();
        let found = self.store.get(resource.stored(), namespace, name);
        let object = found.ok_or_else(|| Status::not_found(&resource.qualified().to_string(), name))?;
        let Format { encoding, shape } = accept.format(offer(resource, None, false))?;
        let json = resource.json(&object);
        match shape {
            As::Object => represent::answer(encoding, &json),
            As::Metadata(version) => represent::answer(encoding, &represent::metadata_json(&json, version)),
            As::Table(version) => {
                let metadata = json!({"resourceVersion": object.revision().to_string()});
                let table = Table { version, include, with_columns: true, now: Timestamp::now() };
                let table =
                    table.of(resource.columns.as_ref(), std::iter::once(resource.tree(&object)), metadata);
                represent::answer(encoding, table.to_string().as_bytes())
            }
        }
    }

    /// Reads a subresource: the scale of an object, or the object itself.
    fn part(
        &self,
        resource: &Resource,
        objects: &Objects,
        name: &str,
        part: &str,
        accept: &Accept,
    ) -> Result<Response, Status> {
        let part = resource.subresource(part).ok_or_else(Status::no_such_path)?;
        if !part.verbs.contains(&"get") {
            return Err(Status::no_such_method());
        }
        let namespace = objects.namespace.as_deref().unwrap_or_default();
        let found = || {
            let found = self.store.get(resource.stored(), namespace, name);
            found.ok_or_else(|| Status::not_found(&resource.qualified().to_string(), name))
        };
        match &part.part {
            Part::Status | Part::Fields(_) => self.get(resource, objects, name, accept, Include::default()),
            Part::Scale(replicas) => {
                let Format { encoding, .. } = accept.format(offer(resource, Some(part), false))?;
                let scale = write::scale(&resource.tree(&found()?), replicas);
                represent::answer(encoding, Value::Object(scale).to_string().as_bytes())
            }
            Part::Binding | Part::Eviction => Err(Status::no_such_method()),
            // A route in front of this router serves these; without one the path does not exist.
            Part::Elsewhere | Part::Stream => Err(Status::no_such_path()),
        }
    }

    fn list(
        &self,
        resource: &Arc<Resource>,
        objects: &Objects,
        name: Option<&str>,
        accept: &Accept,
        mut options: ListOptions,
        who: Option<&Identity>,
    ) -> Result<Response, Status> {
        resource.select(&mut options.fields)?;
        if let Some(name) = name {
            options.fields.require_name(name);
        }
        let scope = objects.namespace.clone().map_or(Scope::All, Scope::Namespace);
        let format = accept.format(offer(resource, None, options.watch))?;
        if options.watch {
            // Requests without an identity come from the local socket, which has no users.
            let slot = who.map(|who| self.watches.open(who)).transpose()?.flatten();
            let media_type = match format.encoding {
                Encoding::Json | Encoding::Yaml => JSON,
                Encoding::Protobuf => WATCH_PROTOBUF,
            };
            let body = watch::start(&self.store, resource, scope, options, format, slot)?;
            return Ok(([(header::CONTENT_TYPE, media_type)], body).into_response());
        }
        let page = Page::read(&self.store, resource.stored(), &scope, &options)?;
        let is_table = matches!(format.shape, As::Table(_));
        let (body, is_encoded_while_sent) = match format.encoding {
            Encoding::Json if format == Format::JSON => (page.into_body(resource), false),
            Encoding::Protobuf => (Body::new(page.into_protobuf(resource, format.shape)?), true),
            Encoding::Yaml if !is_table && page.bytes() >= KEPT_BYTES => {
                (Body::new(page.into_yaml(resource, format.shape)?), true)
            }
            _ => (page.encoded(resource, format, options.include)?.into(), false),
        };
        let mut response = ([(header::CONTENT_TYPE, format.encoding.media_type())], body).into_response();
        if is_encoded_while_sent {
            response.extensions_mut().insert(EncodedWhileSent);
        }
        Ok(response)
    }

    /// The error for a write to a read-only server: MethodNotAllowed for a collection, NotFound for a missing object,
    /// otherwise Forbidden with a message that names the owner of the object.
    fn refuse_write(&self, method: &Method, resource: &Resource, objects: &Objects) -> Status {
        let qualified = resource.qualified().to_string();
        let Some(name) = &objects.name else {
            return Status::method_not_allowed(format!(
                "{qualified} cannot be written here with {method}: {}",
                (resource.owner)(&serde_json::Map::new())
            ));
        };
        let namespace = objects.namespace.as_deref().unwrap_or_default();
        match self.store.get(resource.stored(), namespace, name) {
            None => Status::not_found(&qualified, name),
            Some(object) => Status::forbidden(&qualified, name, &(resource.owner)(&object.decode())),
        }
    }
}

/// The formats in which an object or subresource can be sent.
fn offer(resource: &Resource, part: Option<&Subresource>, is_stream: bool) -> Offer {
    let has_message = match part.and_then(|part| part.kind) {
        Some((group, version, kind)) => api::schema::all().kind(group, version, kind).is_some(),
        None => encode::has_message(resource.api_version(), &resource.kind),
    };
    Offer { has_message, is_stream }
}

async fn answer(State(api): State<Arc<Api>>, request: Request<Body>) -> Response {
    let takes_gzip = compress::takes_gzip(request.headers());
    let accept = Accept::of(request.headers());
    let answer = match &api.registry {
        Some(_) if request.method() != Method::GET && request.method() != Method::HEAD => {
            api.write(request).await
        }
        _ if api.is_large_read(&request) => {
            let (parts, _) = request.into_parts();
            match api.read_large(parts.clone()).await {
                Err(status) if status.is_expired() && api.load_history(parts.uri.clone()).await => {
                    api.read_large(parts).await
                }
                answer => answer,
            }
        }
        _ => match api.answer(request.method(), &request) {
            Err(status) if status.is_expired() && api.load_history(request.uri().clone()).await => {
                api.answer(request.method(), &request)
            }
            answer => answer,
        },
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(status) => represent::error(&accept, status).await,
    };
    if takes_gzip { compress::large(answer).await } else { answer }
}

#[cfg(test)]
mod tests;
