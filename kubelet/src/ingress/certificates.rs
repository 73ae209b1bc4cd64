//! Selects the certificate of a TLS connection by the name that the client requests (SNI).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::cluster::ingresses::{IngressSnapshot, NamespacedName, TlsFiles};

/// The name in the certificate that clients get for hosts without one.
const DEFAULT_NAME: &str = "coracle-ingress-default-certificate";

/// The certificates of all hosts. New connections use the latest ones.
#[derive(Debug)]
pub struct Certificates {
    /// Self-signed, in memory only.
    fallback: Arc<CertifiedKey>,
    current: RwLock<Hosts>,
}

#[derive(Debug, Default)]
struct Hosts {
    exact: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// By the domain after `*.`.
    wildcards: HashMap<Box<str>, Arc<CertifiedKey>>,
    default: Option<Arc<CertifiedKey>>,
}

/// A Secret whose certificate cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The Secret.
    pub secret: NamespacedName,
    /// Why.
    pub reason: String,
}

impl Certificates {
    /// Creates a set that has only a self-signed certificate.
    ///
    /// # Errors
    /// If the key cannot be generated.
    pub fn new() -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed([DEFAULT_NAME.to_owned()])
            .map_err(|error| error.to_string())?;
        let files = TlsFiles { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() };
        Ok(Self { fallback: Arc::new(certified(&files)?), current: RwLock::default() })
    }

    /// The TLS configuration of the listener: TLS 1.2 and newer, HTTP/2 preferred.
    ///
    /// # Errors
    /// If the cryptography provider supports no protocol version.
    pub fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Replaces the certificates. Returns the invalid ones; their hosts get the default certificate.
    pub fn set(&self, snapshot: &IngressSnapshot) -> Vec<Invalid> {
        let (mut hosts, mut invalid) = (Hosts::default(), Vec::new());
        let mut parsed = HashMap::new();
        for (secret, files) in &snapshot.certificates {
            match certified(files) {
                Ok(key) => drop(parsed.insert(secret.clone(), Arc::new(key))),
                Err(reason) => invalid.push(Invalid { secret: secret.clone(), reason }),
            }
        }
        let mut sorted: Vec<_> = snapshot.ingresses.iter().collect();
        sorted.sort_by(|one, other| (&one.1.created, one.0).cmp(&(&other.1.created, other.0)));
        for (name, ingress) in sorted {
            for tls in &ingress.tls {
                let secret = NamespacedName::new(&name.namespace, &tls.secret_name);
                let Some(key) = parsed.get(&secret) else { continue };
                for host in &tls.hosts {
                    let host = host.to_ascii_lowercase();
                    let (table, host) = match host.strip_prefix("*.") {
                        Some(domain) => (&mut hosts.wildcards, domain),
                        None => (&mut hosts.exact, &*host),
                    };
                    table.entry(host.into()).or_insert_with(|| key.clone());
                }
                if tls.hosts.is_empty() {
                    hosts.default.get_or_insert_with(|| key.clone());
                }
            }
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = hosts;
        invalid
    }

    /// The certificate for a host.
    fn find(&self, host: Option<&str>) -> Arc<CertifiedKey> {
        let hosts = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let host = host.unwrap_or_default().to_ascii_lowercase();
        let wildcard = || hosts.wildcards.get(host.split_once('.')?.1);
        let found = hosts.exact.get(&*host).or_else(wildcard).or(hosts.default.as_ref());
        found.unwrap_or(&self.fallback).clone()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.find(hello.server_name()))
    }
}

/// Parses a certificate chain with its key, and checks that they belong together.
fn certified(files: &TlsFiles) -> Result<CertifiedKey, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(files.certificate.as_bytes()).collect();
    let chain = chain.map_err(|_| "tls.crt is not a certificate in PEM".to_owned())?;
    if chain.is_empty() {
        return Err("tls.crt contains no certificate".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(files.key.as_bytes());
    let key = key.map_err(|_| "tls.key contains no private key in PEM".to_owned())?;
    CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    //! Tests of the selection of certificates.
    use super::*;
    use crate::cluster::ingresses::{Ingress, Tls};

    fn files(name: &str) -> Arc<TlsFiles> {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        Arc::new(TlsFiles { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    #[test]
    fn hosts_get_their_own_then_the_wildcard_then_the_default_certificate() {
        let mut snapshot = IngressSnapshot::default();
        let tls = |hosts: &[&str], secret: &str| Tls {
            hosts: hosts.iter().map(|host| (*host).into()).collect(),
            secret_name: secret.into(),
        };
        let tls = vec![tls(&["a.foo.com"], "a"), tls(&["*.foo.com"], "w"), tls(&["bad.com"], "bad")];
        let ingress = Arc::new(Ingress { tls, ..Ingress::default() });
        snapshot.ingresses.insert(NamespacedName::new("x", "i"), ingress);
        for name in ["a", "w", "d"] {
            snapshot.certificates.insert(NamespacedName::new("x", name), files(name));
        }
        let mixed = TlsFiles { key: files("other").key.clone(), ..(*files("bad")).clone() };
        snapshot.certificates.insert(NamespacedName::new("x", "bad"), Arc::new(mixed));
        let certificates = Certificates::new().unwrap();
        let invalid = certificates.set(&snapshot);
        assert_eq!(invalid.len(), 1);
        assert_eq!(
            invalid[0].secret,
            NamespacedName::new("x", "bad"),
            "its key belongs to another certificate"
        );
        let of = |host| certificates.find(host).cert.clone();
        let expected =
            |name| certified(&snapshot.certificates[&NamespacedName::new("x", name)]).unwrap().cert;
        assert_eq!(of(Some("A.foo.com")), expected("a"));
        assert_eq!(of(Some("b.foo.com")), expected("w"));
        for host in [Some("x.b.foo.com"), Some("bad.com"), None] {
            assert_eq!(of(host), certificates.fallback.cert);
        }
        let default = Arc::new(Ingress {
            tls: vec![Tls { hosts: Vec::new(), secret_name: "d".into() }],
            ..Ingress::default()
        });
        snapshot.ingresses.insert(NamespacedName::new("x", "j"), default);
        certificates.set(&snapshot);
        assert_eq!(of(None), expected("d"));
    }
}
