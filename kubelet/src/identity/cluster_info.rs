//! The bootstrap document: what a machine that knows one line learns of a cluster, and how far it believes it. Pure.

use apiserver::auth::nodes::{PREFIX, STOCK_PREFIX};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use super::certificate;

/// Where it is.
pub const PATH: &str = "/bootstrap/v1/cluster-info";
/// Most servers of it that are remembered: a cluster has three or five masters.
const MOST_SERVERS: usize = 16;

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// Where the masters are, `https://HOST:PORT`; the first that answers will do.
    pub servers: Vec<String>,
    /// The authorities of the cluster, PEM.
    pub authority: String,
    /// What comes before the node's name in its user.
    pub prefix: String,
    /// What the server's clock said.
    pub server_time: Option<Timestamp>,
}

impl ClusterInfo {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence that begins with the document.
    pub fn read(document: &Value) -> Result<Self, String> {
        let text = |field: &str| document[field].as_str().unwrap_or_default();
        if (text("apiVersion"), text("kind")) != ("bootstrap/v1", "ClusterInfo") {
            return Err("is no ClusterInfo of bootstrap/v1".to_owned());
        }
        let servers = document["servers"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let servers: Vec<String> =
            servers.filter(|server| is_server(server)).take(MOST_SERVERS).map(str::to_owned).collect();
        if servers.is_empty() {
            return Err("names no servers (https://HOST:PORT)".to_owned());
        }
        let authority = text("certificateAuthority").to_owned();
        certificate::certificates(authority.as_bytes())
            .map_err(|why| format!("has a certificateAuthority that {why}"))?;
        let prefix = text("nodeUserPrefix").to_owned();
        let known = [PREFIX, STOCK_PREFIX];
        if !known.contains(&prefix.as_str()) {
            return Err(format!("calls the users of nodes {prefix:?}, which is none of {known:?}"));
        }
        Ok(Self { servers, authority, prefix, server_time: text("serverTime").parse().ok() })
    }

    /// Those of its authorities that the pin is of, all of them where there is no pin; or the hash of the first when it is of none.
    ///
    /// # Errors
    /// The hash, in hex, or what is wrong with the certificate.
    pub fn pinned(&self, pin: Option<&str>) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut all = certificate::certificates(self.authority.as_bytes())?;
        let Some(pin) = pin else { return Ok(all) };
        let first = all.first().map(|first| certificate::hash(first)).transpose()?.unwrap_or_default();
        all.retain(|one| certificate::hash(one).is_ok_and(|hash| hash == pin));
        if all.is_empty() { Err(first) } else { Ok(all) }
    }
}

/// Whether that can be asked.
pub fn is_server(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https") && uri.host().is_some())
}
