//! The front-proxy CA, which stock components require in `extension-apiserver-authentication`. Its key is
//! discarded, so that it cannot sign anything: no proxy may authenticate users in this cluster.

use jiff::Timestamp;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;

use super::ca::Purpose;
use super::read::{self, CertificateInfo, Validity};
use super::{Error, Pki, is_signed_by, pem_of};

/// Common name of the CA.
const NAME: &str = "front-proxy-ca";

impl Pki {
    /// Creates a front-proxy CA (PEM), signed by the intermediate CA. Its key is discarded.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn front_proxy_ca(&self, now: Timestamp) -> Result<String, Error> {
        let failed =
            |error: rcgen::Error| Error::Signing { subject: NAME.to_owned(), fault: error.to_string() };
        let key = KeyPair::generate().map_err(failed)?;
        let signed = self.intermediate.sign(NAME, &[], &Purpose::Intermediate, &key, now)?;
        Ok(pem_of(&[signed]))
    }

    /// True if the PEM is a front-proxy CA that this cluster signed and that is not due for renewal.
    pub fn is_front_proxy_ca(&self, pem: &str, now: Timestamp) -> bool {
        let Ok(certificates) = read::certificates(pem.as_bytes()) else { return false };
        let [certificate] = &certificates[..] else { return false };
        let is_named = Validity::of(certificate).is_ok_and(|life| life.name == NAME);
        let is_current =
            CertificateInfo::of(certificate).is_ok_and(|info| info.is_ca && !info.needs_renewal(now));
        is_named && is_current && self.client_cas().iter().any(|by| is_signed_by(certificate, by))
    }

    /// The client CA bundle in PEM.
    pub fn client_ca_pem(&self) -> String {
        let cas: Vec<CertificateDer<'static>> = self.client_cas();
        pem_of(&cas)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn front_proxy_ca_of_this_cluster_is_kept_until_it_expires() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let open = || {
            let directory = tempfile::tempdir().unwrap();
            let pki = Pki::open(directory.path(), now).unwrap();
            (pki, directory)
        };
        let ((pki, _kept), (other, _too)) = (open(), open());
        let authority = pki.front_proxy_ca(now).unwrap();
        assert!(pki.is_front_proxy_ca(&authority, now));
        let late = now + SignedDuration::from_hours(24 * 3640);
        assert!(!pki.is_front_proxy_ca(&authority, late), "it ends soon");
        assert!(!other.is_front_proxy_ca(&authority, now), "another cluster signed it");
        let second = pki.front_proxy_ca(now).unwrap();
        assert_ne!(authority, second);
        let client = pki.client(NAME, &[], now).unwrap();
        for pem in
            [String::new(), "PROXY".to_owned(), pki.root_pem(), authority + &second, client.certificates]
        {
            assert!(!pki.is_front_proxy_ca(&pem, now), "{pem}");
        }
    }
}
