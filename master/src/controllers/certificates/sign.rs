//! Signs what was approved, when its signer is one that every cluster has and the request is as that one wants it.

use std::sync::Arc;

use apiserver::identity::PEER;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{KIND, SIGNING, has, is_signed, pem, texts, with_condition};
use crate::controllers::Authority;
use crate::controllers::agenda::Next;
use crate::controllers::client::{Client, Error, Json, Kind};
use crate::controllers::object::{at, text};
use crate::controllers::queue::{Controller, Queue};
use crate::controllers::world::Change;
use crate::options::{ApprovalPolicy, NodeAdmission, NodeMode};
use crate::pki::{Pki, Request, Signer, node};
use crate::trust;

/// Why a request failed, in the word of the stock signers.
const REASON: &str = "SignerValidationFailure";

/// The controller.
#[derive(Debug)]
pub struct Signing {
    client: Client,
    /// Notes at nodes what nobody else may.
    noting: Client,
    pki: Arc<Pki>,
    nodes: NodeAdmission,
    /// Whoever asks is approved: that proves nothing.
    is_everybody: bool,
}

impl Signing {
    /// Signs by these authorities, and notes the keys of nodes as a master itself.
    pub fn new(client: Client, noting: Client, authority: &Authority) -> Self {
        let is_everybody = authority.approval.policy == ApprovalPolicy::InsecureAlwaysApprove;
        Self { client, noting, pki: authority.pki.clone(), nodes: authority.nodes.clone(), is_everybody }
    }

    /// Registers the key of a node before it has its certificate. Where that is what lets a node in, a Node with it
    /// keeps its place until it registers; elsewhere its key is noted when it makes its Node.
    async fn register(&self, request: &Json) -> Result<(), Error> {
        let Ok(asked) = Request::read(&pem(request, "/spec/request")) else { return Ok(()) };
        let Some(node) = node::of_user(&asked.common_name) else { return Ok(()) };
        let key = asked.key_hash();
        let is_in = texts(request, "/spec/groups").iter().any(|group| group == node::GROUP);
        let by_itself = is_in && node::of_user(&text(at(request, "/spec/username"))) == Some(node);
        if let Some(found) = self.noting.find(&Kind::NODE, "", node).await? {
            if self.is_everybody && !by_itself {
                return Ok(());
            }
            let keys = trust::with_key(&found, &key, by_itself);
            let patch = json!({"metadata": {"annotations": {trust::KEYS: keys}}});
            self.noting.patch(&Kind::NODE, "", node, patch).await?;
        } else if self.nodes.mode == NodeMode::Certificate {
            let peer = at(request, "/spec/extra")
                .and_then(|extra| extra.get(PEER)?.get(0)?.as_str())
                .unwrap_or_default();
            let annotations = json!({trust::KEYS: key, trust::FROM: peer, trust::RESERVED: "true"});
            let object = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "annotations": annotations},
            });
            self.noting.create(&Kind::NODE, "", object).await?;
        }
        Ok(())
    }
}

/// The signer that is to sign a request now.
fn due(request: &Json) -> Option<Signer> {
    let is_due = has(request, "Approved")
        && !has(request, "Denied")
        && !has(request, "Failed")
        && !is_signed(request)
        && at(request, "/metadata/deletionTimestamp").is_none();
    Signer::of(&text(at(request, "/spec/signerName"))).filter(|_| is_due)
}

/// The request with its certificate, or with why there will never be one.
pub(super) fn signed(request: Json, signer: Signer, pki: &Pki, now: Timestamp) -> Json {
    match certificate(&request, signer, pki, now) {
        Ok(chain) => {
            let mut request = request;
            let status = request.entry("status").or_insert_with(|| json!({}));
            if let Value::Object(status) = status {
                status.insert("certificate".to_owned(), STANDARD.encode(chain).into());
            }
            request
        }
        Err(why) => with_condition(request, "Failed", REASON, &why, now),
    }
}

fn certificate(request: &Json, signer: Signer, pki: &Pki, now: Timestamp) -> Result<String, String> {
    let asked = Request::read(&pem(request, "/spec/request"))?;
    let usages = texts(request, "/spec/usages");
    let usages = signer.check(&asked, &usages.iter().map(String::as_str).collect::<Vec<_>>())?;
    let asked_seconds = at(request, "/spec/expirationSeconds").and_then(Value::as_i64);
    pki.issue(&asked, &usages, asked_seconds, now).map_err(|error| error.to_string())
}

#[async_trait]
impl Controller for Signing {
    fn name(&self) -> &'static str {
        SIGNING
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if let (true, Some(request)) = (change.kind.is(&KIND), &change.now) {
            queue.add(&request.name);
        }
    }

    async fn look(&self, name: &str, _: &Queue) -> Result<Next, Error> {
        let Some(request) = self.client.find(&KIND, "", name).await? else { return Ok(Next::Change) };
        let Some(signer) = due(&request) else { return Ok(Next::Change) };
        let signed = signed(request, signer, &self.pki, Timestamp::now());
        if signer == Signer::NodeClient && is_signed(&signed) {
            self.register(&signed).await?;
        }
        self.client.update(&KIND, "status", signed).await?;
        Ok(Next::Change)
    }
}
