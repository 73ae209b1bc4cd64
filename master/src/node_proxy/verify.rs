//! Verifies a kubelet's serving certificate. The cluster CA must have signed it, and it must be valid for the
//! address and issued to this node. IP addresses are used again, so the address alone does not identify the node
//! (KEP-4872).

use std::sync::Arc;

use apiserver::Identity;
use apiserver::auth::nodes::node_of;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// How a kubelet's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The certificate must belong to the node.
    Node,
    /// The certificate is not verified, because the client requested a log with `insecureSkipTLSVerifyBackend`.
    SkipVerify,
}

/// Verifies the certificate of one node.
#[derive(Debug)]
pub struct NodeCertVerifier {
    /// Name of the node.
    pub node: String,
    /// Whether the certificate is verified at all.
    pub trust: Trust,
    /// Verifies the signature and the address.
    pub cluster: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for NodeCertVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.trust == Trust::SkipVerify {
            return Ok(ServerCertVerified::assertion());
        }
        let verified =
            self.cluster.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        let whose = Identity::of_certificate(end_entity);
        if whose.as_ref().and_then(node_of) == Some(&self.node) {
            return Ok(verified);
        }
        let user = whose.map_or_else(|| "nobody".to_owned(), |whose| format!("{:?}", whose.user));
        Err(Error::General(format!("it belongs to {user}, not to the node {:?}", self.node)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.cluster.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.cluster.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.cluster.supported_verify_schemes()
    }
}

/// The text of a handshake error.
pub fn handshake_error(error: &Error) -> String {
    let why = match error {
        Error::General(why) => why.clone(),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "it has expired".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "it is not valid yet".to_owned(),
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "it is signed by a CA of another cluster".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "it is not valid for this address".to_owned(),
        Error::InvalidCertificate(other) => other.to_string(),
        Error::InvalidMessage(_) => return "tls: the server does not speak TLS".to_owned(),
        other => return format!("tls: {other}"),
    };
    format!("tls: failed to verify certificate: {why}")
}
