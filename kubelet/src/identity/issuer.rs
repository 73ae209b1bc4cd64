//! Classifies the issuer of a certificate: an active CA of the cluster, a retiring one, or an unknown one. Pure.

use apiserver::tls::leads_to;
use rustls::pki_types::CertificateDer;

use super::certificate::Certificate;
use super::csr::Kind;

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
