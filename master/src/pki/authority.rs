//! A certificate and the key it belongs to, with which others are signed. Pure but for the keys' own randomness.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;

use super::Error;
use super::der;
use super::names::Names;
use super::read::Facts;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The life of an authority.
const AUTHORITY_LIFE: Duration = DAY.saturating_mul(3650);
/// The life of everything signed for servers and clients.
pub const LEAF_LIFE: Duration = DAY.saturating_mul(365);
/// Certificates begin that long ago, for machines whose clocks are behind.
const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// Bytes of a serial number: as many as random numbers need to never meet.
const SERIAL_BYTES: usize = 16;

/// What a certificate is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// Signing authorities and everything else.
    Root,
    /// Signing servers and clients.
    Intermediate,
    /// Being one of these names.
    Server(Names),
    /// Being a user.
    Client,
}

/// Someone who signs.
#[derive(Debug)]
pub struct Authority {
    certificate: CertificateDer<'static>,
    facts: Facts,
    key: KeyPair,
}

impl Authority {
    /// Of a certificate and its key, which belong together.
    pub fn new(certificate: CertificateDer<'static>, key: KeyPair) -> Result<Self, String> {
        let facts = Facts::of(&certificate)?;
        Ok(Self { certificate, facts, key })
    }

    /// A certificate that the key signs for itself.
    pub fn root(common_name: &str, key: KeyPair, now: Timestamp) -> Result<Self, Error> {
        let failed = |fault: String| Error::Signing { subject: common_name.to_owned(), fault };
        let params = params(&Purpose::Root, &key, until(now, AUTHORITY_LIFE), now).map_err(failed)?;
        let made = params.self_signed(&key).map_err(|error| failed(error.to_string()))?;
        let name = der::name(common_name, &[]);
        let renamed = der::rename(made.der(), &name, &name, &key).map_err(failed)?;
        Self::new(renamed.into(), key).map_err(failed)
    }

    /// The certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Signs a certificate for someone's public key. It ends with the authority's own at the latest.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate.
    pub fn sign(
        &self,
        common_name: &str,
        organizations: &[String],
        purpose: &Purpose,
        public_key: &impl PublicKeyData,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, Error> {
        let failed = |fault: String| Error::Signing { subject: common_name.to_owned(), fault };
        let life = match purpose {
            Purpose::Root | Purpose::Intermediate => AUTHORITY_LIFE,
            Purpose::Server(_) | Purpose::Client => LEAF_LIFE,
        };
        let not_after = until(now, life).min(self.facts.not_after);
        let params = params(purpose, public_key, not_after, now).map_err(failed)?;
        let mut own = CertificateParams::default();
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        own.key_identifier_method =
            self.facts.key_id.clone().map_or(KeyIdMethod::Sha256, KeyIdMethod::PreSpecified);
        let issuer = Issuer::from_params(&own, &self.key);
        let made = params.signed_by(public_key, &issuer).map_err(|error| failed(error.to_string()))?;
        let subject = der::name(common_name, organizations);
        let renamed = der::rename(made.der(), &self.facts.subject, &subject, &self.key).map_err(failed)?;
        Ok(renamed.into())
    }
}

fn params(
    purpose: &Purpose,
    public_key: &impl PublicKeyData,
    not_after: i64,
    now: Timestamp,
) -> Result<CertificateParams, String> {
    let moment = |second: i64| OffsetDateTime::from_unix_timestamp(second).map_err(|error| error.to_string());
    let backdated = i64::try_from(BACKDATED.as_secs()).unwrap_or_default();
    let mut params = CertificateParams::default();
    params.not_before = moment(now.as_second().saturating_sub(backdated))?;
    params.not_after = moment(not_after)?;
    params.use_authority_key_identifier_extension = !matches!(purpose, Purpose::Root);
    params.serial_number = Some(serial(public_key, now));
    match purpose {
        Purpose::Root => params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
        Purpose::Intermediate => params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)),
        Purpose::Server(names) => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            for name in &names.dns {
                let name = name.as_str().try_into().map_err(|_| format!("{name:?} is no DNS name"))?;
                params.subject_alt_names.push(SanType::DnsName(name));
            }
            params.subject_alt_names.extend(names.addresses.iter().copied().map(SanType::IpAddress));
        }
        Purpose::Client => params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
    }
    params.key_usages = match purpose {
        Purpose::Root | Purpose::Intermediate => {
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]
        }
        Purpose::Server(_) | Purpose::Client => vec![KeyUsagePurpose::DigitalSignature],
    };
    Ok(params)
}

/// A number for a certificate that no other of the same authority has: of the key and the moment it is signed for.
fn serial(public_key: &impl PublicKeyData, now: Timestamp) -> rcgen::SerialNumber {
    use sha2::{Digest as _, Sha256};
    let digest = Sha256::new()
        .chain_update(public_key.der_bytes())
        .chain_update(now.as_nanosecond().to_be_bytes())
        .finalize();
    let mut bytes = digest[..SERIAL_BYTES].to_vec();
    // Serial numbers are positive and their first byte is not zero.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    rcgen::SerialNumber::from(bytes)
}

fn until(now: Timestamp, life: Duration) -> i64 {
    now.as_second().saturating_add(i64::try_from(life.as_secs()).unwrap_or(i64::MAX))
}
