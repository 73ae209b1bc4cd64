//! Whose a certificate is: of the cluster as it is, of a root on its way out, or of somebody else. Pure.

use apiserver::tls::leads_to;
use rustls::pki_types::CertificateDer;

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
