//! The CSR approving controller: decides node requests by policy, and leaves all others to administrators.

use std::collections::BTreeMap;
use std::net::IpAddr;

use apiserver::identity::{MASTERS, PEER};
use async_trait::async_trait;
use client::{Client, Error, Kind};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::webhook::Webhook;
use super::{APPROVING, KIND, find, with_condition};
use crate::approval::{self, ApprovalDecision, JoinRequest, NodeFacts, Policy};
use crate::controllers::Authority;
use crate::controllers::fields::Fields;
use crate::controllers::informers::{Change, SharedInformers};
use crate::controllers::object::{Object, Source as _, unreadable};
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::work_queue::{Controller, WorkQueue};
use crate::objects::CertificateSigningRequest;
use crate::pki::{Names, Request, node};

/// Number of concurrent reconciliations, so that the store can batch commits when a thousand nodes join.
const WORKERS: usize = 4;
/// The condition reason of an approval, as in the stock approver.
const APPROVED: &str = "AutoApproved";
/// The condition reason of a denial.
const DENIED: &str = "AutoDenied";
/// The kind of authorization checks.
const REVIEWS: Kind = Kind::of("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", false);

pub struct CsrApprovingController {
    client: Client,
    informers: SharedInformers,
    policy: Box<dyn Policy>,
    webhook: Option<Webhook>,
    masters: Names,
}

impl CsrApprovingController {
    /// Creates the controller with the approval policy of `authority`.
    pub fn new(client: Client, informers: SharedInformers, authority: &Authority) -> Self {
        let Authority { approval, webhook, masters, .. } = authority;
        let policy = approval::policy(approval);
        Self { client, informers, policy, webhook: webhook.clone(), masters: masters.clone() }
    }

    async fn evaluate(
        &self,
        request: &CertificateSigningRequest,
        join: &JoinRequest,
    ) -> Result<ApprovalDecision, Error> {
        let node = self.informers.get(&Kind::NODE, "", &join.node);
        let names = node.as_deref().map(addresses).unwrap_or_default();
        let known = NodeFacts { exists: node.is_some(), names, masters: self.masters.clone() };
        let mut decision = approval::decide(&*self.policy, join, &known);
        if decision == ApprovalDecision::Ask {
            let question = approval::webhook_review(join, &request.spec.request);
            let answer = match &self.webhook {
                Some(webhook) => approval::webhook_decision(&webhook.ask(&question).await?),
                None => ApprovalDecision::Wait("no approval webhook is configured".to_owned()),
            };
            decision = approval::apply_rules(&*self.policy, answer, join, &known);
        }
        // As in a stock cluster, users with the `nodeclient` permission are approved. `system:masters` has every
        // permission, so it does not count.
        let is_first = join.serving.is_none() && !join.is_own() && !join.is_in(MASTERS);
        if matches!(decision, ApprovalDecision::Wait(_))
            && is_first
            && self.may_create_node_client(request).await?
        {
            let why = "Auto approving kubelet client certificate after SubjectAccessReview.";
            decision = ApprovalDecision::Approve(why.to_owned());
        }
        Ok(decision)
    }

    /// Whether RBAC lets the requester create `certificatesigningrequests/nodeclient`.
    async fn may_create_node_client(&self, request: &CertificateSigningRequest) -> Result<bool, Error> {
        let spec = &request.spec;
        let on = json!({
            "group": KIND.group, "resource": KIND.plural, "version": "*", "subresource": "nodeclient", "verb": "create",
        });
        let extra: BTreeMap<&str, &[Box<str>]> =
            spec.extra.iter().map(|(name, values)| (&**name, &**values)).collect();
        let review = json!({
            "apiVersion": REVIEWS.api_version(), "kind": REVIEWS.kind,
            "spec": {
                "user": spec.username, "uid": spec.uid, "groups": *spec.groups, "extra": extra,
                "resourceAttributes": on,
            },
        });
        match self.client.create(&REVIEWS, "", review).await {
            Ok(answer) => {
                let answer: Result<AccessReview, _> = answer.read();
                Ok(answer.map_err(|source| unreadable(&self.client, source))?.status.allowed)
            }
            // The server does not serve SubjectAccessReviews.
            Err(error) if error.is_unknown_resource() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The response to an authorization check.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessReview {
    status: AccessReviewStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessReviewStatus {
    allowed: bool,
}

/// Parses a request for a node certificate. Returns `None` for requests that no signer here would sign.
fn join(request: &CertificateSigningRequest) -> Option<JoinRequest> {
    let spec = &request.spec;
    let groups: Vec<String> = spec.groups.iter().map(|group| group.to_string()).collect();
    let read = Request::read(&request.request().ok()?).ok()?;
    let user = (&*spec.username, groups.as_slice());
    JoinRequest::of(&spec.signer_name, &read, &request.usages(), user, request.extra(PEER).parse().ok())
}

/// Returns the addresses in a Node's status.
fn addresses(node: &Object) -> Names {
    let mut names = Names::default();
    for address in &node.node().status.addresses {
        names.add(&address.address);
    }
    names.addresses = names.addresses.iter().map(IpAddr::to_canonical).collect();
    names
}

#[async_trait]
impl Controller for CsrApprovingController {
    fn name(&self) -> &'static str {
        APPROVING
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(now) = &change.now else { return };
        if change.kind.is(&KIND) {
            queue.add(&now.name);
        } else if change.kind.is(&Kind::NODE) {
            let before = change.before.as_ref();
            if before.is_some_and(|before| before.node().status.addresses == now.node().status.addresses) {
                return;
            }
            // A request of this node may have waited for its addresses.
            let is_waiting = |request: &Object| match &request.fields {
                Fields::CertificateSigningRequest(fields) => {
                    fields.is_pending && node::of_user(&fields.username) == Some(now.name.as_str())
                }
                _ => false,
            };
            for request in self.informers.list(&KIND, "").iter().filter(|request| is_waiting(request)) {
                queue.add(&request.name);
            }
        }
    }

    async fn reconcile(&self, name: &str, _: &WorkQueue) -> Result<Action, Error> {
        let Some((request, json)) = find(&self.client, name).await? else {
            return Ok(Action::AwaitChange);
        };
        if request.is_decided() || request.is_signed() || request.has("Failed") {
            return Ok(Action::AwaitChange);
        }
        let Some(join) = join(&request) else { return Ok(Action::AwaitChange) };
        let (kind, reason, why) = match self.evaluate(&request, &join).await? {
            ApprovalDecision::Approve(why) => ("Approved", APPROVED, why),
            ApprovalDecision::Deny(why) => ("Denied", DENIED, why),
            ApprovalDecision::Wait(why) => {
                let node = join.node;
                tracing::info!(
                    request = name,
                    node,
                    why,
                    "a certificate request needs `kubectl certificate approve` or `kubectl certificate deny`"
                );
                return Ok(Action::AwaitChange);
            }
            ApprovalDecision::Ask => return Ok(Action::AwaitChange),
        };
        tracing::info!(request = name, node = join.node, user = join.username, why, "{kind} by policy");
        let decided = with_condition(json, kind, reason, &why, Timestamp::now());
        self.client.update(&KIND, "approval", decided).await?;
        Ok(Action::AwaitChange)
    }
}
