//! Claims of service-account tokens, and their validation. Pure.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::auth::rbac::index::SERVICE_ACCOUNT;
use crate::identity::{CREDENTIAL, Identity};

/// Group of all service accounts. With a namespace appended, it is the group of the accounts in that namespace.
const GROUP: &str = "system:serviceaccounts";
/// Tolerance for clock skew, and for the last requests of a pod that is being deleted.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// Namespace, name and UID of a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Namespace of the service account.
    pub namespace: String,
    /// Name of the service account.
    pub name: String,
    /// UID of the service account.
    pub uid: String,
}

/// An object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
}

/// Claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The issuer, claim `iss`.
    pub issuer: String,
    /// The audiences, claim `aud`.
    pub audiences: Vec<String>,
    /// The service account.
    pub account: Account,
    /// The bound pod.
    pub pod: Option<Bound>,
    /// The bound Secret.
    pub secret: Option<Bound>,
    /// The bound Node, or the node of the bound pod.
    pub node: Option<Bound>,
    /// The token ID, claim `jti`.
    pub id: String,
    /// When the token was issued, in Unix seconds; claim `iat`.
    pub issued: i64,
    /// When the token becomes valid, in Unix seconds; claim `nbf`.
    pub not_before: i64,
    /// When the token expires, in Unix seconds; claim `exp`.
    pub expires: i64,
}

/// A stored object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// UID of the object.
    pub uid: String,
    /// Deletion timestamp, if the object is terminating.
    pub deleted_at: Option<Timestamp>,
}

impl Account {
    /// User name of the service account.
    pub fn user(&self) -> String {
        format!("{SERVICE_ACCOUNT}{}:{}", self.namespace, self.name)
    }
}

/// Namespace and name in a service-account user name, or `None` for other users.
pub fn of_user(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The groups of service accounts in a namespace.
pub fn groups(namespace: &str) -> [String; 2] {
    [GROUP.to_owned(), format!("{GROUP}:{namespace}")]
}

impl Claims {
    /// The claims as JSON.
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
            "nbf": self.not_before,
            "sub": self.account.user(),
        })
    }

    /// Parses claims. Returns `None` if a required claim is missing.
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
            not_before: match claims.get("nbf") {
                // Without `nbf` (RFC 7519) the token is valid from its issue time.
                None => claims.get("iat")?.as_i64()?,
                Some(not_before) => not_before.as_i64()?,
            },
            expires: claims.get("exp")?.as_i64()?,
        };
        (text(claims, "sub")? == read.account.user()).then_some(read)
    }
}

/// Validates claims at `now` and returns the identity; `find` looks up an object by resource, namespace and
/// name.
///
/// # Errors
/// If the token is no longer valid. The error is the reason.
pub fn check(
    claims: &Claims,
    now: Timestamp,
    find: impl Fn(&str, &str, &str) -> Option<Found>,
) -> Result<Identity, String> {
    if now.as_second() >= claims.expires.saturating_add(LEEWAY.as_secs()) {
        return Err("service account token has expired".to_owned());
    }
    if now.as_second() < claims.issued.max(claims.not_before).saturating_sub(LEEWAY.as_secs()) {
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
        // A Node may be re-created under the same name while its pods keep running. Only a token without a
        // pod depends on the Node.
        let is_needed = what != "node" || claims.pod.is_none();
        let is_there = found.is_some_and(|found| {
            let is_terminating =
                found.deleted_at.is_some_and(|since| since.as_second() + LEEWAY.as_secs() < now.as_second());
            found.uid == *uid && !is_terminating
        });
        if is_needed && !is_there {
            return Err(format!("the {what} {name:?} of the token does not exist any more"));
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

/// The deletion timestamp of an object.
pub fn deletion_timestamp(object: &Map<String, Value>) -> Option<Timestamp> {
    object.get("metadata")?.get("deletionTimestamp")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
