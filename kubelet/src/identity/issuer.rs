//! Classifies the issuer of a certificate: an active CA of the cluster, a retiring one, or an unknown one. Pure.

use apiserver::tls::leads_to;
use rustls::pki_types::CertificateDer;

use super::certificate::Certificate;
use super::csr::Kind;

/// The CAs of a cluster, from its cluster info.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities {
    /// Active CAs, which sign.
    pub now: Vec<CertificateDer<'static>>,
    /// Retiring CAs, which are still trusted.
    pub retiring: Vec<CertificateDer<'static>>,
}

/// The status of a certificate's issuer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssuerStatus {
    /// Signed by an active CA.
    #[default]
    Good,
    /// Signed by a retiring CA, so that the certificate must be renewed now.
    Retiring,
    /// Signed by no CA of the cluster.
    Unknown,
}

impl Authorities {
    /// The status of that certificate's issuer.
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
