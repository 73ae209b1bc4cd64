//! What went wrong with a request, in the words clients branch on: a `Status` object with a reason and a code.

use api::strategy::Cause;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};

use crate::registry;
use crate::resource::Resource;
use crate::storage;
use crate::store::TooOld;

/// Where clients look for the token of a list.
pub(crate) const CONTINUE: &str = "continue";

/// Where clients look for the seconds after which to try again.
const RETRY: &str = "retryAfterSeconds";

/// The reason of what is older than what is remembered.
pub(crate) const EXPIRED: &str = "Expired";

/// A failed request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP code.
    pub code: u16,
    /// One word clients branch on; empty when the code says it all.
    pub reason: &'static str,
    /// What happened, to what, and what to do.
    pub message: String,
    /// Name, kind and causes, where there are any; of a list that cannot go on as it was, the token with which it goes on.
    pub details: Option<Value>,
}

impl Status {
    /// A failure of that code and reason.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code: code.as_u16(), reason, message: message.into(), details: None }
    }

    /// There is no such object; `resource` is `pods` or `deployments.apps`.
    pub fn not_found(resource: &str, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" not found");
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let mut details = json!({"name": name, "kind": plural});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self { details: Some(details), ..Self::new(StatusCode::NOT_FOUND, "NotFound", message) }
    }

    /// There is nothing at that path.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self { details: Some(json!({})), ..Self::new(StatusCode::NOT_FOUND, "NotFound", message) }
    }

    /// The object may not be touched; `why` ends the sentence and names the remedy.
    pub fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{resource} \"{name}\" is forbidden: {why}");
        let details = json!({"name": name, "kind": resource});
        Self { details: Some(details), ..Self::new(StatusCode::FORBIDDEN, "Forbidden", message) }
    }

    /// There is one of that name already.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        let details = details(resource, name);
        Self { details: Some(details), ..Self::new(StatusCode::CONFLICT, "AlreadyExists", message) }
    }

    /// What was asked does not fit what is there now; `why` ends the sentence.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        let details = details(resource, name);
        Self { details: Some(details), ..Self::new(StatusCode::CONFLICT, "Conflict", message) }
    }

    /// Somebody else has written the object meanwhile.
    pub fn changed(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The object makes no sense.
    pub fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_kind(&resource.group, &resource.kind, name, causes)
    }

    /// What was sent makes no sense, whatever it was sent to.
    pub fn invalid_kind(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let said: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let said = if said.len() == 1 { said.concat() } else { format!("[{}]", said.join(", ")) };
        let mut details = json!({"name": name, "kind": kind});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        details["causes"] = causes
            .iter()
            .map(|cause| {
                json!({"reason": cause.reason.as_str(), "message": cause.message, "field": cause.field})
            })
            .collect();
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let message = format!("{kind}{group} \"{name}\" is invalid: {said}");
        Self { details: Some(details), ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// The resource is there, the verb is not.
    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// The resource is there, and nothing that could be done with it that way.
    pub fn no_such_method() -> Self {
        Self::method_not_allowed("the server does not allow this method on the requested resource")
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The client accepts nothing that can be sent.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, \
                       application/json;as=Table;v=v1;g=meta.k8s.io";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The revision is one this store has not reached.
    pub fn from_the_future(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            RETRY: 1,
        });
        Self { details: Some(details), ..Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message) }
    }

    /// More is asked of the server at once than it answers.
    pub fn too_many_requests() -> Self {
        let message = "the server has received too many requests and has asked us to try again later";
        let details = Some(json!({RETRY: 1}));
        Self { details, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message) }
    }

    /// The answer was not there in time.
    pub fn timed_out() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        let details = Some(json!({}));
        Self { details, ..Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message) }
    }

    /// More was sent than is read.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// True when what was asked for is older than what is remembered.
    pub(crate) fn is_expired(&self) -> bool {
        self.reason == EXPIRED
    }

    /// Something that is no fault of the client.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The object clients read.
    pub fn object(&self) -> Value {
        let mut object = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            object["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            match details.get(CONTINUE) {
                Some(token) => object["metadata"][CONTINUE] = token.clone(),
                None => object["details"] = details.clone(),
            }
        }
        object["code"] = self.code.into();
        object
    }
}

/// Name, group and resource, as clients read them.
fn details(resource: &Resource, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural});
    if !resource.group.is_empty() {
        details["group"] = resource.group.as_ref().into();
    }
    details
}

impl From<registry::Error> for Status {
    fn from(error: registry::Error) -> Self {
        match error {
            registry::Error::Store(error) => error.as_ref().into(),
            registry::Error::Exists | registry::Error::Changed | registry::Error::Ending => {
                Self::new(StatusCode::CONFLICT, "Conflict", error.to_string())
            }
        }
    }
}

impl From<&storage::Error> for Status {
    fn from(error: &storage::Error) -> Self {
        use storage::Error;
        let of = |code, reason| Self::new(code, reason, error.to_string());
        match error {
            Error::Full { .. } | Error::Quota { .. } => {
                of(StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage")
            }
            Error::Failed { .. } | Error::Unreachable { .. } | Error::Closed => {
                of(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable")
            }
            Error::Unknown { .. } => of(StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            // All that is written here is an object, and all that can be wrong with one by now is its size.
            Error::Invalid(_) => of(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Error::Compacted { .. }
            | Error::Damaged { .. }
            | Error::Newer { .. }
            | Error::Locked { .. }
            | Error::Displaced { .. }
            | Error::Exists { .. }
            | Error::Refused { .. } => Self::internal(error),
        }
    }
}

impl From<TooOld> for Status {
    fn from(too_old: TooOld) -> Self {
        Self::new(StatusCode::GONE, EXPIRED, too_old.to_string())
    }
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = self.object().to_string();
        let mut response = (code, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        // Clients that know nothing of details go by the header.
        let seconds = self.details.as_ref().and_then(|details| details.get(RETRY)?.as_u64());
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0) {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
