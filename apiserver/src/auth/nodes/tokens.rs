//! Limits the service-account tokens that a node may request: tokens for its own pods, with audiences that these
//! pods use.

use serde_json::{Map, Value};

use super::node_of;
use crate::auth::rbac::index::text as metadata;
use crate::auth::{Attributes, Auth, ResourceAttributes};
use crate::identity::Identity;
use crate::status::Status;

/// RBAC verb that allows nodes to request an additional audience. The audience is the resource name.
const ANY_AUDIENCE: &str = "request-serviceaccounts-token-audience";

/// Rejects a token request of a node unless one of its pods needs the token. `spec` is the spec of the
/// TokenRequest.
///
/// # Errors
/// 403 with the message of kube-apiserver, 404 for a missing pod.
pub(in crate::auth) fn check(
    auth: &Auth,
    who: &Identity,
    on: &ResourceAttributes,
    spec: &Value,
) -> Result<(), Status> {
    let Some(node) = node_of(who) else { return Ok(()) };
    let forbidden = |why: &str| Err(Status::forbidden("serviceaccounts", &on.name, why));
    if node.is_empty() {
        return forbidden(&format!("could not determine node from user {:?}", who.user));
    }
    let to = match Bound::read(spec.get("boundObjectRef")) {
        Ok(to) => to,
        Err(why) => return forbidden(why),
    };
    let find = |resource: &str, namespace: &str, name: &str| auth.tokens.object(resource, namespace, name);
    let Some(pod) = find("pods", &on.namespace, to.name) else {
        return Err(Status::not_found("pods", to.name));
    };
    if let Some(why) = to.rejection(node, &pod) {
        return forbidden(&why);
    }
    let audience = match spec.get("audiences").and_then(Value::as_array).map(Vec::as_slice) {
        None | Some([]) => "",
        Some([audience]) => audience.as_str().unwrap_or_default(),
        Some(_) => return forbidden("node may only request 0 or 1 audiences"),
    };
    if uses(&pod, audience, find) || may_have_any(auth, who, on, audience) {
        return Ok(());
    }
    let user = &who.user;
    forbidden(&format!(
        "audience {audience:?} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
    ))
}

/// The pod to which the requested token is bound.
#[derive(Debug)]
struct Bound<'a> {
    name: &'a str,
    uid: &'a str,
}

impl<'a> Bound<'a> {
    fn read(to: Option<&'a Value>) -> Result<Self, &'static str> {
        let part = |field: &str| to.and_then(|to| to.get(field)?.as_str()).unwrap_or_default();
        let bound = Self { name: part("name"), uid: part("uid") };
        if part("apiVersion") != "v1" || part("kind") != "Pod" || bound.name.is_empty() {
            return Err("node requested token not bound to a pod");
        }
        if bound.uid.is_empty() {
            return Err("node requested token with a pod binding without a uid");
        }
        Ok(bound)
    }

    /// The reason why the node may not use this pod.
    fn rejection(&self, node: &str, pod: &Map<String, Value>) -> Option<String> {
        if metadata(pod, "uid") != self.uid {
            return Some(format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
                 deleted and then recreated",
                self.uid
            ));
        }
        let of = pod.get("spec").and_then(|spec| spec.get("nodeName")?.as_str());
        (of != Some(node))
            .then(|| "node requested token bound to a pod scheduled on a different node".to_owned())
    }
}

/// Whether a volume of the pod uses a token with this audience, directly or through its CSI driver.
fn uses(
    pod: &Map<String, Value>,
    audience: &str,
    find: impl Fn(&str, &str, &str) -> Option<Map<String, Value>>,
) -> bool {
    let at = |of: &Value, pointer: &str| of.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let list = |of: &Value, pointer: &str| of.pointer(pointer).and_then(Value::as_array).cloned();
    let (namespace, own_name) = (metadata(pod, "namespace"), metadata(pod, "name"));
    let of_claim = |claim: &str| {
        let claim = Value::Object(find("persistentvolumeclaims", namespace, claim)?);
        let volume = find("persistentvolumes", "", &at(&claim, "/spec/volumeName")?)?;
        at(&Value::Object(volume), "/spec/csi/driver")
    };
    let driver_of = |volume: &Value| {
        if volume.get("ephemeral").is_some() {
            return of_claim(&format!("{own_name}-{}", at(volume, "/name")?));
        }
        match at(volume, "/persistentVolumeClaim/claimName") {
            Some(claim) => of_claim(&claim),
            None => at(volume, "/csi/driver"),
        }
    };
    let volumes = pod.get("spec").and_then(|spec| list(spec, "/volumes")).unwrap_or_default();
    volumes.iter().any(|volume| {
        let sources = list(volume, "/projected/sources").unwrap_or_default();
        let mut tokens = sources.iter().filter_map(|source| source.get("serviceAccountToken"));
        tokens.any(|token| at(token, "/audience").unwrap_or_default() == audience)
            || driver_of(volume).is_some_and(|driver| {
                let driver = find("csidrivers.storage.k8s.io", "", &driver).map(Value::Object);
                let requests =
                    driver.and_then(|driver| list(&driver, "/spec/tokenRequests")).unwrap_or_default();
                requests.iter().any(|request| at(request, "/audience").unwrap_or_default() == audience)
            })
    })
}

/// Whether RBAC allows the node to request this audience for this service account.
fn may_have_any(auth: &Auth, who: &Identity, on: &ResourceAttributes, audience: &str) -> bool {
    let of_audience = ResourceAttributes {
        version: "v1".to_owned(),
        resource: audience.to_owned(),
        name: on.name.clone(),
        namespace: on.namespace.clone(),
        ..ResourceAttributes::default()
    };
    auth.decide(who, &Attributes::on(ANY_AUDIENCE, of_audience)).is_allowed()
}

#[cfg(test)]
mod tests;
