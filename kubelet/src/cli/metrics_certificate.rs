//! `kubelet metrics-certificate`: issues a client certificate that can only read the metrics of this node.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use apiserver::identity::MONITORING;
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

use super::args::MetricsCertificate;
use super::print::note;
use crate::options::LOCAL_AUTHORITY;

/// Common name of the local CA.
const AUTHORITY_NAME: &str = "clients of this node";
/// Validity of the local CA in years. If an administrator removes its two files, a new CA is created.
const AUTHORITY_YEARS: i64 = 10;

/// Runs the subcommand.
pub fn run(root_dir: &Path, arguments: &MetricsCertificate) -> anyhow::Result<ExitCode> {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    issue(root_dir, arguments, today)?;
    let file = arguments.file.display();
    note(format_args!(
        "{file} holds the certificate and the key of {}; the kubelet on {} accepts it within 5 s:\n  \
         curl -k --cert {file} https://localhost:10250/metrics",
        arguments.name,
        root_dir.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Creates the local CA if it does not exist, and signs a certificate. The validity starts one day before `today` to tolerate
/// clock skew.
fn issue(root_dir: &Path, arguments: &MetricsCertificate, today: Date) -> anyhow::Result<()> {
    let directory = root_dir.join("pki");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.with_context(|| format!("cannot make {}", directory.display()))?;
    let authority_key = authority(&directory, today)?;
    let issuer = Issuer::new(authority_params(today)?, authority_key);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, MONITORING);
    params.distinguished_name.push(DnType::CommonName, arguments.name.as_str());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    set_validity(
        &mut params,
        today.checked_sub(1.day())?,
        today.checked_add(i64::from(arguments.days).days())?,
    );
    let certificate = params.signed_by(&key, &issuer)?;
    let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
    write_new(&arguments.file, &pem, 0o600)
        .with_context(|| format!("cannot write {}", arguments.file.display()))
}

/// The key of the local CA. Creates key and certificate if they do not exist. The certificate is written last, so
/// that the kubelet never trusts a CA whose key is lost.
fn authority(directory: &Path, today: Date) -> anyhow::Result<KeyPair> {
    let (key_path, certificate_path) =
        (directory.join("local-client-ca.key"), directory.join(LOCAL_AUTHORITY));
    let key = match fs::read_to_string(&key_path) {
        Ok(pem) => KeyPair::from_pem(&pem).with_context(|| {
            let key = key_path.display();
            format!(
                "{key} contains no key; remove it and {}, and run this command again",
                certificate_path.display()
            )
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate()?;
            write_new(&key_path, &key.serialize_pem(), 0o600)
                .with_context(|| format!("cannot write {}", key_path.display()))?;
            key
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", key_path.display())),
    };
    if !certificate_path.exists() {
        let certificate = authority_params(today)?.self_signed(&key)?;
        write_new(&certificate_path, &certificate.pem(), 0o644)
            .with_context(|| format!("cannot write {}", certificate_path.display()))?;
    }
    Ok(key)
}

fn authority_params(today: Date) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    set_validity(&mut params, today.checked_sub(1.day())?, today.checked_add(AUTHORITY_YEARS.years())?);
    Ok(params)
}

/// Sets the validity period, from midnight to midnight in UTC.
fn set_validity(params: &mut CertificateParams, from: Date, until: Date) {
    let midnight = |day: Date| {
        rcgen::date_time_ymd(i32::from(day.year()), day.month().unsigned_abs(), day.day().unsigned_abs())
    };
    (params.not_before, params.not_after) = (midnight(from), midnight(until));
}

/// Creates a file. It fails if the file exists, so that no key is overwritten.
fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    //! Tests of the issued certificate and the local CA.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;
    use std::time::Duration;

    use rustls::RootCertStore;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, UnixTime};
    use rustls::server::WebPkiClientVerifier;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    use super::*;

    #[test]
    fn metrics_certificates_have_one_ca_and_the_monitoring_group() {
        let folder = tempfile::tempdir().unwrap();
        let root_dir = folder.path().join("state");
        let today = Date::constant(2026, 2, 28);
        for name in ["prometheus", "other"] {
            let file = folder.path().join(name);
            let arguments = MetricsCertificate { file: file.clone(), name: name.to_owned(), days: 2 };
            issue(&root_dir, &arguments, today).unwrap();
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            let pem = fs::read(&file).unwrap();
            let der = CertificateDer::from_pem_slice(&pem).unwrap();
            let (_, certificate) = X509Certificate::from_der(&der).unwrap();
            let authority = fs::read(root_dir.join("pki").join(LOCAL_AUTHORITY)).unwrap();
            let authority_der = CertificateDer::from_pem_slice(&authority).unwrap();
            let (_, authority) = X509Certificate::from_der(&authority_der).unwrap();
            assert_eq!(certificate.issuer(), authority.subject());
            let mut roots = RootCertStore::empty();
            roots.add(authority_der.clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            let noon = Date::constant(2026, 2, 28).at(12, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap();
            let noon = Duration::from_secs(noon.timestamp().as_second().unsigned_abs());
            verifier.verify_client_cert(&der, &[], UnixTime::since_unix_epoch(noon)).unwrap();
            assert_eq!(certificate.subject().to_string(), format!("O={MONITORING}, CN={name}"));
            let validity = certificate.validity();
            let days = (validity.not_after.timestamp() - validity.not_before.timestamp()) / 86_400;
            assert_eq!(days, 3);
            assert!(issue(&root_dir, &arguments, today).is_err(), "no file is overwritten");
        }
    }
}
