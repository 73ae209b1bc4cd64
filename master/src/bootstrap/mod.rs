//! The bootstrap document: what a machine that knows one line learns of a cluster before it asks to join.
//!
//! It is public, and whoever reads it believes it only when the authority in it is the one that the join string pins.

mod discovery;

use std::net::{IpAddr, SocketAddr};

use apiserver::store::Memory;
use axum::Router;
use axum::routing::get;
use http::header;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use self::discovery::Discovery;
use crate::pki::node;

/// Where it is.
pub const PATH: &str = "/bootstrap/v1/cluster-info";
/// What it is.
const API_VERSION: &str = "bootstrap/v1";
const KIND: &str = "ClusterInfo";
/// The field that is there while a root is on its way out.
const RETIRING: &str = "retiringAuthority";
/// The service whose endpoints are the masters of a store, and its namespace.
const MASTERS: (&str, &str) = ("default", "kubernetes");

/// What is told of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// Where its masters are, `https://HOST:PORT`; the first that answers will do.
    pub servers: Vec<String>,
    /// Its root certificate, PEM.
    pub authority: String,
    /// The root before, PEM, as long as it is believed too; else empty.
    pub retiring: String,
}

impl ClusterInfo {
    /// The document, with what the server's clock says: a node whose own differs knows why certificates do not hold.
    pub fn document(&self, now: Timestamp) -> Value {
        let mut document = self.lasting();
        document.insert("serverTime".to_owned(), api::time::seconds(now).into());
        document.into()
    }

    /// What of the document does not change with the clock.
    pub fn lasting(&self) -> Map<String, Value> {
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

    /// Reads the document back.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence that begins with the file.
    pub fn read(document: &Value) -> Result<Self, String> {
        let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default();
        if (text("apiVersion"), text("kind")) != (API_VERSION, KIND) {
            return Err(format!("is no {KIND} of {API_VERSION}"));
        }
        let servers = document.get("servers").and_then(Value::as_array).into_iter().flatten();
        let servers: Vec<String> = servers.filter_map(Value::as_str).map(str::to_owned).collect();
        if servers.is_empty() {
            return Err("names no servers".to_owned());
        }
        let authority = text("certificateAuthority").to_owned();
        crate::pki::lives(authority.as_bytes())
            .map_err(|fault| format!("{fault} as certificateAuthority"))?;
        let retiring = text(RETIRING).to_owned();
        if !retiring.is_empty() {
            crate::pki::lives(retiring.as_bytes()).map_err(|fault| format!("{fault} as {RETIRING}"))?;
        }
        Ok(Self { servers, authority, retiring })
    }
}

/// Answers with the document of the moment; everything else there is, is in it.
pub fn router(info: impl Fn() -> ClusterInfo + Clone + Send + Sync + 'static) -> Router {
    let answer = async move || {
        let headers = [(header::CACHE_CONTROL, "no-store")];
        (headers, axum::Json(info().document(Timestamp::now())))
    };
    Router::new().route(PATH, get(answer))
}

/// Where the masters are: this one, then those that share its store.
pub fn servers(cache: &Memory, own: SocketAddr) -> Vec<String> {
    let found = cache.get("endpoints", MASTERS.0, MASTERS.1).map(|endpoints| endpoints.decode());
    let others = found.map(|endpoints| addresses(&endpoints)).unwrap_or_default();
    let others = others.into_iter().filter(|other| *other != own);
    std::iter::once(own).chain(others).map(|address| format!("https://{address}")).collect()
}

/// Every address of an Endpoints object with the port of its subset.
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
