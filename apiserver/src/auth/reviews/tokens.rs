//! Answers TokenReview and TokenRequest.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{AUTHENTICATION, access, invalid, text, texts};
use crate::auth::Auth;
use crate::auth::rbac::index::text as metadata;
use crate::auth::tokens::TokenError;
use crate::auth::tokens::service_account::{Bound, Claims};
use crate::status::Status;

/// Default token lifetime, as in kube-apiserver.
const DEFAULT_SECONDS: i64 = 60 * 60;
/// Bounds of the requested token lifetime, as in kube-apiserver.
const SHORTEST_SECONDS: i64 = 10 * 60;
const LONGEST_SECONDS: i64 = 1 << 32;
/// Maximum number of audiences of a token, because tokens are sent in a header.
const MAX_AUDIENCES: usize = 64;

/// A signed token, and the spec that the response shows.
pub(super) struct Made {
    pub spec: Value,
    pub status: Value,
}

/// Answers a TokenReview.
pub(super) fn review(auth: &Auth, spec: &Value, now: Timestamp) -> Result<Value, Status> {
    let token = text(spec, "token");
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let requested = texts(spec, "audiences");
    Ok(match auth.tokens.authenticate(token, &requested, now) {
        Ok(known) => {
            let mut status = json!({"authenticated": true, "user": access::user_info(&known.identity)});
            if !known.audiences.is_empty() {
                status["audiences"] = known.audiences.into();
            }
            status
        }
        Err(TokenError::Unknown) => json!({"user": {}, "error": "invalid bearer token"}),
        Err(TokenError::Invalid(why) | TokenError::BootstrapTokenExpired(why)) => {
            json!({"user": {}, "error": format!("[invalid bearer token, {why}]")})
        }
    })
}

/// Answers a TokenRequest.
pub(super) fn request(
    auth: &Auth,
    namespace: &str,
    name: &str,
    spec: &Value,
    now: Timestamp,
) -> Result<Made, Status> {
    let wrong = |field: &str, what: &str| Err(invalid("TokenRequest", AUTHENTICATION, field, what));
    let seconds = spec.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_SECONDS);
    if seconds < SHORTEST_SECONDS {
        let what = format!("Invalid value: {seconds}: may not specify a duration less than 10 minutes");
        return wrong("spec.expirationSeconds", &what);
    }
    if seconds > LONGEST_SECONDS {
        let what = format!("Too long: may not be more than {LONGEST_SECONDS} seconds");
        return wrong("spec.expirationSeconds", &what);
    }
    let mut audiences = texts(spec, "audiences");
    if audiences.len() > MAX_AUDIENCES {
        return wrong("spec.audiences", &format!("Too many: must have at most {MAX_AUDIENCES} items"));
    }
    if audiences.is_empty() {
        audiences.push(auth.tokens.issuer().to_owned());
    }
    let account =
        auth.tokens.account(namespace, name).ok_or_else(|| Status::not_found("serviceaccounts", name))?;
    let expires = now.as_second().saturating_add(seconds);
    let mut claims = Claims {
        issuer: auth.tokens.issuer().to_owned(),
        audiences: audiences.clone(),
        account,
        pod: None,
        secret: None,
        node: None,
        id: Uuid::new_v4().to_string(),
        issued: now.as_second(),
        not_before: now.as_second(),
        expires,
    };
    let to = spec.get("boundObjectRef").filter(|to| to.is_object());
    if let Some(to) = to {
        bind(auth, &mut claims, to)?;
    }
    let token = auth.tokens.sign(&claims).map_err(Status::internal)?;
    let mut spec = json!({"audiences": audiences, "expirationSeconds": seconds});
    if let Some(to) = to {
        spec["boundObjectRef"] = to.clone();
    }
    let expires = api::time::seconds(Timestamp::from_second(expires).unwrap_or(Timestamp::MAX));
    Ok(Made { spec, status: json!({"token": token, "expirationTimestamp": expires}) })
}

/// Binds a token to a pod, Secret or Node. The token becomes invalid when that object is deleted.
fn bind(auth: &Auth, claims: &mut Claims, to: &Value) -> Result<(), Status> {
    let (api_version, kind, name, uid) =
        (text(to, "apiVersion"), text(to, "kind"), text(to, "name"), text(to, "uid"));
    let resource = match (api_version, kind) {
        ("v1" | "", "Pod") => "pods",
        ("v1" | "", "Secret") => "secrets",
        ("v1" | "", "Node") => "nodes",
        _ => {
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {api_version}, Kind={kind}"
            )));
        }
    };
    let namespace = if resource == "nodes" { "" } else { claims.account.namespace.as_str() };
    let found =
        auth.tokens.object(resource, namespace, name).ok_or_else(|| Status::not_found(resource, name))?;
    let own_uid = metadata(&found, "uid");
    if !uid.is_empty() && uid != own_uid {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {name:?}: the UID in the bound object reference ({uid}) does not \
             match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::new(http::StatusCode::CONFLICT, "Conflict", message));
    }
    let bound = Bound { name: name.to_owned(), uid: own_uid.to_owned() };
    match resource {
        "pods" => {
            bind_to_pod(auth, claims, &found)?;
            claims.pod = Some(bound);
        }
        "secrets" => claims.secret = Some(bound),
        _ => claims.node = Some(bound),
    }
    Ok(())
}

/// Checks the service account of the pod, and adds the pod's node to the claims.
fn bind_to_pod(auth: &Auth, claims: &mut Claims, pod: &Map<String, Value>) -> Result<(), Status> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let own = Some(text(spec, "serviceAccountName")).filter(|own| !own.is_empty()).unwrap_or("default");
    if own != claims.account.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            claims.account.name
        )));
    }
    let node = text(spec, "nodeName");
    let found = auth.tokens.object("nodes", "", node);
    claims.node = found.map(|found| Bound { name: node.to_owned(), uid: metadata(&found, "uid").to_owned() });
    Ok(())
}
