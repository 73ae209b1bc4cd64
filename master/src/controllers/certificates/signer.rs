//! The CSR signing controller: signs approved requests of the signers that every cluster has.

use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::PEER;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::name_in_use::{self, Applicant};
use super::{KIND, NAME_IN_USE, SIGNING, find, with_condition, without_condition};
use crate::controllers::Authority;
use crate::controllers::informers::Change;
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::work_queue::{Controller, WorkQueue};
use crate::objects::{CertificateSigningRequest, Lease};
use crate::options::{ApprovalPolicy, NodeAdmission, NodeMode};
use crate::pki::{Pki, Request, Signer, node};
use crate::trust;

/// The reason of the condition `Failed`, as in the stock signers.
const REASON: &str = "SignerValidationFailure";

/// Retry interval of a request whose node name is in use.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The namespace of node leases.
const NODE_LEASES: &str = "kube-node-lease";

#[derive(Debug)]
pub struct CsrSigningController {
    client: Client,
    /// Client with the master's permissions. It records public keys at Nodes.
    master: Client,
    pki: Arc<Pki>,
    nodes: NodeAdmission,
    /// Whether the policy approves every request, so that an approval proves nothing.
    approves_everyone: bool,
}

impl CsrSigningController {
    /// Creates the controller. It signs with the CAs of `authority`, and records node keys through `master`.
    pub fn new(client: Client, master: Client, authority: &Authority) -> Self {
        let approves_everyone = authority.approval.policy == ApprovalPolicy::InsecureAlwaysApprove;
        Self { client, master, pki: authority.pki.clone(), nodes: authority.nodes.clone(), approves_everyone }
    }

    /// Records the node's public key before the node gets its certificate.
    ///
    /// With certificate registration, this creates a Node that reserves the name. Otherwise the key is recorded
    /// when the node creates its Node.
    async fn register(&self, request: &CertificateSigningRequest) -> Result<(), Error> {
        let Ok(join) = join(request) else { return Ok(()) };
        let Some(node) = node::of_user(&join.common_name) else { return Ok(()) };
        let key = join.key_hash();
        let is_renewal = is_renewal(request, node);
        if let Some(found) = self.master.find(&Kind::NODE, "", node).await? {
            if self.approves_everyone && !is_renewal {
                return Ok(());
            }
            let keys = trust::with_key(&found, &key, is_renewal);
            let patch = json!({"metadata": {"annotations": {trust::KEYS: keys}}});
            self.master.patch(&Kind::NODE, "", node, patch).await?;
        } else if self.nodes.mode == NodeMode::Certificate {
            let annotations = json!({trust::KEYS: key, trust::REGISTERED_FROM: request.extra(PEER), trust::RESERVED: "true"});
            let object = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "annotations": annotations},
            });
            self.master.create(&Kind::NODE, "", object).await?;
        }
        Ok(())
    }

    /// Returns the reason why a request for a node's client certificate cannot be signed yet.
    async fn conflict(
        &self,
        request: &CertificateSigningRequest,
        signer: Signer,
    ) -> Result<Option<String>, Error> {
        let Ok(join) = join(request) else { return Ok(None) };
        let Some(node) = node::of_user(&join.common_name) else { return Ok(None) };
        if signer != Signer::NodeClient || is_renewal(request, node) {
            return Ok(None);
        }
        let Some(found) = self.master.find_as(&Kind::NODE, "", node).await? else { return Ok(None) };
        let lease: Option<Lease> = self.master.find_as(&Kind::LEASE, NODE_LEASES, node).await?;
        let key = join.key_hash();
        let applicant = Applicant { key: &key, peer: request.extra(PEER).parse().ok() };
        Ok(name_in_use::conflict(&found, lease.as_ref(), applicant, Timestamp::now()))
    }
}

fn join(request: &CertificateSigningRequest) -> Result<Request, String> {
    Request::read(&request.request().map_err(|error| error.to_string())?)
}

/// Whether the node requests the certificate with a certificate that it already has.
fn is_renewal(request: &CertificateSigningRequest, node: &str) -> bool {
    let is_in = request.spec.groups.iter().any(|group| &**group == node::GROUP);
    is_in && node::of_user(&request.spec.username) == Some(node)
}

/// Returns the signer of a request that is approved but not signed yet.
fn due(request: &CertificateSigningRequest) -> Option<Signer> {
    let is_due = request.has("Approved")
        && !request.has("Denied")
        && !request.has("Failed")
        && !request.is_signed()
        && !request.metadata.is_terminating();
    Signer::of(&request.spec.signer_name).filter(|_| is_due)
}

/// Signs the request.
///
/// # Errors
/// If the request is invalid. The error becomes the message of the condition `Failed`.
pub(super) fn certificate(
    request: &CertificateSigningRequest,
    signer: Signer,
    pki: &Pki,
    now: Timestamp,
) -> Result<String, String> {
    let join = join(request)?;
    let usages = signer.check(&join, &request.usages())?;
    pki.issue(&join, &usages, request.spec.expiration_seconds, now).map_err(|error| error.to_string())
}

/// Adds the certificate, or the condition `Failed` if the request is invalid.
pub(super) fn with_result(mut request: Json, result: Result<String, String>, now: Timestamp) -> Json {
    match result {
        Ok(chain) => {
            if let Value::Object(status) = request.entry("status").or_insert_with(|| json!({})) {
                status.insert("certificate".to_owned(), STANDARD.encode(chain).into());
            }
            request
        }
        Err(why) => with_condition(request, "Failed", REASON, &why, now),
    }
}

#[async_trait]
impl Controller for CsrSigningController {
    fn name(&self) -> &'static str {
        SIGNING
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if let (true, Some(request)) = (change.kind.is(&KIND), &change.now) {
            queue.add(&request.name);
        }
    }

    async fn reconcile(&self, name: &str, _: &WorkQueue) -> Result<Action, Error> {
        let Some((request, json)) = find(&self.client, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let Some(signer) = due(&request) else { return Ok(Action::AwaitChange) };
        if let Some(why) = self.conflict(&request, signer).await? {
            if !request.has(NAME_IN_USE) {
                tracing::warn!(
                    request = name,
                    why,
                    "an approved certificate request waits: its node name is in use"
                );
                let held = with_condition(json, NAME_IN_USE, name_in_use::REASON, &why, Timestamp::now());
                self.client.update(&KIND, "status", held).await?;
            }
            return Ok(Action::RequeueAfter(RETRY_INTERVAL));
        }
        let now = Timestamp::now();
        let result = certificate(&request, signer, &self.pki, now);
        if signer == Signer::NodeClient && result.is_ok() {
            self.register(&request).await?;
        }
        let written = with_result(without_condition(json, NAME_IN_USE), result, now);
        self.client.update(&KIND, "status", written).await?;
        Ok(Action::AwaitChange)
    }
}
