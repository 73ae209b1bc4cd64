//! The service account token controller: adds tokens to Secrets of type `kubernetes.io/service-account-token`, and
//! deletes them with their account.
//!
//! The token is bound to the Secret: it is valid while Secret and service account exist.

use api::validate::is_dns_subdomain;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, DeleteOptions, Error, Json, Kind};
use serde_json::{Value, json};

use super::informers::{Change, SharedInformers};
use super::object::{Object, at, text};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};

/// The controller's name in `--controllers`.
pub const NAME: &str = "serviceaccount-token-controller";
/// The type of token Secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotations with name and UID of the service account.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
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

/// What to do with a Secret.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    /// The service account does not exist.
    Delete,
    /// Write this object after a token was requested and added.
    Fill(Json),
    /// Write this object.
    Update(Json),
}

impl ServiceAccountTokenController {
    /// Writes this trust bundle (PEM).
    pub fn new(client: Client, informers: SharedInformers, certificate: &str) -> Self {
        Self { client, informers, certificate: STANDARD.encode(certificate) }
    }

    /// Requests a token that is bound to the Secret; base64.
    async fn token(&self, secret: &Json, account: &str) -> Result<String, Error> {
        let field = |name: &str| at(secret, &format!("/metadata/{name}")).cloned().unwrap_or_default();
        let question = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": TOKEN_SECONDS,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": field("name"), "uid": field("uid")},
            },
        });
        let namespace = text(at(secret, "/metadata/namespace"));
        let answer = self
            .client
            .create_subresource(&Kind::SERVICE_ACCOUNT, &namespace, account, "token", question)
            .await?;
        Ok(STANDARD.encode(text(at(&answer, "/status/token"))))
    }
}

fn annotation(secret: &Json, name: &str) -> String {
    text(at(secret, "/metadata/annotations").and_then(|all| all.get(name)))
}

/// Decides about a Secret; `account` is `None` if the account does not exist.
fn plan(secret: &Json, account: Option<&Json>, certificate: &str) -> Plan {
    let is_set = |pointer: &str| at(secret, pointer).is_some_and(|value| !value.is_null());
    // An immutable Secret stays as it is.
    let is_fixed = at(secret, "/immutable") == Some(&Value::Bool(true));
    if text(secret.get("type")) != TYPE || is_set("/metadata/deletionTimestamp") {
        return Plan::Nothing;
    }
    let uid = account.map(|account| text(at(account, "/metadata/uid"))).unwrap_or_default();
    let wanted = annotation(secret, ACCOUNT_UID);
    if uid.is_empty() || !["", uid.as_str()].contains(&wanted.as_str()) {
        return Plan::Delete;
    }
    let data = |name: &str| text(at(secret, "/data").and_then(|data| data.get(name)));
    let has_token = !data("token").is_empty();
    if is_fixed
        || has_token && wanted == uid && !data("namespace").is_empty() && data("ca.crt") == certificate
    {
        return Plan::Nothing;
    }
    let mut filled = secret.clone();
    put(&mut filled, "data", "ca.crt", certificate.to_owned());
    if data("namespace").is_empty() {
        put(&mut filled, "data", "namespace", STANDARD.encode(text(at(secret, "/metadata/namespace"))));
    }
    if let Some(Value::Object(metadata)) = filled.get_mut("metadata") {
        put(metadata, "annotations", ACCOUNT_UID, uid);
    }
    if has_token { Plan::Update(filled) } else { Plan::Fill(filled) }
}

/// Sets a string in a map, which is created if it is missing.
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
    secret.field("/type").and_then(Value::as_str) == Some(TYPE)
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
        let Some(secret) = self.client.find(&Kind::SECRET, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let account = annotation(&secret, ACCOUNT);
        if account.is_empty() {
            return Ok(Action::AwaitChange);
        }
        // The account is read from the API server, not from the cache, before a deletion. An invalid name is not used
        // in a path.
        let found = match is_dns_subdomain(&account) {
            true => self.client.find(&Kind::SERVICE_ACCOUNT, namespace, &account).await?,
            false => None,
        };
        let written = match plan(&secret, found.as_ref(), &self.certificate) {
            Plan::Nothing => return Ok(Action::AwaitChange),
            Plan::Delete => {
                let (uid, resource_version) =
                    (text(at(&secret, "/metadata/uid")), text(at(&secret, "/metadata/resourceVersion")));
                let how = DeleteOptions {
                    uid: Some(&uid),
                    resource_version: Some(&resource_version),
                    ..DeleteOptions::default()
                };
                self.client.delete(&Kind::SECRET, namespace, name, &how).await
            }
            Plan::Update(filled) => self.client.update(&Kind::SECRET, "", filled).await.map(drop),
            Plan::Fill(mut filled) => {
                put(&mut filled, "data", "token", self.token(&secret, &account).await?);
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
    //! Tokens of Secrets, and deletion of Secrets.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn secret(uid: &str, data: &Value) -> Json {
        let annotations = json!({ACCOUNT: "robot", ACCOUNT_UID: uid});
        let metadata = json!({"name": "s", "namespace": "shop", "annotations": annotations});
        json!({"type": TYPE, "metadata": metadata, "data": data}).as_object().unwrap().clone()
    }

    #[test]
    fn it_is_filled_healed_and_goes_with_its_account() {
        let account = json!({"metadata": {"name": "robot", "uid": "1"}}).as_object().unwrap().clone();
        let full = json!({"token": "dA==", "ca.crt": "Q0E=", "namespace": "c2hvcA=="});
        let decided = |secret: &Json| plan(secret, Some(&account), "Q0E=");
        let Plan::Fill(filled) = decided(&secret("", &Value::Null)) else { panic!("it is empty") };
        assert_eq!(filled["data"], json!({"ca.crt": "Q0E=", "namespace": "c2hvcA=="}));
        assert_eq!(annotation(&filled, ACCOUNT_UID), "1");
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
        assert_eq!(plan(&secret("1", &full), None, "Q0E="), Plan::Delete);
        let mut fixed = secret("1", &Value::Null);
        fixed.insert("immutable".to_owned(), true.into());
        assert_eq!(decided(&fixed), Plan::Nothing);
        let mut opaque = secret("1", &Value::Null);
        opaque.insert("type".to_owned(), "Opaque".into());
        assert_eq!(plan(&opaque, None, "Q0E="), Plan::Nothing);
    }
}
