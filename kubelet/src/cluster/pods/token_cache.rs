//! Cache of projected service-account tokens: which tokens exist and when each is requested again. Pure. Parameters
//! named `share` are random numbers from 0 to 1, for jitter.
//!
//! An expired token is kept until its replacement arrives, so that the volume is never without a token.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::references::TokenKey;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::server_pod::is_safe;
use crate::cluster::backoff::next_retry;
use crate::desired::SourceObject;
use crate::observed::PodUid;

/// The part of a token's lifetime after which it is renewed. It is renewed after a day at the latest. A random part
/// of the jitter is subtracted, so that tokens that were issued together are not renewed together. The three values
/// are those of the stock kubelet.
const RENEWAL_FRACTION: f64 = 0.8;
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_JITTER: Duration = Duration::from_secs(10);
/// The earliest renewal after a token was issued, even if the server returns a short lifetime.
const MIN_AGE: Duration = Duration::from_secs(60);
/// The service account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// A token that a pod needs.
#[derive(Debug)]
struct Token {
    pod: Arc<Pod>,
    request: TokenCall,
    held: Option<SourceObject>,
    /// Whether the API server has issued or refused the token.
    is_answered: bool,
    refusals: u32,
    /// The reason of the last refusal.
    why: String,
    /// When the token is requested again. `None` for at once.
    due: Option<Timestamp>,
}

impl Token {
    /// Whether the clock was set back after the token was issued. Its expiry is then unknown, and it is requested
    /// once more.
    fn is_from_the_future(&self, now: Timestamp) -> bool {
        let requested_at = self.held.as_ref().and_then(|held| held.metadata().creation_timestamp.as_ref());
        self.refusals == 0 && requested_at.is_some_and(|requested_at| requested_at.0 > now)
    }
}

/// All tokens that pods need.
#[derive(Debug, Default)]
pub struct TokenCache {
    all: BTreeMap<TokenKey, Token>,
    /// Tokens of the checkpoint whose pods are not known yet.
    restored: BTreeMap<TokenKey, Arc<TokenRequest>>,
}

/// A TokenRequest to send.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenCall {
    pub key: TokenKey,
    /// The API path.
    pub path: String,
    pub body: Value,
}

impl TokenCache {
    /// Restores the tokens from the checkpoint.
    pub fn restore(&mut self, all: impl Iterator<Item = Arc<TokenRequest>>) {
        self.restored.extend(all.map(|token| (TokenKey::of(&token), token)));
    }

    /// Sets the pods of this node, and drops the tokens of other pods. Returns whether a new token is needed.
    pub fn set_pods<'a>(&mut self, pods: impl Iterator<Item = &'a Arc<Pod>>) -> bool {
        let (mut wanted, known) = (BTreeSet::new(), self.all.len());
        for pod in pods {
            for request in requests(pod) {
                let restored = self.restored.remove(&request.key);
                wanted.insert(request.key.clone());
                if let Some(token) = self.all.get_mut(&request.key) {
                    token.pod = pod.clone();
                    continue;
                }
                let due = restored.as_deref().and_then(|token| renew_at(token, 0.0));
                let token = Token {
                    pod: pod.clone(),
                    request: request.clone(),
                    held: restored.map(SourceObject::Token),
                    is_answered: false,
                    refusals: 0,
                    why: String::new(),
                    due,
                };
                self.all.insert(request.key, token);
            }
        }
        self.restored.clear();
        let has_new = self.all.len() > known;
        self.all.retain(|key, _| wanted.contains(key));
        has_new
    }

    /// The next request, or the time when one will be due.
    pub fn next(&self, now: Timestamp) -> Result<TokenCall, Option<Timestamp>> {
        let due = |token: &Token| token.due.is_none_or(|due| due <= now) || token.is_from_the_future(now);
        // Tokens that a pod waits for come first; refused ones come after tokens that have waited longer.
        let rank = |token: &&Token| (token.held.is_some() || token.refusals > 0, token.due);
        match self.all.values().filter(|token| due(token)).min_by_key(rank) {
            Some(token) => Ok(token.request.clone()),
            None => Err(self.all.values().filter_map(|token| token.due).min()),
        }
    }

    /// Stores an issued token. `requested_at` is the time of the request.
    ///
    /// # Errors
    /// If the response has no token. The error starts with a verb, so that the caller can prepend "the response".
    pub fn on_issued(
        &mut self,
        request: &TokenCall,
        response: &Value,
        requested_at: Timestamp,
        share: f64,
    ) -> Result<(), String> {
        let Some(text) = response["status"]["token"].as_str() else {
            return Err("contains no token".to_owned());
        };
        let Some(token) = self.all.get_mut(&request.key) else { return Ok(()) };
        // The expiry by the server's clock is not used, because the two clocks may differ.
        let seconds = response["spec"]["expirationSeconds"].as_i64().unwrap_or(request.key.seconds);
        let lifetime = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let expires = requested_at.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        let cached_token = cached_token(&request.key, &token.pod, text, requested_at, expires);
        token.due = renew_at(&cached_token, share);
        token.held = Some(SourceObject::Token(Arc::new(cached_token)));
        token.is_answered = true;
        token.refusals = 0;
        token.why.clear();
        Ok(())
    }

    /// Records a refused token. Returns the pod if there is a new reason to report.
    pub fn refused(&mut self, key: &TokenKey, why: &str, now: Timestamp, share: f64) -> Option<Arc<Pod>> {
        let token = self.all.get_mut(key)?;
        token.due = Some(next_retry(now, &mut token.refusals, share));
        token.is_answered = true;
        let is_news = token.why != why;
        why.clone_into(&mut token.why);
        is_news.then(|| token.pod.clone())
    }

    /// Whether each token of the pod is cached, or was issued or refused.
    pub fn has_answered(&self, uid: &PodUid) -> bool {
        let mut own = self.all.iter().filter(|(key, _)| key.pod_uid == uid.as_str());
        own.all(|(_, token)| token.is_answered || token.held.is_some())
    }

    /// All cached tokens.
    pub fn held(&self) -> impl Iterator<Item = &SourceObject> {
        self.all.values().filter_map(|token| token.held.as_ref())
    }
}

/// The requests for the tokens of a pod. There are none if its names are not safe in a path.
fn requests(pod: &Pod) -> Vec<TokenCall> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sources =
        volumes.flat_map(|volume| volume.projected.iter().flat_map(|it| it.sources.iter().flatten()));
    let keys: BTreeSet<TokenKey> = sources
        .filter_map(|source| Some(TokenKey::new(uid, source.service_account_token.as_ref()?)))
        .collect();
    keys.into_iter().filter_map(|key| request(key, pod)).collect()
}

fn account(pod: &Pod) -> &str {
    let named = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    named.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_ACCOUNT)
}

fn request(key: TokenKey, pod: &Pod) -> Option<TokenCall> {
    let [namespace, name] = [&pod.metadata.namespace, &pod.metadata.name].map(|part| part.as_deref());
    let (namespace, name, account) = (namespace?, name?, account(pod));
    if ![namespace, name, account].iter().all(|part| is_safe(part)) {
        return None;
    }
    let audiences = audiences(&key);
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": key.pod_uid});
    let spec = json!({"audiences": audiences, "expirationSeconds": key.seconds, "boundObjectRef": bound});
    Some(TokenCall {
        key,
        path: format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"),
        body: json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}),
    })
}

/// Converts an issued token to its cached form. Its creation and expiry times are by the clock of this machine.
fn cached_token(
    key: &TokenKey,
    pod: &Pod,
    text: &str,
    requested_at: Timestamp,
    expires: Timestamp,
) -> TokenRequest {
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        uid: Some(key.pod_uid.clone()),
    };
    let mut cached_token = TokenRequest {
        metadata: ObjectMeta {
            name: Some(account(pod).to_owned()),
            namespace: pod.metadata.namespace.clone(),
            creation_timestamp: Some(Time(requested_at)),
            ..ObjectMeta::default()
        },
        spec: Some(TokenRequestSpec {
            audiences: Some(audiences(key)),
            bound_object_ref: Some(bound),
            expiration_seconds: Some(key.seconds),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let status = cached_token.status.get_or_insert_default();
    status.token = Some(text.to_owned());
    status.expiration_timestamp = Some(Time(expires));
    cached_token
}

/// The audiences of a request. They are empty for the API server, which then uses its own.
fn audiences(key: &TokenKey) -> Vec<String> {
    Some(key.audience.clone()).filter(|one| !one.is_empty()).into_iter().collect()
}

/// When the token is renewed.
fn renew_at(token: &TokenRequest, share: f64) -> Option<Timestamp> {
    let from = token.metadata.creation_timestamp.as_ref()?.0;
    let time_until = token.status.as_ref()?.expiration_timestamp.as_ref()?.0;
    let lifetime = Duration::try_from(time_until.duration_since(from)).unwrap_or_default();
    let lasts = lifetime.mul_f64(RENEWAL_FRACTION).min(MAX_AGE);
    from.checked_add(lasts.saturating_sub(MAX_JITTER.mul_f64(share)).max(MIN_AGE)).ok()
}

#[cfg(test)]
mod tests;
