//! Who the master is to nodes: a certificate that lives in memory alone and is renewed before it ends.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use tokio::sync::watch;

use super::verify::{OfNode, Trust};
use crate::pki::{self, Credentials, Pki};

/// The master's name to nodes, and the group of those who may everything; the stock server's.
const USER: &str = "kube-apiserver-kubelet-client";
const GROUP: &str = "system:masters";
/// What is spoken.
const PROTOCOL: &[u8] = b"http/1.1";

/// What is shown to nodes, and what is expected of them.
#[derive(Debug)]
pub struct Shown {
    authorities: watch::Receiver<Arc<Pki>>,
    current: Mutex<Credentials>,
}

impl Shown {
    /// A certificate of the authorities as they are at a time.
    ///
    /// # Errors
    /// When none can be signed.
    pub fn new(authorities: watch::Receiver<Arc<Pki>>, now: Timestamp) -> Result<Self, pki::Error> {
        let current = Mutex::new(made(&authorities.borrow(), now)?);
        Ok(Self { authorities, current })
    }

    /// How to shake hands with a node.
    ///
    /// # Errors
    /// What cannot be used of what this master has itself.
    pub fn to_node(&self, node: &str, trust: Trust, now: Timestamp) -> Result<ClientConfig, String> {
        let pki = self.authorities.borrow().clone();
        let Credentials { certificates, key } = self.current(&pki, now).map_err(text)?;
        let chain: Result<_, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(text)?;
        believing(&pki, node, trust)?
            .with_client_auth_cert(chain.map_err(text)?, key)
            .map_err(text)
            .map(plain)
    }

    /// How to shake hands with whatever listens in a pod: it is shown nothing, and believed whatever it shows.
    ///
    /// # Errors
    /// What cannot be used of what this master has itself.
    pub fn to_workload(&self) -> Result<ClientConfig, String> {
        let pki = self.authorities.borrow().clone();
        Ok(plain(believing(&pki, "", Trust::Anybody)?.with_no_client_auth()))
    }

    /// The certificate, made anew when a third of its life is left or the authorities are others.
    fn current(&self, pki: &Pki, now: Timestamp) -> Result<Credentials, pki::Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !pki.is_good_client(current.certificates.as_bytes(), now) {
            *current = made(pki, now)?;
        }
        Ok(current.clone())
    }
}

/// Half of it: whom to believe.
fn believing(
    pki: &Pki,
    node: &str,
    trust: Trust,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let mut roots = RootCertStore::empty();
    for authority in pki.client_authorities() {
        roots.add(authority).map_err(text)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let cluster = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let verifier = OfNode { node: node.to_owned(), trust, cluster: cluster.map_err(text)? };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(builder.map_err(text)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

/// Upgrades are of one version alone.
fn plain(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn made(pki: &Pki, now: Timestamp) -> Result<Credentials, pki::Error> {
    pki.client(USER, &[GROUP.to_owned()], now)
}
