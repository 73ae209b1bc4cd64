//! A server that is not the master and that the cluster's clients believe: its certificate made here, and read there.

use apiserver::tls::leads_to;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

use super::authority::Purpose;
use super::read::{self, Facts};
use super::{Credentials, Error, Names, Pki, Serving, generate, pem_of, private};

/// The name of the certificate; clients look at its alternative names only.
const NAME: &str = "coracle-discovery";

impl Pki {
    /// A new key and certificate for a server of these names.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate.
    pub fn elsewhere(&self, names: &Names, now: Timestamp) -> Result<Credentials, Error> {
        let key = generate(NAME)?;
        let signed = self.intermediate.sign(NAME, &[], &Purpose::Server(names.clone()), &key, now)?;
        Ok(Credentials { certificates: pem_of(&self.lead(signed)), key: key.serialize_pem() })
    }
}

/// What such a server shows, and until when it may, once it is sure that the clients of this authority (PEM) believe it.
///
/// # Errors
/// What is wrong with it, as the end of a sentence that begins with where it came from.
pub fn shown_elsewhere(
    own: &Credentials,
    authority: &str,
    now: Timestamp,
) -> Result<(Serving, Timestamp), String> {
    let chain = read::certificates(own.certificates.as_bytes())?;
    let key = read::key(own.key.as_bytes())?;
    let first = chain.first().ok_or("holds no certificate")?;
    let facts = Facts::of(first)?;
    if !facts.is_of(&key) {
        return Err("holds a key and a certificate that do not belong together".to_owned());
    }
    if facts.is_over(now) {
        return Err("holds a certificate that has expired: have the master make a new file".to_owned());
    }
    let root = only(authority.as_bytes())?;
    if !leads_to(&chain, &root) {
        return Err("holds a certificate that does not lead to certificateAuthority".to_owned());
    }
    let until = Timestamp::from_second(facts.not_after).map_err(|error| error.to_string())?;
    Ok((Serving { chain, key: private(&key), is_new: false }, until))
}

/// SHA-256 of the public key (SubjectPublicKeyInfo) of an authority (PEM), in hex: what a join string pins.
///
/// # Errors
/// As [`shown_elsewhere`].
pub fn hash_of(authority: &[u8]) -> Result<String, String> {
    Ok(hex::encode(Sha256::digest(Facts::of(&only(authority)?)?.public_key_info)))
}

fn only(pem: &[u8]) -> Result<CertificateDer<'static>, String> {
    let mut all = read::certificates(pem)?.into_iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(one),
        _ => Err("holds more than one certificate as certificateAuthority".to_owned()),
    }
}
