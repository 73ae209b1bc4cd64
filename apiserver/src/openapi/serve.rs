//! HTTP endpoints of the OpenAPI documents, with caching headers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, json};

use super::cache::{Cache, hash};
use super::{document, gnostic};
use crate::catalog::{Catalog, Rows};
use crate::compress::takes_gzip;
use crate::request::header_values;
use crate::resource::Resource;
use crate::status::Status;

const JSON: &str = "application/json";
/// Media type that kubectl requests. Responses have `.` instead of `@`, which a media type cannot contain.
const V2_PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// `Cache-Control` for a document that is requested by its hash. Such a document never changes.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// `Cache-Control` for other documents: clients revalidate, and get 304 if the document is unchanged.
const REVALIDATE: &str = "no-cache, private";

/// The state that the handlers share.
struct OpenApi {
    catalog: Catalog,
    version: &'static str,
    cache: Cache,
}

/// Creates the routes to the documents of the current resources. `version` is the API version, such as `v1.36.0`.
pub fn router(catalog: Catalog, version: &'static str) -> Router {
    let openapi = OpenApi { catalog, version, cache: Cache::default() };
    let only_get = |route: MethodRouter<Arc<OpenApi>>| {
        route.fallback(async || Status::method_not_allowed("OpenAPI documents can only be read"))
    };
    Router::new()
        .route("/openapi/v3", only_get(get(index)))
        .route("/openapi/v3/{*group_version}", only_get(get(v3)))
        .route("/openapi/v2", only_get(get(v2)))
        .route("/swagger-2.0.0.pb-v1", only_get(get(swagger)))
        .with_state(Arc::new(openapi))
}

/// Query parameters.
#[derive(Deserialize)]
struct Wanted {
    hash: Option<String>,
}

/// Serves `/openapi/v3`, the index of all group versions.
async fn index(State(openapi): State<Arc<OpenApi>>, headers: HeaderMap) -> Result<Response, Status> {
    accepts(&headers, &[JSON])?;
    let groups = by_group_version(&openapi.catalog.rows());
    openapi.cache.retain(|path| groups.contains_key(path) || [JSON, V2_PROTOBUF].contains(&path)).await;
    let mut paths = Map::new();
    for (path, rows) in &groups {
        let hash = hash(rows.iter(), openapi.version);
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path.clone(), json!({"serverRelativeURL": url}));
    }
    let of_all = hash(groups.values().flatten(), openapi.version);
    if known(&headers, &of_all) {
        return Ok(not_modified(&of_all, REVALIDATE));
    }
    let document = json!({"paths": paths}).to_string();
    Ok((head(JSON, &of_all, REVALIDATE), document).into_response())
}

/// Serves the document of a group version, such as `/openapi/v3/apis/apps/v1`.
async fn v3(
    State(openapi): State<Arc<OpenApi>>,
    Path(path): Path<String>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Status> {
    accepts(&headers, &[JSON])?;
    let rows = by_group_version(&openapi.catalog.rows()).remove(&path).ok_or_else(Status::no_such_path)?;
    let hash = hash(rows.iter(), openapi.version);
    let keep = match wanted.hash {
        None => REVALIDATE,
        Some(wanted) if wanted == hash => IMMUTABLE,
        Some(_) => {
            let now_at = format!("/openapi/v3/{path}?hash={hash}");
            return Ok((StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, now_at)]).into_response());
        }
    };
    let version = openapi.version;
    let make = move || document::v3(&rows, version).to_string().into_bytes();
    openapi.answer(&path, JSON, &hash, keep, &headers, make).await
}

/// Serves `/openapi/v2`, the document of all resources, as JSON or protobuf.
async fn v2(State(openapi): State<Arc<OpenApi>>, headers: HeaderMap) -> Result<Response, Status> {
    match accepts(&headers, &[JSON, V2_PROTOBUF_ASKED, V2_PROTOBUF])? {
        JSON => openapi.of_everything(JSON, &headers).await,
        _ => openapi.of_everything(V2_PROTOBUF, &headers).await,
    }
}

/// Serves `/swagger-2.0.0.pb-v1`, the old path of the protobuf document.
async fn swagger(State(openapi): State<Arc<OpenApi>>, headers: HeaderMap) -> Result<Response, Status> {
    openapi.of_everything(V2_PROTOBUF, &headers).await
}

impl OpenApi {
    async fn of_everything(&self, media_type: &'static str, headers: &HeaderMap) -> Result<Response, Status> {
        let rows = self.catalog.rows();
        let (hash, version) = (hash(rows.all().iter(), self.version), self.version);
        let make = move || {
            let document = document::v2(rows.all(), version);
            if media_type == JSON { document.to_string().into_bytes() } else { gnostic::encode(&document) }
        };
        self.answer(media_type, media_type, &hash, REVALIDATE, headers, make).await
    }

    async fn answer(
        &self,
        path: &str,
        media_type: &'static str,
        hash: &str,
        keep: &'static str,
        headers: &HeaderMap,
        make: impl FnOnce() -> Vec<u8> + Send + 'static,
    ) -> Result<Response, Status> {
        if known(headers, hash) {
            return Ok(not_modified(hash, keep));
        }
        let made = self.cache.get(path, hash, make).await.map_err(Status::internal)?;
        let mut response = if takes_gzip(headers) {
            ([(header::CONTENT_ENCODING, "gzip")], Body::from(made.gzipped())).into_response()
        } else {
            Body::from(made.plain().map_err(Status::internal)?).into_response()
        };
        for (name, value) in head(media_type, hash, keep) {
            if let Ok(value) = value.try_into() {
                response.headers_mut().insert(name, value);
            }
        }
        Ok(response)
    }
}

/// The rows by document path, such as `api/v1` and `apis/apps/v1`.
fn by_group_version(rows: &Rows) -> BTreeMap<String, Vec<Arc<Resource>>> {
    let mut groups = BTreeMap::<String, Vec<Arc<Resource>>>::new();
    for row in rows.all() {
        let root = if row.group.is_empty() { "api" } else { "apis" };
        groups.entry(format!("{root}/{}", row.api_version())).or_default().push(row.clone());
    }
    groups
}

fn head(media_type: &str, hash: &str, keep: &str) -> [(header::HeaderName, String); 4] {
    [
        (header::CONTENT_TYPE, media_type.to_owned()),
        (header::ETAG, format!("\"{hash}\"")),
        (header::CACHE_CONTROL, keep.to_owned()),
        (header::VARY, "Accept, Accept-Encoding".to_owned()),
    ]
}

fn not_modified(hash: &str, keep: &str) -> Response {
    let [_, tag, keep, vary] = head("", hash, keep);
    (StatusCode::NOT_MODIFIED, [tag, keep, vary]).into_response()
}

/// Whether the client already has the current document.
fn known(headers: &HeaderMap, hash: &str) -> bool {
    header_values(headers, header::IF_NONE_MATCH)
        .any(|tag| tag == "*" || tag.trim_start_matches("W/").trim_matches('"') == hash)
}

/// The first media type that the client accepts and the server offers. Without an `Accept` header it is the first
/// offer.
fn accepts(headers: &HeaderMap, offers: &[&'static str]) -> Result<&'static str, Status> {
    let mut has_accept = false;
    for item in header_values(headers, header::ACCEPT) {
        has_accept = true;
        let media_type = item.split(';').next().unwrap_or_default().trim();
        let any = matches!(media_type, "*/*" | "application/*" | "");
        if let Some(offer) = offers.iter().find(|offer| any || **offer == media_type) {
            return Ok(offer);
        }
    }
    match offers.first() {
        Some(offer) if !has_accept => Ok(offer),
        _ => {
            let message = format!("only the following media types are accepted: {}", offers.join(", "));
            Err(Status::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message))
        }
    }
}
