//! Restricts the certificate requests of a node to its own name. Pure.

use api::strategy::Json;

use crate::objects::{self, CertificateSigningRequest};
use crate::pki::{Request, Signer, node};

/// The resource name of CertificateSigningRequests.
pub(super) const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

/// Rejects requests for the name of another node.
///
/// # Errors
/// The stock message.
pub(super) fn check(node: &str, request: &Json) -> Result<(), String> {
    let request: CertificateSigningRequest = objects::read(request);
    match Signer::of(&request.spec.signer_name) {
        Some(Signer::NodeClient | Signer::NodeServing) => {}
        // RBAC and administrators decide about other certificates.
        Some(Signer::Client) | None => return Ok(()),
    }
    let pem = request.request().map_err(|error| format!("unable to parse csr: {error}"))?;
    let asked = Request::read(&pem).map_err(|why| format!("unable to parse csr: {why}"))?;
    if node::of_user(&asked.common_name) == Some(node) {
        return Ok(());
    }
    Err(format!("can only create a node CSR with CN=system:node:{node}"))
}
