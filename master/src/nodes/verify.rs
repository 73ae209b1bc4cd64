//! Whether whoever answers at a node's address is that node: its certificate is of this cluster, for that address, and the
//! node's own. Addresses are given out again, and a node that gets another's must not be taken for it (KEP-4872).

use std::sync::Arc;

use apiserver::Identity;
use apiserver::auth::nodes::node_of;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Who is believed to be a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The node alone.
    Node,
    /// Whoever answers: somebody has asked for a log from a node that has no certificate of the cluster.
    Anybody,
}

/// Decides about what a node shows.
#[derive(Debug)]
pub struct OfNode {
    /// The node's name.
    pub node: String,
    /// Whether anything is decided.
    pub trust: Trust,
    /// Decides about all but whose it is.
    pub cluster: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for OfNode {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.trust == Trust::Anybody {
            return Ok(ServerCertVerified::assertion());
        }
        let verified =
            self.cluster.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        let whose = Identity::of_certificate(end_entity);
        if whose.as_ref().and_then(node_of) == Some(&self.node) {
            return Ok(verified);
        }
        let user = whose.map_or_else(|| "nobody".to_owned(), |whose| format!("{:?}", whose.user));
        Err(Error::General(format!("it is of {user}, not of the node {:?}", self.node)))
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

/// What is wrong with a handshake, for people.
pub fn told(error: &Error) -> String {
    let why = match error {
        Error::General(why) => why.clone(),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "it has expired".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "it is not valid yet".to_owned(),
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "it is signed by an authority that is not this cluster's".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "it is not for this address".to_owned(),
        Error::InvalidCertificate(other) => other.to_string(),
        Error::InvalidMessage(_) => return "tls: what answers does not speak TLS".to_owned(),
        other => return format!("tls: {other}"),
    };
    format!("tls: failed to verify certificate: {why}")
}
