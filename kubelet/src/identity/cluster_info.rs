//! The bootstrap document: what a machine that knows one line learns of a cluster, and how far it believes it. Pure.

use std::net::IpAddr;

use apiserver::auth::nodes::{PREFIX, STOCK_PREFIX};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use super::certificate;
use super::standing::Authorities;

/// Where it is.
pub const PATH: &str = "/bootstrap/v1/cluster-info";
/// Most servers of it that are remembered: a cluster has three or five masters.
pub const MOST_SERVERS: usize = 16;

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// Where the masters are, `https://HOST:PORT`; the first that answers will do.
    pub servers: Vec<String>,
    /// The authorities of the cluster, PEM.
    pub authority: String,
    /// The root before, PEM, as long as it is believed too; else empty.
    pub retiring: String,
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
        let retiring = text("retiringAuthority").to_owned();
        if !retiring.is_empty() {
            certificate::certificates(retiring.as_bytes())
                .map_err(|why| format!("has a retiringAuthority that {why}"))?;
        }
        let prefix = text("nodeUserPrefix").to_owned();
        let known = [PREFIX, STOCK_PREFIX];
        if !known.contains(&prefix.as_str()) {
            return Err(format!("calls the users of nodes {prefix:?}, which is none of {known:?}"));
        }
        Ok(Self { servers, authority, retiring, prefix, server_time: text("serverTime").parse().ok() })
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

    /// Its authorities, those that sign apart from the one on its way out.
    ///
    /// # Errors
    /// What is wrong with one, as the end of a sentence that begins with the document.
    pub fn authorities(&self) -> Result<Authorities, String> {
        let leaving = match self.retiring.as_str() {
            "" => Vec::new(),
            retiring => certificate::certificates(retiring.as_bytes())?,
        };
        let mut now = certificate::certificates(self.authority.as_bytes())?;
        // Whose certificates are of a root that leaves is to ask for others, whatever else is told of that root.
        now.retain(|one| !leaving.contains(one));
        if now.is_empty() {
            return Err("tells of no authority that stays".to_owned());
        }
        Ok(Authorities { now, leaving })
    }

    /// The same with these authorities (PEM) and no others.
    pub fn with_authorities(self, authority: String, retiring: String) -> Self {
        Self { authority, retiring, ..self }
    }

    /// The hashes of those that are on their way out.
    ///
    /// # Errors
    /// As [`Self::authorities`].
    pub fn leaving(&self) -> Result<Vec<String>, String> {
        self.authorities()?.leaving.iter().map(|one| certificate::hash(one)).collect()
    }

    /// All that are to be believed, PEM, to whoever believes the document.
    pub fn believed(&self) -> Vec<u8> {
        let apart = if self.authority.ends_with('\n') { "" } else { "\n" };
        [self.authority.as_str(), apart, &self.retiring].concat().into_bytes()
    }

    /// Whether a line with that pin leads to this cluster, to whoever believes the document.
    pub fn is_pinned_by(&self, pin: &str) -> bool {
        let is_pinned = |one: &CertificateDer<'_>| certificate::hash(one).is_ok_and(|hash| hash == pin);
        let told = self.authorities().unwrap_or_default();
        told.now.iter().chain(&told.leaving).any(is_pinned)
    }
}

/// The address of a server that is named by one.
pub fn address(server: &str) -> Option<IpAddr> {
    let uri = server.parse::<http::Uri>().ok()?;
    uri.host()?.trim_matches(['[', ']']).parse().ok()
}

/// Whether that can be asked.
pub fn is_server(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https") && uri.host().is_some())
}
