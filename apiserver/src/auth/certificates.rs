//! Admission plugins for CertificateSigningRequests: set the requester, and restrict approval, signing and subjects.

use std::sync::Arc;

use api::strategy::Json;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;

use super::{Attributes, Auth, ResourceAttributes};
use crate::admission::{Admission, AdmissionRequest, Operation};
use crate::identity::{Identity, MASTERS, PEER};
use crate::status::Status;

/// Storage name of the resource.
const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
/// API group of signers. Signers are not objects; roles refer to them by name.
const GROUP: &str = "certificates.k8s.io";
/// Signer of client certificates for any identity.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// The plugin that sets the requester fields of new CSRs. It is always active, because signers trust these fields.
#[derive(Clone, Copy, Debug)]
pub struct CertificateRequester;

/// The stock plugin `CertificateApproval`: a user who approves a CSR needs the permission `approve` for its signer.
#[derive(Debug)]
pub struct CertificateApproval(pub Arc<Auth>);

/// The stock plugin `CertificateSigning`: a user who signs a CSR needs the permission `sign` for its signer.
#[derive(Debug)]
pub struct CertificateSigning(pub Arc<Auth>);

/// The stock plugin `CertificateSubjectRestriction`: rejects CSRs for client certificates in `system:masters`.
#[derive(Clone, Copy, Debug)]
pub struct CertificateSubjectRestriction;

#[async_trait]
impl Admission for CertificateRequester {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if is_write(attempt, Operation::Create, None) {
            set_requester(&mut attempt.object, attempt.user);
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for CertificateApproval {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        if is_write(attempt, Operation::Update, Some("approval")) {
            check_signer(&self.0, attempt, "approve")?;
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for CertificateSigning {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        if is_write(attempt, Operation::Update, Some("status")) && is_signed(attempt) {
            check_signer(&self.0, attempt, "sign")?;
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for CertificateSubjectRestriction {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        if is_write(attempt, Operation::Create, None) { restrict(attempt) } else { Ok(()) }
    }
}

fn is_write(attempt: &AdmissionRequest<'_>, operation: Operation, subresource: Option<&str>) -> bool {
    attempt.is_of(REQUESTS) && attempt.operation == operation && attempt.subresource == subresource
}

/// Checks the permission for the signer of a CSR. A role can name the signer or its whole domain (`domain/*`).
fn check_signer(auth: &Auth, attempt: &AdmissionRequest<'_>, verb: &str) -> Result<(), Status> {
    // The stored signer counts, in case the same write changes it.
    let signer = attempt.old.map(signer).unwrap_or_default();
    let domain = signer.split_once('/').map(|(domain, _)| format!("{domain}/*"));
    let may = |name: &str| {
        let on = ResourceAttributes {
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name: name.to_owned(),
            ..ResourceAttributes::default()
        };
        auth.decide(attempt.user, &Attributes::on(verb, on)).is_allowed()
    };
    if may(signer) || domain.is_some_and(|domain| may(&domain)) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
    Err(Status::forbidden(REQUESTS, attempt.name, &why))
}

/// Overwrites the requester fields of a new CSR with the authenticated user.
fn set_requester(request: &mut Json, user: &Identity) {
    // A request without a spec is rejected by its strategy.
    let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let fields = user.extra.iter().filter(|(name, _)| *name != PEER);
    let mut extra: Map<String, Value> =
        fields.map(|(name, values)| (name.clone(), values.clone().into())).collect();
    if let Some(peer) = user.peer {
        extra.insert(PEER.to_owned(), vec![peer.to_string()].into());
    }
    let fields = [
        ("username", Value::from(user.user.as_str())),
        ("uid", Value::from(user.uid.as_str())),
        ("groups", Value::from(user.groups.clone())),
        ("extra", Value::from(extra)),
    ];
    for (field, value) in fields {
        let is_empty = value == "" || value == Value::Array(Vec::new()) || value == Value::Object(Map::new());
        if is_empty {
            spec.remove(field);
        } else {
            spec.insert(field.to_owned(), value);
        }
    }
}

/// Rejects CSRs for client certificates in `system:masters`.
fn restrict(attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
    if signer(&attempt.object) != CLIENTS {
        return Ok(());
    }
    let refused = |why: &str| Err(Status::forbidden(REQUESTS, attempt.name, why));
    match organizations(&attempt.object) {
        None => {
            refused("failed to parse CSR: spec.request is not a PEM certificate request with readable names")
        }
        Some(groups) if groups.iter().any(|group| group == MASTERS) => {
            refused(&format!("use of {CLIENTS} signer with {MASTERS} group is not allowed"))
        }
        Some(_) => Ok(()),
    }
}

/// Every organization (O) of the subject, or `None` if the CSR cannot be parsed.
fn organizations(request: &Json) -> Option<Vec<String>> {
    let text = request.get("spec")?.get("request")?.as_str()?;
    let (_, pem) = parse_x509_pem(&STANDARD.decode(text).ok()?).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    subject.iter_organization().map(|group| group.as_str().ok().map(str::to_owned)).collect()
}

/// True if a write of the status sets the certificate or the conditions.
fn is_signed(attempt: &AdmissionRequest<'_>) -> bool {
    let part =
        |object: &Json, field: &str| object.get("status").and_then(|status| status.get(field)).cloned();
    ["certificate", "conditions"]
        .iter()
        .any(|field| part(&attempt.object, field) != attempt.old.and_then(|old| part(old, field)))
}

fn signer(request: &Json) -> &str {
    request.get("spec").and_then(|spec| spec.get("signerName")?.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
