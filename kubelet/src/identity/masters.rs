//! TLS to masters alone: a certificate that an authority of the cluster vouches for is not enough, for nodes have those too.

use std::sync::Arc;

use apiserver::auth::nodes::NODES;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// A name that the certificate of every API server holds, ours and stock ones: it is that of the service by which pods find it.
pub const NAME: &str = "kubernetes.default.svc";

/// Takes what that one takes, where it is the certificate of a master.
#[derive(Debug)]
pub struct Masters(pub Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Masters {
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

/// Whether it is in the group of nodes, or does not read.
fn is_of_node(der: &[u8]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return true };
    certificate.subject().iter_organization().any(|group| group.as_str().is_ok_and(|group| group == NODES))
}
