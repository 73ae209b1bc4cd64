//! The tokens that pods of the master ask for: which there are, and when each is asked for. Pure; `share` is random, from 0 up to 1.
//!
//! One that has expired is kept until there is another: while no master answers there is nobody whom it could be shown to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::references::TokenKey;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::line::is_safe;
use crate::cluster::patience::again;
use crate::desired::Held;
use crate::observed::PodUid;

/// Another is asked for when so much of a life is over, and after a day; earlier by chance, at most so much, so that those of one moment
/// do not come together again. All three are the stock kubelet's.
const SHARE_OF_LIFE: f64 = 0.8;
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const JITTER: Duration = Duration::from_secs(10);
/// Whatever a server says of a life, another is not asked for sooner.
const SHORTEST: Duration = Duration::from_secs(60);
/// The account of pods that name none.
const DEFAULT: &str = "default";

/// One that a pod asks for.
#[derive(Debug)]
struct Token {
    pod: Arc<Pod>,
    question: Question,
    held: Option<Held>,
    /// Somebody has said what there is to say of it.
    is_answered: bool,
    refusals: u32,
    /// Why it was refused last.
    why: String,
    /// It is asked for then; `None` for at once.
    due: Option<Timestamp>,
}

impl Token {
    /// The clock was set back since it was asked for, so that nobody can say when it expires; it is asked for once for that.
    fn is_of_the_future(&self, now: Timestamp) -> bool {
        let asked_at = self.held.as_ref().and_then(|held| held.metadata().creation_timestamp.as_ref());
        self.refusals == 0 && asked_at.is_some_and(|asked_at| asked_at.0 > now)
    }
}

/// All that pods ask for.
#[derive(Debug, Default)]
pub struct Tokens {
    all: BTreeMap<TokenKey, Token>,
    /// Those of an earlier kubelet whose pods are not known yet.
    left: BTreeMap<TokenKey, Arc<TokenRequest>>,
}

/// What is to be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// For which token.
    pub key: TokenKey,
    /// Where.
    pub path: String,
    /// What.
    pub body: Value,
}

impl Tokens {
    /// Those that an earlier kubelet held.
    pub fn restore(&mut self, all: impl Iterator<Item = Arc<TokenRequest>>) {
        self.left.extend(all.map(|token| (TokenKey::of(&token), token)));
    }

    /// These pods run here, and no others; whether one of them asks for something new.
    pub fn follow<'a>(&mut self, pods: impl Iterator<Item = &'a Arc<Pod>>) -> bool {
        let (mut wanted, known) = (BTreeSet::new(), self.all.len());
        for pod in pods {
            for question in questions(pod) {
                let left = self.left.remove(&question.key);
                wanted.insert(question.key.clone());
                if let Some(token) = self.all.get_mut(&question.key) {
                    token.pod = pod.clone();
                    continue;
                }
                let due = left.as_deref().and_then(|token| renew_at(token, 0.0));
                let token = Token {
                    pod: pod.clone(),
                    question: question.clone(),
                    held: left.map(Held::Token),
                    is_answered: false,
                    refusals: 0,
                    why: String::new(),
                    due,
                };
                self.all.insert(question.key, token);
            }
        }
        self.left.clear();
        let has_new = self.all.len() > known;
        self.all.retain(|key, _| wanted.contains(key));
        has_new
    }

    /// What is to be asked now; when that will be something, where it is nothing.
    pub fn next(&self, now: Timestamp) -> Result<Question, Option<Timestamp>> {
        let due = |token: &Token| token.due.is_none_or(|due| due <= now) || token.is_of_the_future(now);
        // Those that a pod waits for come first, and what was refused before comes behind what has waited longer.
        let rank = |token: &&Token| (token.held.is_some() || token.refusals > 0, token.due);
        match self.all.values().filter(|token| due(token)).min_by_key(rank) {
            Some(token) => Ok(token.question.clone()),
            None => Err(self.all.values().filter_map(|token| token.due).min()),
        }
    }

    /// The server has given one, in answer to a question of that moment.
    ///
    /// # Errors
    /// Why it is none, as the end of a sentence that begins with the answer.
    pub fn given(
        &mut self,
        question: &Question,
        answer: &Value,
        asked_at: Timestamp,
        share: f64,
    ) -> Result<(), String> {
        let Some(text) = answer["status"]["token"].as_str() else {
            return Err("has no token in it".to_owned());
        };
        let Some(token) = self.all.get_mut(&question.key) else { return Ok(()) };
        // When that is by the server's clock says nothing here, where the clock may be another.
        let seconds = answer["spec"]["expirationSeconds"].as_i64().unwrap_or(question.key.seconds);
        let life = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let expires = asked_at.checked_add(life).unwrap_or(Timestamp::MAX);
        let request = request(&question.key, &token.pod, text, asked_at, expires);
        token.due = renew_at(&request, share);
        token.held = Some(Held::Token(Arc::new(request)));
        token.is_answered = true;
        token.refusals = 0;
        token.why.clear();
        Ok(())
    }

    /// The server gives none; the pod that is to be told why, where that is news.
    pub fn refused(&mut self, key: &TokenKey, why: &str, now: Timestamp, share: f64) -> Option<Arc<Pod>> {
        let token = self.all.get_mut(key)?;
        token.due = Some(again(now, &mut token.refusals, share));
        token.is_answered = true;
        let is_news = token.why != why;
        why.clone_into(&mut token.why);
        is_news.then(|| token.pod.clone())
    }

    /// Whether all that the pod asks for is held or has been asked for.
    pub fn has_answered(&self, uid: &PodUid) -> bool {
        let mut own = self.all.iter().filter(|(key, _)| key.pod_uid == uid.as_str());
        own.all(|(_, token)| token.is_answered || token.held.is_some())
    }

    /// All that are there.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.all.values().filter_map(|token| token.held.as_ref())
    }
}

/// What is asked for a pod; nothing for one whose names are none.
fn questions(pod: &Pod) -> Vec<Question> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sources =
        volumes.flat_map(|volume| volume.projected.iter().flat_map(|it| it.sources.iter().flatten()));
    let keys: BTreeSet<TokenKey> = sources
        .filter_map(|source| Some(TokenKey::new(uid, source.service_account_token.as_ref()?)))
        .collect();
    keys.into_iter().filter_map(|key| question(key, pod)).collect()
}

fn account(pod: &Pod) -> &str {
    let named = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    named.filter(|name| !name.is_empty()).unwrap_or(DEFAULT)
}

fn question(key: TokenKey, pod: &Pod) -> Option<Question> {
    let [namespace, name] = [&pod.metadata.namespace, &pod.metadata.name].map(|part| part.as_deref());
    let (namespace, name, account) = (namespace?, name?, account(pod));
    if ![namespace, name, account].iter().all(|part| is_safe(part)) {
        return None;
    }
    let audiences = audiences(&key);
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": key.pod_uid});
    let spec = json!({"audiences": audiences, "expirationSeconds": key.seconds, "boundObjectRef": bound});
    Some(Question {
        key,
        path: format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"),
        body: json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}),
    })
}

/// What is kept: what was asked, what came of it, when, and until when it lasts, both by the clock of this machine.
fn request(key: &TokenKey, pod: &Pod, text: &str, asked_at: Timestamp, expires: Timestamp) -> TokenRequest {
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        uid: Some(key.pod_uid.clone()),
    };
    let mut request = TokenRequest {
        metadata: ObjectMeta {
            name: Some(account(pod).to_owned()),
            namespace: pod.metadata.namespace.clone(),
            creation_timestamp: Some(Time(asked_at)),
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
    let status = request.status.get_or_insert_default();
    status.token = Some(text.to_owned());
    status.expiration_timestamp = Some(Time(expires));
    request
}

/// None for the API server, whose own name for itself it then is.
fn audiences(key: &TokenKey) -> Vec<String> {
    Some(key.audience.clone()).filter(|one| !one.is_empty()).into_iter().collect()
}

/// When another is asked for.
fn renew_at(token: &TokenRequest, share: f64) -> Option<Timestamp> {
    let from = token.metadata.creation_timestamp.as_ref()?.0;
    let until = token.status.as_ref()?.expiration_timestamp.as_ref()?.0;
    let life = Duration::try_from(until.duration_since(from)).unwrap_or_default();
    let lasts = life.mul_f64(SHARE_OF_LIFE).min(LONGEST);
    from.checked_add(lasts.saturating_sub(JITTER.mul_f64(share)).max(SHORTEST)).ok()
}

#[cfg(test)]
mod tests;
