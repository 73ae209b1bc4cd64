//! Parses the cluster info. A machine with a join string reads this document to learn the servers and CAs of a
//! cluster. Pure.

use std::net::IpAddr;

use apiserver::auth::nodes::{PREFIX, STOCK_PREFIX};
use apiserver::tls::leads_to;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use super::certificate::{self, Certificate};
use super::csr::Kind;

/// The HTTP path of the cluster info.
pub const PATH: &str = "/bootstrap/v1/cluster-info";
/// Maximum number of servers that are remembered. A cluster has three or five masters.
pub const MAX_SERVERS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// URLs of the API servers, `https://HOST:PORT`.
    pub servers: Vec<String>,
    /// The CAs of the cluster, PEM.
    pub authority: String,
    /// The retiring CA, PEM; empty if there is none.
    pub retiring: String,
    /// The prefix of node user names.
    pub prefix: String,
    /// The time of the server's clock.
    pub server_time: Option<Timestamp>,
}

impl ClusterInfo {
    /// Parses the document.
    ///
    /// # Errors
    /// If the document is invalid. The error starts with a verb, so that the caller can prepend "the document".
    pub fn read(document: &Value) -> Result<Self, String> {
        let text = |field: &str| document[field].as_str().unwrap_or_default();
        if (text("apiVersion"), text("kind")) != ("bootstrap/v1", "ClusterInfo") {
            return Err("is not a ClusterInfo of bootstrap/v1".to_owned());
        }
        let servers = document["servers"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let servers: Vec<String> =
            servers.filter(|server| is_server(server)).take(MAX_SERVERS).map(str::to_owned).collect();
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
            return Err(format!("has the node user prefix {prefix:?}, which is not one of {known:?}"));
        }
        Ok(Self { servers, authority, retiring, prefix, server_time: text("serverTime").parse().ok() })
    }

    /// The CAs that match the pin. Without a pin, all CAs.
    ///
    /// # Errors
    /// If none matches, the hash of the first CA in hex; otherwise the reason why a certificate is invalid.
    pub fn pinned(&self, pin: Option<&str>) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut all = certificate::certificates(self.authority.as_bytes())?;
        let Some(pin) = pin else { return Ok(all) };
        let first = all.first().map(|first| certificate::hash(first)).transpose()?.unwrap_or_default();
        all.retain(|one| certificate::hash(one).is_ok_and(|hash| hash == pin));
        if all.is_empty() { Err(first) } else { Ok(all) }
    }

    /// The CAs, split into active and retiring ones.
    ///
    /// # Errors
    /// If the document is invalid. The error starts with a verb, so that the caller can prepend "the document".
    pub fn authorities(&self) -> Result<Authorities, String> {
        let retiring = match self.retiring.as_str() {
            "" => Vec::new(),
            retiring => certificate::certificates(retiring.as_bytes())?,
        };
        let mut now = certificate::certificates(self.authority.as_bytes())?;
        // A retiring CA does not count as active even if the document lists it in both fields.
        now.retain(|one| !retiring.contains(one));
        if now.is_empty() {
            return Err("has no CA that is not retiring".to_owned());
        }
        Ok(Authorities { now, retiring })
    }

    /// Returns the same cluster info with other CAs (PEM).
    pub fn with_authorities(self, authority: String, retiring: String) -> Self {
        Self { authority, retiring, ..self }
    }

    /// The hashes of the retiring CAs.
    ///
    /// # Errors
    /// The same as [`Self::authorities`].
    pub fn retiring(&self) -> Result<Vec<String>, String> {
        self.authorities()?.retiring.iter().map(|one| certificate::hash(one)).collect()
    }

    /// All CAs to trust, active and retiring, in PEM. The cluster info must be authenticated.
    pub fn trusted(&self) -> Vec<u8> {
        let apart = if self.authority.ends_with('\n') { "" } else { "\n" };
        [self.authority.as_str(), apart, &self.retiring].concat().into_bytes()
    }

    /// Whether a join string with this pin refers to the cluster. The cluster info must be authenticated.
    pub fn is_pinned_by(&self, pin: &str) -> bool {
        let is_pinned = |one: &CertificateDer<'_>| certificate::hash(one).is_ok_and(|hash| hash == pin);
        let authorities = self.authorities().unwrap_or_default();
        authorities.now.iter().chain(&authorities.retiring).any(is_pinned)
    }
}

/// The IP address in a server URL, or `None` if the URL has a DNS name.
pub fn address(server: &str) -> Option<IpAddr> {
    let uri = server.parse::<http::Uri>().ok()?;
    uri.host()?.trim_matches(['[', ']']).parse().ok()
}

/// Whether the text is an `https` URL with a host.
pub fn is_server(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https") && uri.host().is_some())
}

/// The CAs of a cluster, from its cluster info.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities {
    /// Active CAs, which sign certificates.
    pub now: Vec<CertificateDer<'static>>,
    /// Retiring CAs, which are still trusted.
    pub retiring: Vec<CertificateDer<'static>>,
}

/// Whether the cluster still uses the CA that signed a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssuerStatus {
    /// An active CA signed the certificate.
    #[default]
    Good,
    /// A retiring CA signed the certificate, so that it must be renewed now.
    Retiring,
    /// No CA of the cluster signed the certificate.
    Unknown,
}

impl Authorities {
    /// Finds the CA that signed a certificate.
    pub fn issuer_status(&self, certificate: &Certificate, kind: Kind) -> IssuerStatus {
        let chain = &certificate.certified.cert;
        let leads = |all: &[CertificateDer<'_>]| all.iter().any(|root| leads_to(chain, root));
        if leads(&self.now) {
            return IssuerStatus::Good;
        }
        if leads(&self.retiring) {
            return IssuerStatus::Retiring;
        }
        match kind {
            // A certificate without a chain may be signed by an intermediate CA that only the servers know. Requesting
            // another one without credentials would need an operator.
            Kind::Client if chain.len() == 1 => IssuerStatus::Good,
            Kind::Client | Kind::Serving => IssuerStatus::Unknown,
        }
    }
}
