//! Checks the certificate chains of the control plane and nodes. rustls verifies handshakes.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Whether the next certificate signed each certificate of the chain, and `root` signed the last one.
pub fn leads_to(chain: &[CertificateDer<'_>], root: &[u8]) -> bool {
    let Some(end) = chain.iter().position(|signed| is_signed_by(signed, root)) else { return false };
    chain.iter().zip(chain.iter().skip(1)).take(end).all(|(signed, signer)| is_signed_by(signed, signer))
}

/// Whether the key of `authority` signed a certificate (DER).
pub fn is_signed_by(der: &[u8], authority: &[u8]) -> bool {
    let (Ok((_, signed)), Ok((_, authority))) =
        (X509Certificate::from_der(der), X509Certificate::from_der(authority))
    else {
        return false;
    };
    signed.issuer().as_raw() == authority.subject().as_raw()
        && signed.verify_signature(Some(authority.public_key())).is_ok()
}
