//! What a token of a service account says, and whether it still holds. Pure.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::auth::rbac::index::SERVICE_ACCOUNT;
use crate::identity::{CREDENTIAL, Identity};

/// The group of all service accounts; those of a namespace have its name behind a colon.
const GROUP: &str = "system:serviceaccounts";
/// Clocks differ, and a pod says good-bye while it is deleted: so long something that is over is not quite over.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// Something that a token goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Who signed it.
    pub issuer: String,
    /// For whom it is.
    pub audiences: Vec<String>,
    /// Of which account.
    pub account: Account,
    /// The pod it goes with, the secret, the node.
    pub pod: Option<Bound>,
    /// A secret of the account's namespace.
    pub secret: Option<Bound>,
    /// The node, alone or beside the pod that runs there.
    pub node: Option<Bound>,
    /// Tells it from all others.
    pub id: String,
    /// The second it was made in, since 1970.
    pub issued: i64,
    /// The second from which it no longer holds.
    pub expires: i64,
}

/// Something that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its UID.
    pub uid: String,
    /// Since when it is being deleted.
    pub doomed: Option<Timestamp>,
}

impl Account {
    /// The user that the account is.
    pub fn user(&self) -> String {
        format!("{SERVICE_ACCOUNT}{}:{}", self.namespace, self.name)
    }
}

/// Namespace and name of the account that a user is; `None` for other users.
pub fn of_user(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The groups of every account of a namespace.
pub fn groups(namespace: &str) -> [String; 2] {
    [GROUP.to_owned(), format!("{GROUP}:{namespace}")]
}

impl Claims {
    /// As they stand in a token.
    pub fn json(&self) -> Value {
        let bound = |bound: &Bound| json!({"name": bound.name, "uid": bound.uid});
        let mut private = json!({"namespace": self.account.namespace});
        for (name, what) in [("node", &self.node), ("pod", &self.pod), ("secret", &self.secret)] {
            if let Some(what) = what {
                private[name] = bound(what);
            }
        }
        private["serviceaccount"] = json!({"name": self.account.name, "uid": self.account.uid});
        json!({
            "aud": self.audiences,
            "exp": self.expires,
            "iat": self.issued,
            "iss": self.issuer,
            "jti": self.id,
            "kubernetes.io": private,
            "nbf": self.issued,
            "sub": self.account.user(),
        })
    }

    /// From a token; `None` when something is missing.
    pub fn read(claims: &Value) -> Option<Self> {
        let private = claims.get("kubernetes.io")?;
        let text = |of: &Value, field: &str| Some(of.get(field)?.as_str()?.to_owned());
        let bound = |name: &str| match private.get(name) {
            None => Some(None),
            Some(bound) => Some(Some(Bound { name: text(bound, "name")?, uid: text(bound, "uid")? })),
        };
        let account = private.get("serviceaccount")?;
        let audiences = claims.get("aud")?.as_array()?;
        let read = Self {
            issuer: text(claims, "iss")?,
            audiences: audiences.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<_>>()?,
            account: Account {
                namespace: text(private, "namespace")?,
                name: text(account, "name")?,
                uid: text(account, "uid")?,
            },
            pod: bound("pod")?,
            secret: bound("secret")?,
            node: bound("node")?,
            id: text(claims, "jti")?,
            issued: claims.get("iat")?.as_i64()?,
            expires: claims.get("exp")?.as_i64()?,
        };
        (text(claims, "sub")? == read.account.user()).then_some(read)
    }
}

/// Whom claims name at that moment; `find` looks for an object by its resource, its namespace and its name.
///
/// # Errors
/// Why the token no longer holds.
pub fn check(
    claims: &Claims,
    now: Timestamp,
    find: impl Fn(&str, &str, &str) -> Option<Found>,
) -> Result<Identity, String> {
    if now.as_second() >= claims.expires.saturating_add(LEEWAY.as_secs()) {
        return Err("service account token has expired".to_owned());
    }
    if now.as_second() < claims.issued.saturating_sub(LEEWAY.as_secs()) {
        return Err("service account token is not valid yet".to_owned());
    }
    let account = &claims.account;
    let mut identity = Identity::authenticated(account.user(), groups(&account.namespace));
    identity.uid = account.uid.clone();
    identity.extra.insert(CREDENTIAL.to_owned(), vec![format!("JTI={}", claims.id)]);
    let of_account = Some(Bound { name: account.name.clone(), uid: account.uid.clone() });
    for (what, resource, namespace, bound) in [
        ("service account", "serviceaccounts", account.namespace.as_str(), &of_account),
        ("pod", "pods", &account.namespace, &claims.pod),
        ("secret", "secrets", &account.namespace, &claims.secret),
        ("node", "nodes", "", &claims.node),
    ] {
        let Some(Bound { name, uid }) = bound else { continue };
        let found = find(resource, namespace, name);
        // A node may be made anew under its name while its pods run on; without a pod the token is of the node alone.
        let is_needed = what != "node" || claims.pod.is_none();
        let is_there = found.is_some_and(|found| {
            let is_doomed =
                found.doomed.is_some_and(|since| since.as_second() + LEEWAY.as_secs() < now.as_second());
            found.uid == *uid && !is_doomed
        });
        if is_needed && !is_there {
            return Err(format!("the {what} {name:?} of the token is not there any more"));
        }
        for (field, value) in [("name", name), ("uid", uid)] {
            if matches!(what, "pod" | "node") {
                identity
                    .extra
                    .insert(format!("authentication.kubernetes.io/{what}-{field}"), vec![value.clone()]);
            }
        }
    }
    Ok(identity)
}

/// Since when an object is being deleted.
pub fn doomed(object: &Map<String, Value>) -> Option<Timestamp> {
    object.get("metadata")?.get("deletionTimestamp")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
