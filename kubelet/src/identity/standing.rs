//! Whose a certificate is: of the cluster as it is, of a root on its way out, or of somebody else. Pure.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::certificate::Certificate;
use super::request::Kind;

/// The authorities of a cluster, as it tells of them itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities {
    /// Those that sign.
    pub now: Vec<CertificateDer<'static>>,
    /// Those that are believed for a while yet.
    pub leaving: Vec<CertificateDer<'static>>,
}

/// How a certificate stands to its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It holds for as long as it says.
    #[default]
    Good,
    /// It is of a root that will be retired: another is due now.
    Leaving,
    /// Nobody in the cluster believes it.
    Foreign,
}

impl Authorities {
    /// How that certificate stands to them.
    pub fn standing(&self, certificate: &Certificate, kind: Kind) -> Standing {
        let chain = &certificate.certified.cert;
        let leads = |all: &[CertificateDer<'_>]| all.iter().any(|root| leads_to(chain, root));
        if leads(&self.now) {
            return Standing::Good;
        }
        if leads(&self.leaving) {
            return Standing::Leaving;
        }
        match kind {
            // One that comes alone may be of an intermediate authority that servers know and this node does not. To ask for
            // another as a stranger takes a person.
            Kind::Client if chain.len() == 1 => Standing::Good,
            Kind::Client | Kind::Serving => Standing::Foreign,
        }
    }
}

/// Whether each of a chain was signed by the next, up to one that the root has signed; behind that another root may be led to.
fn leads_to(chain: &[CertificateDer<'_>], root: &[u8]) -> bool {
    let Some(end) = chain.iter().position(|signed| is_signed_by(signed, root)) else { return false };
    chain.iter().zip(chain.iter().skip(1)).take(end).all(|(signed, signer)| is_signed_by(signed, signer))
}

/// Whether one certificate was signed by the key of the other.
fn is_signed_by(der: &[u8], authority: &[u8]) -> bool {
    let (Ok((_, signed)), Ok((_, authority))) =
        (X509Certificate::from_der(der), X509Certificate::from_der(authority))
    else {
        return false;
    };
    signed.issuer().as_raw() == authority.subject().as_raw()
        && signed.verify_signature(Some(authority.public_key())).is_ok()
}
