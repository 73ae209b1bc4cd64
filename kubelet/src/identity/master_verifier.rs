//! TLS verifier that accepts only masters. A certificate of the cluster's CA is not enough, because nodes have such
//! certificates too.

use std::sync::Arc;

use apiserver::auth::nodes::NODES;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// A DNS name in the certificate of every API server, including stock ones. It is the name of the Service through
/// which pods find the API server.
pub const NAME: &str = "kubernetes.default.svc";

/// Accepts what the inner verifier accepts, if the certificate belongs to a master.
#[derive(Debug)]
pub struct MasterVerifier(pub Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for MasterVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        let none = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
        let name = ServerName::try_from(NAME).map_err(|_| none.clone())?;
        let called = self.0.verify_server_cert(end_entity, intermediates, &name, ocsp_response, now);
        if called.is_err() || is_of_node(end_entity) {
            return Err(none);
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Whether the certificate is that of a node, or cannot be parsed.
fn is_of_node(der: &[u8]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return true };
    certificate.subject().iter_organization().any(|group| group.as_str().is_ok_and(|group| group == NODES))
}
