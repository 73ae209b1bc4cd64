//! A Secret of type `kubernetes.io/service-account-token` gets a token of its account, and goes with the account.
//!
//! The token is one that the API gives for the Secret: it holds for as long as the Secret and the account are there.

use api::validate::is_dns_subdomain;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::agenda::Next;
use super::client::{Client, Delete, Error, Json, Kind};
use super::object::{Object, at, text};
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "serviceaccount-token-controller";
/// The type of the Secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotations that say whose token it is, and which account of that name.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// How long a token holds, the longest that can be asked for: it is to end with its Secret.
const LIFE_SECONDS: i64 = 1 << 32;

/// The controller.
#[derive(Debug)]
pub struct Filler {
    client: Client,
    world: World,
    /// The root certificate as it stands in a Secret.
    certificate: String,
}

/// What is to be done about a Secret.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    /// Its account is gone.
    Delete,
    /// What is to be written; without a token, which is to be asked for first.
    Fill(Json),
    /// What is to be written, whole.
    Update(Json),
}

impl Filler {
    /// Fills with that certificate (PEM).
    pub fn new(client: Client, world: World, certificate: &str) -> Self {
        Self { client, world, certificate: STANDARD.encode(certificate) }
    }

    /// A token of the account for the Secret, as it stands there.
    async fn token(&self, secret: &Json, account: &str) -> Result<String, Error> {
        let field = |name: &str| at(secret, &format!("/metadata/{name}")).cloned().unwrap_or_default();
        let question = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": LIFE_SECONDS,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": field("name"), "uid": field("uid")},
            },
        });
        let namespace = text(at(secret, "/metadata/namespace"));
        let answer =
            self.client.ask_of(&Kind::SERVICE_ACCOUNT, &namespace, account, "token", question).await?;
        Ok(STANDARD.encode(text(at(&answer, "/status/token"))))
    }
}

fn annotation(secret: &Json, name: &str) -> String {
    text(at(secret, "/metadata/annotations").and_then(|all| all.get(name)))
}

/// What is to be done about a Secret whose account is that one, or is not there.
fn plan(secret: &Json, account: Option<&Json>, certificate: &str) -> Plan {
    let is_set = |pointer: &str| at(secret, pointer).is_some_and(|value| !value.is_null());
    // One that may not be changed is whatever its owner made of it.
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

/// Writes a text into a map of texts, made if there is none.
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
    secret.kept("/type").and_then(Value::as_str) == Some(TYPE)
}

#[async_trait]
impl Controller for Filler {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if change.kind.is(&Kind::SECRET) {
            let secret = change.now.as_ref().filter(|secret| is_token(secret));
            secret.into_iter().for_each(|secret| queue.add(&secret.key()));
        } else if change.kind.is(&Kind::SERVICE_ACCOUNT) && change.now.is_none() {
            let Some(account) = &change.before else { return };
            // Whose they are is read when they are looked at.
            for secret in
                self.world.list(&Kind::SECRET, &account.namespace).iter().filter(|one| is_token(one))
            {
                queue.add(&secret.key());
            }
        }
    }

    async fn look(&self, key: &str, _: &Queue) -> Result<Next, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let Some(secret) = self.client.find(&Kind::SECRET, namespace, name).await? else {
            return Ok(Next::Change);
        };
        let account = annotation(&secret, ACCOUNT);
        if account.is_empty() {
            return Ok(Next::Change);
        }
        // The server is asked: nothing is deleted because something was not heard of yet. What is no name becomes no path.
        let found = match is_dns_subdomain(&account) {
            true => self.client.find(&Kind::SERVICE_ACCOUNT, namespace, &account).await?,
            false => None,
        };
        let written = match plan(&secret, found.as_ref(), &self.certificate) {
            Plan::Nothing => return Ok(Next::Change),
            Plan::Delete => {
                let (uid, revision) =
                    (text(at(&secret, "/metadata/uid")), text(at(&secret, "/metadata/resourceVersion")));
                let how = Delete { uid: Some(&uid), revision: Some(&revision), ..Delete::default() };
                self.client.delete(&Kind::SECRET, namespace, name, &how).await
            }
            Plan::Update(filled) => self.client.update(&Kind::SECRET, "", filled).await.map(drop),
            Plan::Fill(mut filled) => {
                put(&mut filled, "data", "token", self.token(&secret, &account).await?);
                self.client.update(&Kind::SECRET, "", filled).await.map(drop)
            }
        };
        match written {
            Err(error) if error.is_not_found() => Ok(Next::Change),
            written => written.map(|()| Next::Change),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What a Secret gets, and when it goes.
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
        // Another account of the same name, and none.
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
