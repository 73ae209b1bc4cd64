//! TLS client configuration: which servers to trust, and the node's certificate.

use std::sync::Arc;

use apiserver::tls::Unverified;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};

use super::master_verifier::MasterVerifier;

/// Which servers to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any server. Only for public data that is verified in another way.
    Any,
    /// Servers with a certificate from one of these CAs.
    Authorities(Vec<CertificateDer<'static>>),
    /// Masters with a certificate from one of these CAs. Other machines of the cluster have such certificates too, but
    /// are not trusted.
    Masters(Vec<CertificateDer<'static>>),
}

/// Creates a client configuration with this trust and this client certificate.
///
/// # Errors
/// If a CA certificate is invalid.
pub fn config(trust: &Trust, shown: Option<Arc<CertifiedKey>>) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::Any => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        Trust::Authorities(authorities) => builder.with_root_certificates(roots(authorities)?),
        Trust::Masters(authorities) => {
            let roots = Arc::new(roots(authorities)?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(MasterVerifier(verifier)))
        }
    };
    let mut config = match shown {
        Some(shown) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown))),
        None => builder.with_no_client_auth(),
    };
    // With HTTP/2, one connection carries all requests and watches.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    Ok(roots)
}
