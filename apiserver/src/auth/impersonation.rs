//! User impersonation (`kubectl --as`): parses the headers and lists the permissions that the sender needs.
//! Pure.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::tokens::service_account;
use super::{Attributes, ResourceAttributes};
use crate::identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED};
use crate::request::decode_percent;
use crate::status::Status;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
/// API group of the virtual resources `uids` and `userextras`.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// An impersonated identity.
#[derive(Debug, PartialEq)]
pub(super) struct Impersonation {
    pub identity: Identity,
    /// All permissions that the sender needs for the impersonation.
    pub needed: Vec<Attributes>,
}

/// Returns the identity that the headers request, or `None` without impersonation headers.
///
/// # Errors
/// 400 for headers that cannot be decoded, and for groups, UID or extras without a user.
pub(super) fn requested(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
    let all = |name: &str| -> Result<Vec<String>, Status> {
        headers.get_all(name).iter().map(|value| text(name, value)).collect()
    };
    let user = all(USER)?.into_iter().find(|user| !user.is_empty());
    let uid = all(UID)?.into_iter().find(|uid| !uid.is_empty());
    let mut groups = all(GROUP)?;
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        let key = decode_percent(key).ok_or_else(|| unreadable(name.as_str()))?.to_lowercase();
        extra.entry(key).or_default().push(text(name.as_str(), value)?);
    }
    let Some(user) = user else {
        if uid.is_some() || !groups.is_empty() || !extra.is_empty() {
            return Err(Status::bad_request(
                "headers Impersonate-Group, Impersonate-Uid and Impersonate-Extra- require Impersonate-User",
            ));
        }
        return Ok(None);
    };
    let need = |group: &str, resource: &str, subresource: &str, name: &str, namespace: &str| {
        let own = |text: &str| text.to_owned();
        let on = ResourceAttributes {
            group: own(group),
            version: own(if group.is_empty() { "" } else { "v1" }),
            resource: own(resource),
            subresource: own(subresource),
            name: own(name),
            namespace: own(namespace),
            ..ResourceAttributes::default()
        };
        Attributes::on("impersonate", on)
    };
    let mut needed = Vec::new();
    match service_account::of_user(&user) {
        Some((namespace, name)) => {
            needed.push(need("", "serviceaccounts", "", name, namespace));
            if groups.is_empty() {
                groups.extend(service_account::groups(namespace));
            } else {
                needed.extend(groups.iter().map(|group| need("", "groups", "", group, "")));
            }
        }
        None => {
            needed.push(need("", "users", "", &user, ""));
            needed.extend(groups.iter().map(|group| need("", "groups", "", group, "")));
        }
    }
    needed.extend(uid.iter().map(|uid| need(AUTHENTICATION, "uids", "", uid, "")));
    for (key, values) in &extra {
        needed.extend(values.iter().map(|value| need(AUTHENTICATION, "userextras", key, value, "")));
    }
    if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        groups.push(if user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED }.to_owned());
    }
    Ok(Some(Impersonation {
        identity: Identity { user, uid: uid.unwrap_or_default(), groups, extra, ..Identity::default() },
        needed,
    }))
}

fn text(name: &str, value: &http::HeaderValue) -> Result<String, Status> {
    std::str::from_utf8(value.as_bytes()).map(str::to_owned).map_err(|_| unreadable(name))
}

fn unreadable(name: &str) -> Status {
    Status::bad_request(format!(
        "the header {name} cannot be decoded: use UTF-8 values and percent-encoded names"
    ))
}

#[cfg(test)]
mod tests;
