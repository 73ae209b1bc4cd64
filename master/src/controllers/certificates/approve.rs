//! Decides on the requests of nodes by policy, and leaves all others to people.

use std::net::IpAddr;

use apiserver::identity::{MASTERS, PEER};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::webhook::Webhook;
use super::{APPROVING, KIND, has, is_decided, is_signed, pem, texts, with_condition};
use crate::approval::{self, Asked, Known, Policy, Verdict};
use crate::controllers::Authority;
use crate::controllers::agenda::Next;
use crate::controllers::client::{Client, Error, Json, Kind};
use crate::controllers::object::{Object, at, text};
use crate::controllers::queue::{Controller, Queue};
use crate::controllers::world::{Change, World};
use crate::pki::{Names, Request, node};

/// Requests that are decided on at once: enough for the store to write several in one commit when a thousand nodes join.
const WORKERS: usize = 4;
/// Why a request was approved or denied, in the words of the stock approver and of kubectl.
const APPROVED: &str = "AutoApproved";
const DENIED: &str = "AutoDenied";
/// What roles are asked about.
const REVIEWS: Kind = Kind::of("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", false);

/// The controller.
pub struct Approver {
    client: Client,
    world: World,
    policy: Box<dyn Policy>,
    webhook: Option<Webhook>,
    masters: Names,
}

impl Approver {
    /// Decides by that policy on what is in that world.
    pub fn new(client: Client, world: World, authority: &Authority) -> Self {
        let Authority { approval, webhook, masters, .. } = authority;
        let policy = approval::policy(approval);
        Self { client, world, policy, webhook: webhook.clone(), masters: masters.clone() }
    }

    async fn judge(&self, request: &Json, asked: &Asked) -> Result<Verdict, Error> {
        let node = self.world.get(&Kind::NODE, "", &asked.node);
        let names = node.as_deref().map(addresses).unwrap_or_default();
        let known = Known { exists: node.is_some(), names, masters: self.masters.clone() };
        let mut verdict = approval::decide(&*self.policy, asked, &known);
        if verdict == Verdict::Ask {
            let question = approval::question(asked, &text(at(request, "/spec/request")));
            let answer = match &self.webhook {
                Some(webhook) => approval::answered(&webhook.ask(&question).await?),
                None => Verdict::Wait("nobody can be asked here".to_owned()),
            };
            verdict = approval::guarded(&*self.policy, answer, asked, &known);
        }
        // As in a stock cluster, whoever has that role brings nodes; whoever may do everything has not said that he wants to.
        let is_first = asked.serving.is_none() && !asked.is_own() && !asked.is_in(MASTERS);
        if matches!(verdict, Verdict::Wait(_)) && is_first && self.brings_nodes(request).await? {
            let why = "Auto approving kubelet client certificate after SubjectAccessReview.";
            verdict = Verdict::Approve(why.to_owned());
        }
        Ok(verdict)
    }

    /// Whether a role says that who asks brings nodes.
    async fn brings_nodes(&self, request: &Json) -> Result<bool, Error> {
        let field = |name: &str| at(request, &format!("/spec/{name}")).cloned().unwrap_or_default();
        let on = json!({
            "group": KIND.group, "resource": KIND.plural, "version": "*", "subresource": "nodeclient", "verb": "create",
        });
        let review = json!({
            "apiVersion": REVIEWS.api_version(), "kind": REVIEWS.kind,
            "spec": {
                "user": field("username"), "uid": field("uid"), "groups": field("groups"), "extra": field("extra"),
                "resourceAttributes": on,
            },
        });
        match self.client.create(&REVIEWS, "", review).await {
            Ok(answer) => Ok(at(&answer, "/status/allowed").and_then(Value::as_bool).unwrap_or_default()),
            // A server without roles.
            Err(error) if error.is_no_such_path() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// What a request asks for, where it is a node's and somebody would sign it.
fn asked(request: &Json) -> Option<Asked> {
    let usages = texts(request, "/spec/usages");
    let usages: Vec<&str> = usages.iter().map(String::as_str).collect();
    let (username, groups) = (text(at(request, "/spec/username")), texts(request, "/spec/groups"));
    let peer = at(request, "/spec/extra").and_then(|extra| extra.get(PEER)?.get(0)?.as_str()?.parse().ok());
    let read = Request::read(&pem(request, "/spec/request")).ok()?;
    Asked::of(&text(at(request, "/spec/signerName")), &read, &usages, (&username, &groups), peer)
}

/// What a node says it is reached by.
fn addresses(node: &Object) -> Names {
    let mut names = Names::default();
    let all = node.kept("/status/addresses").and_then(Value::as_array).into_iter().flatten();
    for address in all {
        names.add(&text(address.get("address")));
    }
    names.addresses = names.addresses.iter().map(IpAddr::to_canonical).collect();
    names
}

#[async_trait]
impl Controller for Approver {
    fn name(&self) -> &'static str {
        APPROVING
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        let Some(now) = &change.now else { return };
        if change.kind.is(&KIND) {
            queue.add(&now.name);
        } else if change.kind.is(&Kind::NODE) {
            let addresses = |node: &Object| node.kept("/status/addresses").cloned();
            if change.before.as_deref().and_then(addresses) == addresses(now) {
                return;
            }
            // What this node asked for may have waited for its addresses.
            let is_waiting = |request: &Object| {
                let user = request.kept("/spec/username").and_then(Value::as_str).unwrap_or_default();
                request.kept("/status/conditions").is_none() && node::of_user(user) == Some(now.name.as_str())
            };
            for request in self.world.list(&KIND, "").iter().filter(|request| is_waiting(request)) {
                queue.add(&request.name);
            }
        }
    }

    async fn look(&self, name: &str, _: &Queue) -> Result<Next, Error> {
        let Some(request) = self.client.find(&KIND, "", name).await? else { return Ok(Next::Change) };
        if is_decided(&request) || is_signed(&request) || has(&request, "Failed") {
            return Ok(Next::Change);
        }
        let Some(asked) = asked(&request) else { return Ok(Next::Change) };
        let (kind, reason, why) = match self.judge(&request, &asked).await? {
            Verdict::Approve(why) => ("Approved", APPROVED, why),
            Verdict::Deny(why) => ("Denied", DENIED, why),
            Verdict::Wait(why) => {
                let node = asked.node;
                tracing::info!(
                    request = name,
                    node,
                    why,
                    "a request waits for `kubectl certificate approve` or `deny`"
                );
                return Ok(Next::Change);
            }
            Verdict::Ask => return Ok(Next::Change),
        };
        tracing::info!(request = name, node = asked.node, user = asked.username, why, "{kind} by policy");
        let decided = with_condition(request, kind, reason, &why, Timestamp::now());
        self.client.update(&KIND, "approval", decided).await?;
        Ok(Next::Change)
    }
}
