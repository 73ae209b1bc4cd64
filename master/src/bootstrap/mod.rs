//! The cluster-info document, from which a machine with a join string learns the servers and the CA of a cluster
//! before it joins.
//!
//! The document is public. A reader trusts it only if its CA matches the hash in the join string.

mod discovery;

use std::net::{IpAddr, SocketAddr};

use apiserver::watch_cache::WatchCache;
use axum::Router;
use axum::routing::get;
use http::header;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use self::discovery::DiscoveryFile;
use crate::pki::node;

/// The HTTP path of the document.
pub const PATH: &str = "/bootstrap/v1/cluster-info";
/// API version and kind of the document.
const API_VERSION: &str = "bootstrap/v1";
const KIND: &str = "ClusterInfo";
/// The field with the previous root CA. It is present only during a CA rotation.
const RETIRING: &str = "retiringAuthority";
/// Namespace and name of the Endpoints that list all masters of a store.
const MASTERS: (&str, &str) = ("default", "kubernetes");

/// The cluster-info document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// The URLs of the masters, `https://HOST:PORT`. Clients use the first one that responds.
    pub servers: Vec<String>,
    /// The root CA certificate in PEM.
    pub authority: String,
    /// The previous root CA certificate in PEM during a rotation; otherwise empty.
    pub retiring: String,
}

impl ClusterInfo {
    /// The document with the time of the server. The time explains certificate errors that a wrong clock causes.
    pub fn document(&self, now: Timestamp) -> Value {
        let mut document = self.static_fields();
        document.insert("serverTime".to_owned(), api::time::seconds(now).into());
        document.into()
    }

    /// The document without the server time.
    pub fn static_fields(&self) -> Map<String, Value> {
        let document = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "servers": self.servers,
            "certificateAuthority": self.authority,
            "nodeUserPrefix": node::PREFIX,
        });
        let mut document = if let Value::Object(document) = document { document } else { Map::new() };
        if !self.retiring.is_empty() {
            document.insert(RETIRING.to_owned(), self.retiring.as_str().into());
        }
        document
    }

    /// Parses the document.
    ///
    /// # Errors
    /// If the document is invalid. The error starts with a verb, so that the caller can prepend the file name.
    pub fn read(document: &Value) -> Result<Self, String> {
        let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default();
        if (text("apiVersion"), text("kind")) != (API_VERSION, KIND) {
            return Err(format!("is not a {KIND} of {API_VERSION}"));
        }
        let servers = document.get("servers").and_then(Value::as_array).into_iter().flatten();
        let servers: Vec<String> = servers.filter_map(Value::as_str).map(str::to_owned).collect();
        if servers.is_empty() {
            return Err("names no servers".to_owned());
        }
        let authority = text("certificateAuthority").to_owned();
        crate::pki::validities(authority.as_bytes())
            .map_err(|fault| format!("{fault} as certificateAuthority"))?;
        let retiring = text(RETIRING).to_owned();
        if !retiring.is_empty() {
            crate::pki::validities(retiring.as_bytes()).map_err(|fault| format!("{fault} as {RETIRING}"))?;
        }
        Ok(Self { servers, authority, retiring })
    }
}

/// Serves the current document.
pub fn router(info: impl Fn() -> ClusterInfo + Clone + Send + Sync + 'static) -> Router {
    let answer = async move || {
        let headers = [(header::CACHE_CONTROL, "no-store")];
        (headers, axum::Json(info().document(Timestamp::now())))
    };
    Router::new().route(PATH, get(answer))
}

/// The URLs of this master, and of the masters that share its store.
pub fn servers(cache: &WatchCache, own: SocketAddr) -> Vec<String> {
    let found = cache.get("endpoints", MASTERS.0, MASTERS.1).map(|endpoints| endpoints.decode());
    let others = found.map(|endpoints| addresses(&endpoints)).unwrap_or_default();
    let others = others.into_iter().filter(|other| *other != own);
    std::iter::once(own).chain(others).map(|address| format!("https://{address}")).collect()
}

/// All addresses of an Endpoints object, each with the port of its subset.
fn addresses(endpoints: &Map<String, Value>) -> Vec<SocketAddr> {
    let list = |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned();
    let subsets = endpoints.get("subsets").and_then(Value::as_array).into_iter().flatten();
    let of_subset = |subset: &Value| {
        let ports = list(subset, "ports").unwrap_or_default();
        let port = ports.first().and_then(|port| u16::try_from(port.get("port")?.as_u64()?).ok());
        let found = list(subset, "addresses").unwrap_or_default().into_iter().filter_map(move |address| {
            let ip: IpAddr = address.get("ip")?.as_str()?.parse().ok()?;
            Some(SocketAddr::new(ip, port?))
        });
        found.collect::<Vec<_>>()
    };
    subsets.flat_map(of_subset).collect()
}

#[cfg(test)]
mod tests;
