//! Requests for objects, answered from the store.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, Request, Uri, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::admission::Admission;
use crate::catalog::Catalog;
use crate::list::Page;
use crate::registry::Registry;
use crate::request::{As, Include, ListOptions, Objects, Target};
use crate::resource::{Part, Resource};
use crate::status::Status;
use crate::store::{Memory, Scope};
use crate::write::Desk;
use crate::{compress, discovery, openapi, table, watch, write};

const JSON: &str = "application/json";
const DISCOVERY_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const DISCOVERY_V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// What `/version` says.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// Kubernetes' major version whose API is held.
    pub major: &'static str,
    /// Its minor version.
    pub minor: &'static str,
    /// The whole, as `v1.36.0+coracle-0.1.0`.
    pub git_version: &'static str,
}

/// The API over a store.
pub struct Api {
    store: Memory,
    /// Where clients write; `None` where they may not.
    registry: Option<Arc<Registry>>,
    /// What their writes have to pass.
    admission: Vec<Arc<dyn Admission>>,
    catalog: Catalog,
    version: Version,
}

impl Api {
    /// An API that serves these resources from that store.
    pub fn new(store: Memory, catalog: Catalog, version: Version) -> Arc<Self> {
        Arc::new(Self { store, registry: None, admission: Vec::new(), catalog, version })
    }

    /// An API that clients may write to as well; every write passes all of admission, in that order.
    pub fn writable(
        registry: Arc<Registry>,
        admission: Vec<Arc<dyn Admission>>,
        version: Version,
    ) -> Arc<Self> {
        let (store, catalog) = (registry.cache().clone(), registry.catalog().clone());
        Arc::new(Self { store, registry: Some(registry), admission, catalog, version })
    }

    /// A router whose fallback answers every path: with what it names, or a `Status` that says it names nothing.
    pub fn router(self: &Arc<Self>) -> Router {
        let documents = openapi::router(self.catalog.clone(), self.version.git_version);
        Router::new().fallback(answer).with_state(self.clone()).merge(documents)
    }

    fn answer(&self, method: &Method, request: &Request<Body>) -> Result<Response, Status> {
        let target = Target::parse(request.uri().path()).ok_or_else(Status::no_such_path)?;
        let accept = Accept::of(request.headers());
        let rows = self.catalog.rows();
        if let Target::Objects(objects) = target {
            return self.objects(method, &objects, request, accept);
        }
        if method != Method::GET && method != Method::HEAD {
            return Err(Status::method_not_allowed(
                "the server does not allow this method on the requested resource",
            ));
        }
        let document = match target {
            Target::Version => self.version.document(),
            Target::CoreVersions | Target::Groups if accept.discovery.is_some() => {
                let (media_type, api_version) = accept.discovery.unwrap_or_default();
                let core = target == Target::CoreVersions;
                return Ok(json_response(
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
        } else {
            Ok(json_response(JSON, document.to_string()))
        }
    }

    fn objects(
        &self,
        method: &Method,
        objects: &Objects,
        request: &Request<Body>,
        accept: Accept,
    ) -> Result<Response, Status> {
        let resource = self.resource(objects).ok_or_else(Status::no_such_path)?;
        if !resource.namespaced && objects.namespace.is_some() {
            return Err(Status::no_such_path());
        }
        if method != Method::GET && method != Method::HEAD {
            return Err(self.refuse_write(method, &resource, objects));
        }
        if let (Some(part), Some(name)) = (&objects.subresource, &objects.name) {
            return self.part(&resource, objects, name, part);
        }
        let options = ListOptions::parse(request.uri())?;
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
            name => self.list(&resource, objects, name.as_deref(), accept, options),
        }
    }

    async fn write(&self, registry: &Registry, request: Request<Body>) -> Result<Response, Status> {
        let Some(Target::Objects(objects)) = Target::parse(request.uri().path()) else {
            return Err(Status::no_such_path());
        };
        let resource = self.resource(&objects).ok_or_else(Status::no_such_path)?;
        match (resource.namespaced, &objects.namespace, &objects.name) {
            (true, Some(_), _) | (false, None, _) => {}
            // All of them, which can be read and nothing else.
            (true, None, None) if resource.verbs.contains(&"list") => return Err(Status::no_such_method()),
            _ => return Err(Status::no_such_path()),
        }
        // Whoever could not read the answer would not know what has become of the write.
        Accept::of(request.headers()).objects()?;
        let desk = Desk { registry, admission: &self.admission };
        write::answer(desk, &resource, &objects, request).await
    }

    /// Looks for what happened before this server began to what a path names; false when nothing comes of that.
    async fn recall(&self, uri: Uri) -> bool {
        let Some(Target::Objects(objects)) = Target::parse(uri.path()) else { return false };
        match (&self.registry, self.resource(&objects)) {
            (Some(registry), Some(resource)) => registry.recall(resource.stored()).await,
            _ => false,
        }
    }

    fn resource(&self, objects: &Objects) -> Option<Arc<Resource>> {
        self.catalog.rows().find(&objects.group, &objects.version, &objects.plural).cloned()
    }

    fn get(
        &self,
        resource: &Resource,
        objects: &Objects,
        name: &str,
        accept: Accept,
        include: Include,
    ) -> Result<Response, Status> {
        let namespace = objects.namespace.as_deref().unwrap_or_default();
        let found = self.store.get(resource.stored(), namespace, name);
        let object = found.ok_or_else(|| Status::not_found(&resource.qualified().to_string(), name))?;
        match accept.objects()? {
            As::Json => Ok(json_response(JSON, resource.json(&object))),
            As::Metadata => Ok(json_response(JSON, table::metadata_only(resource.tree(&object)).to_string())),
            As::Table => {
                let metadata = json!({"resourceVersion": object.revision().to_string()});
                let rows = std::iter::once(resource.tree(&object));
                let now = Timestamp::now();
                let table = table::table(resource.columns.as_ref(), rows, metadata, include, true, now);
                Ok(json_response(JSON, table.to_string()))
            }
        }
    }

    /// A part of an object: its numbers, or the object itself.
    fn part(
        &self,
        resource: &Resource,
        objects: &Objects,
        name: &str,
        part: &str,
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
            Part::Status | Part::Fields(_) => Ok(json_response(JSON, resource.json(&found()?))),
            Part::Scale(replicas) => {
                let scale = write::scale(&resource.tree(&found()?), replicas);
                Ok(json_response(JSON, Value::Object(scale).to_string()))
            }
            Part::Binding | Part::Eviction => Err(Status::no_such_method()),
            // Whoever answers it stands in front of this, or nobody does.
            Part::Elsewhere | Part::Stream => Err(Status::no_such_path()),
        }
    }

    fn list(
        &self,
        resource: &Arc<Resource>,
        objects: &Objects,
        name: Option<&str>,
        accept: Accept,
        mut options: ListOptions,
    ) -> Result<Response, Status> {
        resource.select(&mut options.fields)?;
        if let Some(name) = name {
            options.fields.require_name(name);
        }
        let scope = objects.namespace.clone().map_or(Scope::All, Scope::Namespace);
        let shape = accept.objects()?;
        if options.watch {
            let body = watch::start(&self.store, resource, scope, options, shape)?;
            return Ok(([(header::CONTENT_TYPE, JSON)], body).into_response());
        }
        let page = Page::read(&self.store, resource.stored(), &scope, &options)?;
        match shape {
            As::Json => Ok(json_response(JSON, page.json(resource))),
            As::Metadata => {
                let items = page.objects.iter().map(|object| table::metadata_only(resource.tree(object)));
                let list = json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": page.metadata(), "items": items.collect::<Vec<_>>(),
                });
                Ok(json_response(JSON, list.to_string()))
            }
            As::Table => {
                let metadata = page.metadata();
                let rows = page.objects.iter().map(|object| resource.tree(object));
                let table = table::table(
                    resource.columns.as_ref(),
                    rows,
                    metadata,
                    options.include,
                    true,
                    Timestamp::now(),
                );
                Ok(json_response(JSON, table.to_string()))
            }
        }
    }

    /// Why an object may not be written: it belongs to someone, or there is no such thing here.
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

impl Version {
    /// What `/version` answers.
    pub fn document(&self) -> Value {
        json!({
            "major": self.major,
            "minor": self.minor,
            "gitVersion": self.git_version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, go_architecture()),
        })
    }
}

/// The architecture as Kubernetes' labels name it.
pub fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

async fn answer(State(api): State<Arc<Api>>, request: Request<Body>) -> Response {
    let takes_gzip = compress::takes_gzip(request.headers());
    let answer = match &api.registry {
        Some(registry) if request.method() != Method::GET && request.method() != Method::HEAD => {
            api.write(registry, request).await
        }
        _ => match api.answer(request.method(), &request) {
            Err(status) if status.is_expired() && api.recall(request.uri().clone()).await => {
                api.answer(request.method(), &request)
            }
            answer => answer,
        },
    };
    let answer = answer.unwrap_or_else(IntoResponse::into_response);
    if takes_gzip { compress::large(answer).await } else { answer }
}

fn json_response(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

/// What a client takes, best first.
#[derive(Clone, Copy, Debug, Default)]
struct Accept {
    objects: Option<As>,
    /// Media type and API version of an aggregated discovery document.
    discovery: Option<(&'static str, &'static str)>,
}

impl Accept {
    fn of(headers: &HeaderMap) -> Self {
        let mut accept = Self::default();
        let mut asked = false;
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for item in values.flat_map(|value| value.split(',')) {
            asked = true;
            let mut parts = item.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            if !matches!(media_type, "application/json" | "application/*" | "*/*" | "") {
                continue;
            }
            let parameters: Vec<&str> = parts.collect();
            let value = |name: &str| {
                parameters.iter().find_map(|p| p.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
            };
            match (value("as"), value("g"), value("v")) {
                ("", ..) => accept.objects = accept.objects.or(Some(As::Json)),
                ("Table", "meta.k8s.io", "v1") => accept.objects = accept.objects.or(Some(As::Table)),
                ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                    accept.objects = accept.objects.or(Some(As::Metadata));
                }
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => {
                    let document = (DISCOVERY_V2, "apidiscovery.k8s.io/v2");
                    accept.discovery = accept.discovery.or(Some(document));
                }
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                    let document = (DISCOVERY_V2BETA1, "apidiscovery.k8s.io/v2beta1");
                    accept.discovery = accept.discovery.or(Some(document));
                }
                _ => {}
            }
        }
        if !asked {
            accept.objects = Some(As::Json);
        }
        accept
    }

    fn objects(&self) -> Result<As, Status> {
        self.objects.ok_or_else(Status::not_acceptable)
    }
}

#[cfg(test)]
mod tests;
