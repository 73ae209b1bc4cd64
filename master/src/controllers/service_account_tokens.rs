//! The service account token controller: adds tokens to Secrets of type `kubernetes.io/service-account-token`, and
//! deletes them with their account.
//!
//! The token is bound to the Secret: it is valid while Secret and service account exist.

use api::validate::is_dns_subdomain;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, DeleteOptions, Error, Json, Kind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::Fields;
use super::informers::{Change, SharedInformers};
use super::object::{Object, Source as _, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use crate::objects::{ObjectMeta, PartialObject, StringMap};

/// The controller's name in `--controllers`.
pub const NAME: &str = "serviceaccount-token-controller";
/// The type of token Secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation with the name of the service account.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// The annotation with the UID of the service account.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Token lifetime in seconds, the maximum of the TokenRequest API: the token ends with its Secret.
const TOKEN_SECONDS: i64 = 1 << 32;

#[derive(Debug)]
pub struct ServiceAccountTokenController {
    client: Client,
    informers: SharedInformers,
    /// The trust bundle in base64.
    certificate: String,
}

/// The fields of a Secret that the controller reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Secret {
    metadata: ObjectMeta<StringMap>,
    r#type: Box<str>,
    immutable: bool,
    /// Values of the Secret, in base64.
    data: StringMap,
}

impl Secret {
    fn annotation(&self, name: &str) -> &str {
        self.metadata.annotations.get(name).unwrap_or_default()
    }

    fn value(&self, name: &str) -> &str {
        self.data.get(name).unwrap_or_default()
    }
}

/// The response to a token request.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenRequest {
    status: TokenRequestStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenRequestStatus {
    token: String,
}

/// What to do with a Secret.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    /// Delete the Secret, because its service account does not exist.
    Delete,
    /// Write this object after a token was requested and added.
    Fill(Json),
    /// Write this object.
    Update(Json),
}

impl ServiceAccountTokenController {
    /// Creates the controller. It writes the given trust bundle (PEM).
    pub fn new(client: Client, informers: SharedInformers, certificate: &str) -> Self {
        Self { client, informers, certificate: STANDARD.encode(certificate) }
    }

    /// Requests a token that is bound to the Secret. Returns it in base64.
    async fn token(&self, secret: &Secret, account: &str) -> Result<String, Error> {
        let ObjectMeta { namespace, name, uid, .. } = &secret.metadata;
        let question = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": TOKEN_SECONDS,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": uid},
            },
        });
        let kind = &Kind::SERVICE_ACCOUNT;
        let answer = self.client.create_subresource(kind, namespace, account, "token", question).await?;
        let answer: Result<TokenRequest, _> = answer.read();
        let answer = answer.map_err(|source| unreadable(&self.client, source))?;
        Ok(STANDARD.encode(answer.status.token))
    }
}

/// Decides what to do with a Secret. `account` is the UID of the service account, or `None` if it does not exist.
fn plan(secret: &Secret, json: &Json, account: Option<&str>, certificate: &str) -> Plan {
    if &*secret.r#type != TYPE || secret.metadata.is_terminating() {
        return Plan::Nothing;
    }
    let wanted = secret.annotation(ACCOUNT_UID);
    let Some(uid) = account.filter(|uid| wanted.is_empty() || wanted == *uid) else { return Plan::Delete };
    let has_token = !secret.value("token").is_empty();
    let is_complete = has_token
        && wanted == uid
        && !secret.value("namespace").is_empty()
        && secret.value("ca.crt") == certificate;
    // An immutable Secret stays as it is.
    if secret.immutable || is_complete {
        return Plan::Nothing;
    }
    let mut filled = json.clone();
    put(&mut filled, "data", "ca.crt", certificate.to_owned());
    if secret.value("namespace").is_empty() {
        put(&mut filled, "data", "namespace", STANDARD.encode(&*secret.metadata.namespace));
    }
    if let Some(Value::Object(metadata)) = filled.get_mut("metadata") {
        put(metadata, "annotations", ACCOUNT_UID, uid.to_owned());
    }
    if has_token { Plan::Update(filled) } else { Plan::Fill(filled) }
}

/// Sets a string in a map. Creates the map if it is missing.
fn put(object: &mut Json, map: &str, name: &str, value: String) {
    let map = object.entry(map).or_insert_with(|| json!({}));
    if map.is_null() {
        *map = json!({});
    }
    if let Value::Object(map) = map {
        map.insert(name.to_owned(), value.into());
    }
}

fn is_token(secret: &Object) -> bool {
    matches!(&secret.fields, Fields::Secret { r#type } if **r#type == *TYPE)
}

#[async_trait]
impl Controller for ServiceAccountTokenController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::SECRET) {
            let secret = change.now.as_ref().filter(|secret| is_token(secret));
            secret.into_iter().for_each(|secret| queue.add(&secret.key()));
        } else if change.kind.is(&Kind::SERVICE_ACCOUNT) && change.now.is_none() {
            let Some(account) = &change.before else { return };
            // The account of each Secret is checked on reconciliation.
            for secret in
                self.informers.list(&Kind::SECRET, &account.namespace).iter().filter(|one| is_token(one))
            {
                queue.add(&secret.key());
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let Some(json) = self.client.find(&Kind::SECRET, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let secret: Secret = json.read().map_err(|source| unreadable(&self.client, source))?;
        let account = secret.annotation(ACCOUNT);
        if account.is_empty() {
            return Ok(Action::AwaitChange);
        }
        // The account is read from the API server, not from the cache, before a deletion. An invalid name is not used
        // in a path.
        let found: Option<PartialObject> = match is_dns_subdomain(account) {
            true => self.client.find_as(&Kind::SERVICE_ACCOUNT, namespace, account).await?,
            false => None,
        };
        let uid = found.as_ref().map(|account| &*account.metadata.uid);
        let written = match plan(&secret, &json, uid, &self.certificate) {
            Plan::Nothing => return Ok(Action::AwaitChange),
            Plan::Delete => {
                let how = DeleteOptions {
                    uid: Some(&secret.metadata.uid),
                    resource_version: Some(&secret.metadata.resource_version),
                    ..DeleteOptions::default()
                };
                self.client.delete(&Kind::SECRET, namespace, name, &how).await
            }
            Plan::Update(filled) => self.client.update(&Kind::SECRET, "", filled).await.map(drop),
            Plan::Fill(mut filled) => {
                put(&mut filled, "data", "token", self.token(&secret, account).await?);
                self.client.update(&Kind::SECRET, "", filled).await.map(drop)
            }
        };
        match written {
            Err(error) if error.is_not_found() => Ok(Action::AwaitChange),
            written => written.map(|()| Action::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of tokens of Secrets, and deletion of Secrets.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn secret(uid: &str, data: &Value) -> Json {
        let annotations = json!({ACCOUNT: "robot", ACCOUNT_UID: uid});
        let metadata = json!({"name": "s", "namespace": "shop", "annotations": annotations});
        json!({"type": TYPE, "metadata": metadata, "data": data}).as_object().unwrap().clone()
    }

    #[test]
    fn a_token_secret_is_filled_repaired_and_deleted_with_its_account() {
        let full = json!({"token": "dA==", "ca.crt": "Q0E=", "namespace": "c2hvcA=="});
        let planned = |json: &Json, account: Option<&str>| plan(&json.read().unwrap(), json, account, "Q0E=");
        let decided = |json: &Json| planned(json, Some("1"));
        let Plan::Fill(filled) = decided(&secret("", &Value::Null)) else { panic!("it is empty") };
        assert_eq!(filled["data"], json!({"ca.crt": "Q0E=", "namespace": "c2hvcA=="}));
        assert_eq!(filled["metadata"]["annotations"][ACCOUNT_UID], "1");
        assert_eq!(decided(&secret("1", &full)), Plan::Nothing);
        let mut other = full.clone();
        other["ca.crt"] = "b2xk".into();
        other["mine"] = "bWluZQ==".into();
        let Plan::Update(healed) = decided(&secret("1", &other)) else { panic!("another authority") };
        assert_eq!(
            (&healed["data"]["ca.crt"], &healed["data"]["mine"]),
            (&json!("Q0E="), &json!("bWluZQ=="))
        );
        // The account has another UID, or does not exist.
        assert_eq!(decided(&secret("2", &full)), Plan::Delete);
        assert_eq!(planned(&secret("1", &full), None), Plan::Delete);
        let mut fixed = secret("1", &Value::Null);
        fixed.insert("immutable".to_owned(), true.into());
        assert_eq!(decided(&fixed), Plan::Nothing);
        let mut opaque = secret("1", &Value::Null);
        opaque.insert("type".to_owned(), "Opaque".into());
        assert_eq!(planned(&opaque, None), Plan::Nothing);
    }
}
