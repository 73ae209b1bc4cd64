//! A CA: a certificate with its key, which signs other certificates. Pure except for the randomness of keys.

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
use super::read::CertificateInfo;
use super::request::Request;
use super::signer::Usage;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Lifetime of CA certificates.
const CA_LIFETIME: Duration = DAY.saturating_mul(3650);
/// Default lifetime of server and client certificates.
pub const LEAF_LIFETIME: Duration = DAY.saturating_mul(365);
/// How far certificates are backdated, for machines whose clocks are behind. It is at most the lifetime, because
/// clients derive the renewal time from the whole validity.
pub const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// How far certificates that a CSR requested are backdated, as in the stock signers.
const ISSUED_BACKDATED: Duration = Duration::from_secs(5 * 60);
/// Lifetime below which this backdating does not shorten the validity, as in the stock signers.
const SHORT_LIFETIME: Duration = Duration::from_secs(8 * 60 * 60);
/// Length of serial numbers in bytes. Random numbers of this length are unique.
const SERIAL_BYTES: usize = 16;

/// The purpose of a certificate.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// A root CA.
    Root,
    /// A new root CA, signed by the old one.
    CrossSignedRoot,
    /// An intermediate CA, which signs server and client certificates.
    Intermediate,
    /// A server certificate for these names.
    Server(Names),
    /// A client certificate.
    Client,
}

/// A certificate authority.
#[derive(Debug)]
pub struct Ca {
    certificate: CertificateDer<'static>,
    info: CertificateInfo,
    key: KeyPair,
}

impl Ca {
    /// Creates a CA from a certificate and its key.
    pub fn new(certificate: CertificateDer<'static>, key: KeyPair) -> Result<Self, String> {
        let info = CertificateInfo::of(&certificate)?;
        Ok(Self { certificate, info, key })
    }

    /// Creates a self-signed root CA.
    pub fn root(common_name: &str, key: KeyPair, now: Timestamp) -> Result<Self, Error> {
        let failed = |fault: String| Error::Signing { subject: common_name.to_owned(), fault };
        let mut params = params(&Purpose::Root, &key, now).map_err(failed)?;
        params.not_before = moment(before(now, BACKDATED)).map_err(failed)?;
        params.not_after = moment(until(now, CA_LIFETIME)).map_err(failed)?;
        let made = params.self_signed(&key).map_err(|error| failed(error.to_string()))?;
        let name = der::name(common_name, &[]);
        let renamed = der::rename(made.der(), &name, &name, &key).map_err(failed)?;
        Self::new(renamed.into(), key).map_err(failed)
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Signs a certificate for a public key with the default lifetime. It expires when the CA's own certificate
    /// does, at the latest.
    ///
    /// # Errors
    /// If a name cannot be encoded.
    pub fn sign(
        &self,
        common_name: &str,
        organizations: &[String],
        purpose: &Purpose,
        public_key: &impl PublicKeyData,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, Error> {
        let life = match purpose {
            Purpose::Root | Purpose::CrossSignedRoot | Purpose::Intermediate => CA_LIFETIME,
            Purpose::Server(_) | Purpose::Client => LEAF_LIFETIME,
        };
        self.sign_for(common_name, organizations, purpose, public_key, life, now)
    }

    /// Signs a certificate with this lifetime.
    ///
    /// # Errors
    /// The same as [`Self::sign`].
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
        params.not_after = moment(until(now, life).min(self.info.not_after)).map_err(failed)?;
        self.finish(params, public_key, &der::name(common_name, organizations)).map_err(failed)
    }

    /// Signs the certificate that a CSR requests. The subject is copied byte by byte.
    ///
    /// # Errors
    /// If a name cannot be encoded, or the key would be encoded differently than in the CSR.
    pub fn issue(
        &self,
        request: &Request,
        usages: &BTreeSet<Usage>,
        life: Duration,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, Error> {
        let failed = |fault: String| Error::Signing { subject: request.common_name.clone(), fault };
        let params = self.certificate_params(request, usages, life, now).map_err(failed)?;
        let made = self.finish(params, &request.key, &request.subject).map_err(failed)?;
        if CertificateInfo::of(&made).map_err(failed)?.spki != request.spki {
            return Err(failed("its key uses an unsupported encoding".to_owned()));
        }
        Ok(made)
    }

    /// Builds the certificate parameters for a CSR.
    fn certificate_params(
        &self,
        request: &Request,
        usages: &BTreeSet<Usage>,
        life: Duration,
        now: Timestamp,
    ) -> Result<CertificateParams, String> {
        // The validity of a short-lived certificate is not shortened.
        let end = if life < SHORT_LIFETIME {
            until(now, life)
        } else {
            until(now, life.saturating_sub(ISSUED_BACKDATED))
        };
        let mut params = CertificateParams::default();
        params.not_before = moment(before(now, ISSUED_BACKDATED.min(life)))?;
        params.not_after = moment(end.min(self.info.not_after))?;
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
                let text = text.as_str().try_into().map_err(|_| format!("{text:?} is not ASCII"))?;
                params.subject_alt_names.push(make(text));
            }
        }
        Ok(params)
    }

    /// Signs the certificate and sets its subject (DER).
    fn finish(
        &self,
        params: CertificateParams,
        public_key: &impl PublicKeyData,
        subject: &[u8],
    ) -> Result<CertificateDer<'static>, String> {
        let mut own = CertificateParams::default();
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        own.key_identifier_method =
            self.info.key_id.clone().map_or(KeyIdMethod::Sha256, KeyIdMethod::PreSpecified);
        let issuer = Issuer::from_params(&own, &self.key);
        let made = params.signed_by(public_key, &issuer).map_err(|error| error.to_string())?;
        Ok(der::rename(made.der(), &self.info.subject, subject, &self.key)?.into())
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
        Purpose::Root | Purpose::CrossSignedRoot => params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
        Purpose::Intermediate => params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)),
        Purpose::Server(names) => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.subject_alt_names = alternatives(names)?;
        }
        Purpose::Client => params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
    }
    params.key_usages = match purpose {
        Purpose::Root | Purpose::CrossSignedRoot | Purpose::Intermediate => {
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]
        }
        Purpose::Server(_) | Purpose::Client => vec![KeyUsagePurpose::DigitalSignature],
    };
    Ok(params)
}

fn alternatives(names: &Names) -> Result<Vec<SanType>, String> {
    let mut all = Vec::new();
    for name in &names.dns {
        let name = name.as_str().try_into().map_err(|_| format!("{name:?} is not a DNS name"))?;
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

/// Returns a unique serial number, derived from the public key and the time of signing.
fn serial(public_key: &impl PublicKeyData, now: Timestamp) -> rcgen::SerialNumber {
    use sha2::{Digest as _, Sha256};
    let digest = Sha256::new()
        .chain_update(public_key.der_bytes())
        .chain_update(now.as_nanosecond().to_be_bytes())
        .finalize();
    let mut bytes = digest[..SERIAL_BYTES].to_vec();
    // Serial numbers are positive, and their first byte is not zero.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    rcgen::SerialNumber::from(bytes)
}

/// The Unix time at which this lifetime ends.
pub(super) fn until(now: Timestamp, life: Duration) -> i64 {
    now.as_second().saturating_add(i64::try_from(life.as_secs()).unwrap_or(i64::MAX))
}
