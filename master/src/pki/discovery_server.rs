//! Certificates for `master discovery`, a server outside the cluster that joining nodes trust.

use apiserver::tls::leads_to;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

use super::ca::Purpose;
use super::read::{self, CertificateInfo};
use super::{Credentials, Error, Names, Pki, Serving, generate, pem_of, private};

/// Common name of the certificate. Clients check only the alternative names.
const NAME: &str = "coracle-discovery";

impl Pki {
    /// Creates a key and certificate for a discovery server with these names.
    ///
    /// # Errors
    /// If a name cannot be encoded.
    pub fn discovery_credentials(&self, names: &Names, now: Timestamp) -> Result<Credentials, Error> {
        let key = generate(NAME)?;
        let signed = self.intermediate.sign(NAME, &[], &Purpose::Server(names.clone()), &key, now)?;
        Ok(Credentials { certificates: pem_of(&self.with_chain(signed)), key: key.serialize_pem() })
    }
}

/// Checks the credentials of a discovery server. The key must match, and the chain must lead to the root CA (PEM).
/// Also returns the expiry.
///
/// # Errors
/// If a certificate or the key is invalid. The error starts with a verb, so that the caller can prepend the file name.
pub fn discovery_serving(
    own: &Credentials,
    authority: &str,
    now: Timestamp,
) -> Result<(Serving, Timestamp), String> {
    let chain = read::certificates(own.certificates.as_bytes())?;
    let key = read::key(own.key.as_bytes())?;
    let first = chain.first().ok_or("contains no certificate")?;
    let info = CertificateInfo::of(first)?;
    if !info.matches_key(&key) {
        return Err("contains a key and a certificate that do not match".to_owned());
    }
    if info.is_expired(now) {
        return Err("contains a certificate that has expired: create a new file on the master".to_owned());
    }
    let root = only(authority.as_bytes())?;
    if !leads_to(&chain, &root) {
        return Err("contains a certificate that does not lead to certificateAuthority".to_owned());
    }
    let until = Timestamp::from_second(info.not_after).map_err(|error| error.to_string())?;
    Ok((Serving { chain, key: private(&key), is_new: false }, until))
}

/// SHA-256 of a CA's public key (SubjectPublicKeyInfo) in hex. Join strings pin this hash.
///
/// # Errors
/// The same as [`discovery_serving`].
pub fn ca_hash(authority: &[u8]) -> Result<String, String> {
    Ok(hex::encode(Sha256::digest(CertificateInfo::of(&only(authority)?)?.spki)))
}

fn only(pem: &[u8]) -> Result<CertificateDer<'static>, String> {
    let mut all = read::certificates(pem)?.into_iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(one),
        _ => Err("contains more than one certificate as certificateAuthority".to_owned()),
    }
}
