//! A certificate and the key it belongs to, with which others are signed. Pure but for the keys' own randomness.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::string::Ia5String;
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
use super::request::Request;
use super::signer::Usage;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The life of an authority.
const AUTHORITY_LIFE: Duration = DAY.saturating_mul(3650);
/// The life of everything signed for servers and clients where nobody says otherwise.
pub const LEAF_LIFE: Duration = DAY.saturating_mul(365);
/// Certificates begin that long ago, for machines whose clocks are behind, and none longer ago than it has to live: those
/// that hold them reckon by the whole of it when to ask for the next.
pub const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// The same for those that were asked for, and below which life none of that is taken off the end; as the stock signers do.
const ISSUED_BACKDATED: Duration = Duration::from_secs(5 * 60);
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);
/// Bytes of a serial number: as many as random numbers need to never meet.
const SERIAL_BYTES: usize = 16;

/// What a certificate is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// Signing authorities and everything else.
    Root,
    /// The same for a root, as another vouches for it.
    Bridge,
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
        let mut params = params(&Purpose::Root, &key, now).map_err(failed)?;
        params.not_before = moment(before(now, BACKDATED)).map_err(failed)?;
        params.not_after = moment(until(now, AUTHORITY_LIFE)).map_err(failed)?;
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
        let life = match purpose {
            Purpose::Root | Purpose::Bridge | Purpose::Intermediate => AUTHORITY_LIFE,
            Purpose::Server(_) | Purpose::Client => LEAF_LIFE,
        };
        self.sign_for(common_name, organizations, purpose, public_key, life, now)
    }

    /// The same for so long.
    ///
    /// # Errors
    /// As [`Self::sign`].
    pub fn sign_for(
        &self,
        common_name: &str,
        organizations: &[String],
        purpose: &Purpose,
        public_key: &impl PublicKeyData,
        life: Duration,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, Error> {
        let failed = |fault: String| Error::Signing { subject: common_name.to_owned(), fault };
        let mut params = params(purpose, public_key, now).map_err(failed)?;
        params.not_before = moment(before(now, BACKDATED.min(life))).map_err(failed)?;
        params.not_after = moment(until(now, life).min(self.facts.not_after)).map_err(failed)?;
        self.finish(params, public_key, &der::name(common_name, organizations)).map_err(failed)
    }

    /// Signs what somebody asks for, for as long; the subject is theirs to the letter.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate, or the key in it would not be the one that was sent.
    pub fn issue(
        &self,
        request: &Request,
        usages: &BTreeSet<Usage>,
        life: Duration,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, Error> {
        let failed = |fault: String| Error::Signing { subject: request.common_name.clone(), fault };
        let params = self.asked(request, usages, life, now).map_err(failed)?;
        let made = self.finish(params, &request.key, &request.subject).map_err(failed)?;
        if Facts::of(&made).map_err(failed)?.public_key_info != request.key_info {
            return Err(failed("its key is written in a way that is not signed".to_owned()));
        }
        Ok(made)
    }

    /// What the certificate for a request says.
    fn asked(
        &self,
        request: &Request,
        usages: &BTreeSet<Usage>,
        life: Duration,
        now: Timestamp,
    ) -> Result<CertificateParams, String> {
        // Of a short life nothing is taken off at its end.
        let end =
            if life < SHORT { until(now, life) } else { until(now, life.saturating_sub(ISSUED_BACKDATED)) };
        let mut params = CertificateParams::default();
        params.not_before = moment(before(now, ISSUED_BACKDATED.min(life)))?;
        params.not_after = moment(end.min(self.facts.not_after))?;
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        params.serial_number = Some(serial(&request.key, now));
        for usage in usages {
            match usage {
                Usage::DigitalSignature => params.key_usages.push(KeyUsagePurpose::DigitalSignature),
                Usage::KeyEncipherment => params.key_usages.push(KeyUsagePurpose::KeyEncipherment),
                Usage::ClientAuth => params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth),
                Usage::ServerAuth => params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth),
            }
        }
        params.subject_alt_names = alternatives(&request.names)?;
        for (texts, make) in [
            (&request.emails, SanType::Rfc822Name as fn(Ia5String) -> SanType),
            (&request.uris, SanType::URI as fn(Ia5String) -> SanType),
        ] {
            for text in texts {
                let text = text.as_str().try_into().map_err(|_| format!("{text:?} is no ASCII"))?;
                params.subject_alt_names.push(make(text));
            }
        }
        Ok(params)
    }

    /// The certificate of that subject (DER), signed.
    fn finish(
        &self,
        params: CertificateParams,
        public_key: &impl PublicKeyData,
        subject: &[u8],
    ) -> Result<CertificateDer<'static>, String> {
        let mut own = CertificateParams::default();
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        own.key_identifier_method =
            self.facts.key_id.clone().map_or(KeyIdMethod::Sha256, KeyIdMethod::PreSpecified);
        let issuer = Issuer::from_params(&own, &self.key);
        let made = params.signed_by(public_key, &issuer).map_err(|error| error.to_string())?;
        Ok(der::rename(made.der(), &self.facts.subject, subject, &self.key)?.into())
    }
}

fn params(
    purpose: &Purpose,
    public_key: &impl PublicKeyData,
    now: Timestamp,
) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::default();
    params.use_authority_key_identifier_extension = !matches!(purpose, Purpose::Root);
    params.serial_number = Some(serial(public_key, now));
    match purpose {
        Purpose::Root | Purpose::Bridge => params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
        Purpose::Intermediate => params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)),
        Purpose::Server(names) => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.subject_alt_names = alternatives(names)?;
        }
        Purpose::Client => params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
    }
    params.key_usages = match purpose {
        Purpose::Root | Purpose::Bridge | Purpose::Intermediate => {
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]
        }
        Purpose::Server(_) | Purpose::Client => vec![KeyUsagePurpose::DigitalSignature],
    };
    Ok(params)
}

fn alternatives(names: &Names) -> Result<Vec<SanType>, String> {
    let mut all = Vec::new();
    for name in &names.dns {
        let name = name.as_str().try_into().map_err(|_| format!("{name:?} is no DNS name"))?;
        all.push(SanType::DnsName(name));
    }
    all.extend(names.addresses.iter().copied().map(SanType::IpAddress));
    Ok(all)
}

fn moment(second: i64) -> Result<OffsetDateTime, String> {
    OffsetDateTime::from_unix_timestamp(second).map_err(|error| error.to_string())
}

fn before(now: Timestamp, time: Duration) -> i64 {
    now.as_second().saturating_sub(i64::try_from(time.as_secs()).unwrap_or_default())
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

/// The second that comes so long after.
pub(super) fn until(now: Timestamp, life: Duration) -> i64 {
    now.as_second().saturating_add(i64::try_from(life.as_secs()).unwrap_or(i64::MAX))
}
