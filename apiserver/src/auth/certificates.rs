//! Requests for certificates: who asks is who sends it, and only who may speak for a signer approves or signs.

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
use crate::admission::{Admission, Attempt, Operation};
use crate::identity::{Identity, MASTERS, PEER};
use crate::status::Status;

/// The name of requests in the store.
const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
/// The group of signers, which are no objects: roles name them.
const GROUP: &str = "certificates.k8s.io";
/// The signer whose certificates let their holders in as anybody.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// The stock server's `CertificateApproval`, `CertificateSigning` and `CertificateSubjectRestriction`, and who asks.
#[derive(Debug)]
pub struct CertificateRequests {
    auth: Arc<Auth>,
}

impl CertificateRequests {
    /// Decides by these roles.
    pub fn new(auth: Arc<Auth>) -> Arc<Self> {
        Arc::new(Self { auth })
    }

    /// Refuses whoever may not do that for the signer of a request, by its name or for its whole domain.
    fn check(&self, attempt: &Attempt<'_>, verb: &str, doing: &str) -> Result<(), Status> {
        // Whoever changes the signer with the same write is asked about the one that was.
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
            self.auth.decide(attempt.user, &Attributes::on(verb, on)).is_allowed()
        };
        if may(signer) || domain.is_some_and(|domain| may(&domain)) {
            return Ok(());
        }
        let why = format!("user not permitted to {doing} requests with signerName \"{signer}\"");
        Err(Status::forbidden(REQUESTS, attempt.name, &why))
    }
}

#[async_trait]
impl Admission for CertificateRequests {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if attempt.is_of(REQUESTS) && attempt.operation == Operation::Create && attempt.subresource.is_none()
        {
            ask_as(&mut attempt.object, attempt.user);
        }
        Ok(())
    }

    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        if !attempt.is_of(REQUESTS) {
            return Ok(());
        }
        match (attempt.operation, attempt.subresource) {
            (Operation::Create, None) => restrict(attempt),
            (Operation::Update, Some("approval")) => self.check(attempt, "approve", "approve"),
            (Operation::Update, Some("status")) if is_signed(attempt) => self.check(attempt, "sign", "sign"),
            _ => Ok(()),
        }
    }
}

/// Says in a new request who asks, whatever is said there.
fn ask_as(request: &mut Json, user: &Identity) {
    // A request without a spec is refused by its kind.
    let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let said = user.extra.iter().filter(|(name, _)| *name != PEER);
    let mut extra: Map<String, Value> =
        said.map(|(name, values)| (name.clone(), values.clone().into())).collect();
    if let Some(peer) = user.peer {
        extra.insert(PEER.to_owned(), vec![peer.to_string()].into());
    }
    let said = [
        ("username", Value::from(user.user.as_str())),
        ("uid", Value::from(user.uid.as_str())),
        ("groups", Value::from(user.groups.clone())),
        ("extra", Value::from(extra)),
    ];
    for (field, value) in said {
        let is_empty = value == "" || value == Value::Array(Vec::new()) || value == Value::Object(Map::new());
        if is_empty {
            spec.remove(field);
        } else {
            spec.insert(field.to_owned(), value);
        }
    }
}

/// Refuses a certificate that would let its holder do everything, whatever roles say.
fn restrict(attempt: &Attempt<'_>) -> Result<(), Status> {
    if signer(&attempt.object) != CLIENTS {
        return Ok(());
    }
    let refused = |why: &str| Err(Status::forbidden(REQUESTS, attempt.name, why));
    match organizations(&attempt.object) {
        None => refused("failed to parse CSR: it is no PEM of a certificate request whose names can be read"),
        Some(groups) if groups.iter().any(|group| group == MASTERS) => {
            refused(&format!("use of {CLIENTS} signer with {MASTERS} group is not allowed"))
        }
        Some(_) => Ok(()),
    }
}

/// Every O of the subject; `None` for what cannot be read to its end.
fn organizations(request: &Json) -> Option<Vec<String>> {
    let text = request.get("spec")?.get("request")?.as_str()?;
    let (_, pem) = parse_x509_pem(&STANDARD.decode(text).ok()?).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    subject.iter_organization().map(|group| group.as_str().ok().map(str::to_owned)).collect()
}

/// Whether a write of the status is one that signs, or says that nobody will.
fn is_signed(attempt: &Attempt<'_>) -> bool {
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
