//! TLS client settings for backends. The client certificate is kept in memory and renewed before it expires.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use tokio::sync::watch;

use super::verify::{NodeCertVerifier, Trust};
use crate::pki::{self, Credentials, Pki};

/// User of the client certificate, as in the stock API server.
const USER: &str = "kube-apiserver-kubelet-client";
/// Group of the client certificate, as in the stock API server.
const GROUP: &str = "system:masters";
/// ALPN protocol.
const PROTOCOL: &[u8] = b"http/1.1";

/// Creates TLS settings for kubelets and workloads.
#[derive(Debug)]
pub struct BackendTls {
    pki_updates: watch::Receiver<Arc<Pki>>,
    current: Mutex<Credentials>,
}

impl BackendTls {
    /// Issues the first client certificate.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn new(pki_updates: watch::Receiver<Arc<Pki>>, now: Timestamp) -> Result<Self, pki::Error> {
        let current = Mutex::new(issue(&pki_updates.borrow(), now)?);
        Ok(Self { pki_updates, current })
    }

    /// The TLS settings for a kubelet.
    ///
    /// # Errors
    /// If the certificates of this master are unusable.
    pub fn node_config(&self, node: &str, trust: Trust, now: Timestamp) -> Result<ClientConfig, String> {
        let pki = self.pki_updates.borrow().clone();
        let Credentials { certificates, key } = self.current(&pki, now).map_err(text)?;
        let chain: Result<_, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(text)?;
        client_config_builder(&pki, node, trust)?
            .with_client_auth_cert(chain.map_err(text)?, key)
            .map_err(text)
            .map(http1_only)
    }

    /// The TLS settings for a pod or service. They have no client certificate and no verification.
    ///
    /// # Errors
    /// If the certificates of this master are unusable.
    pub fn workload_config(&self) -> Result<ClientConfig, String> {
        let pki = self.pki_updates.borrow().clone();
        Ok(http1_only(client_config_builder(&pki, "", Trust::SkipVerify)?.with_no_client_auth()))
    }

    /// The client certificate. It is renewed if a third of its lifetime is left or the CAs have changed.
    fn current(&self, pki: &Pki, now: Timestamp) -> Result<Credentials, pki::Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !pki.is_valid_client(current.certificates.as_bytes(), now) {
            *current = issue(pki, now)?;
        }
        Ok(current.clone())
    }
}

/// Builds the part of the settings that verifies the server certificate.
fn client_config_builder(
    pki: &Pki,
    node: &str,
    trust: Trust,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let mut roots = RootCertStore::empty();
    for authority in pki.client_cas() {
        roots.add(authority).map_err(text)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let cluster = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let verifier = NodeCertVerifier { node: node.to_owned(), trust, cluster: cluster.map_err(text)? };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(builder.map_err(text)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

/// Restricts the settings to HTTP/1.1, which upgrades need.
fn http1_only(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn issue(pki: &Pki, now: Timestamp) -> Result<Credentials, pki::Error> {
    pki.client(USER, &[GROUP.to_owned()], now)
}
