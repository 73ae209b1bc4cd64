//! API errors: `Status` objects with a reason and an HTTP code.

use api::strategy::Cause;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};

use crate::storage;

/// The field with the continue token.
pub(crate) const CONTINUE: &str = "continue";

/// The field with the retry delay in seconds.
const RETRY: &str = "retryAfterSeconds";

/// The reason for a revision or continue token that is too old.
pub(crate) const EXPIRED: &str = "Expired";

/// The causes of rejections that the kubelet handles, as reasons in `details.causes`. Stock clients ignore them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionCause {
    /// 401: there is no such bootstrap token, or its secret part is wrong.
    BootstrapTokenUnknown,
    /// 401: the bootstrap token has expired.
    BootstrapTokenExpired,
    /// 403: the key of the node certificate is not registered at the Node.
    NodeKeyNotRegistered,
    /// 429: the requester has the maximum number of pending CSRs.
    TooManyPendingRequests,
}

impl RejectionCause {
    const ALL: [Self; 4] = [
        Self::BootstrapTokenUnknown,
        Self::BootstrapTokenExpired,
        Self::NodeKeyNotRegistered,
        Self::TooManyPendingRequests,
    ];

    /// The machine-readable reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BootstrapTokenUnknown => "BootstrapTokenUnknown",
            Self::BootstrapTokenExpired => "BootstrapTokenExpired",
            Self::NodeKeyNotRegistered => "NodeKeyNotRegistered",
            Self::TooManyPendingRequests => "TooManyPendingRequests",
        }
    }

    /// The first known cause among the reasons of a response.
    pub fn find<S: AsRef<str>>(reasons: &[S]) -> Option<Self> {
        reasons
            .iter()
            .find_map(|reason| Self::ALL.into_iter().find(|cause| cause.as_str() == reason.as_ref()))
    }
}

/// The error of a failed request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason; may be empty.
    pub reason: &'static str,
    /// The message: what happened, to which object, and what to do.
    pub message: String,
    /// The details: name, kind and causes. For an expired list, they include the continue token.
    pub details: Option<Value>,
}

impl Status {
    /// Creates an error with a code and a reason.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code: code.as_u16(), reason, message: message.into(), details: None }
    }

    /// The object does not exist. `resource` is a name such as `pods` or `deployments.apps`.
    pub fn not_found(resource: &str, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" not found");
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let mut details = json!({"name": name, "kind": plural});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self { details: Some(details), ..Self::new(StatusCode::NOT_FOUND, "NotFound", message) }
    }

    /// Nothing is served at the path.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self { details: Some(json!({})), ..Self::new(StatusCode::NOT_FOUND, "NotFound", message) }
    }

    /// The operation is forbidden. `why` completes the message.
    pub fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{resource} \"{name}\" is forbidden: {why}");
        let details = json!({"name": name, "kind": resource});
        Self { details: Some(details), ..Self::new(StatusCode::FORBIDDEN, "Forbidden", message) }
    }

    /// The body of a request is invalid. The caller names its kind.
    pub fn invalid_kind(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let text: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let text = if text.len() == 1 { text.concat() } else { format!("[{}]", text.join(", ")) };
        let mut details = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        details["kind"] = kind.into();
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
        let message = format!("{kind}{group} \"{name}\" is invalid: {text}");
        Self { details: Some(details), ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// The resource does not support the method.
    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        let details = Some(json!({}));
        Self { details, ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message) }
    }

    /// The resource does not support the method; with the message of kube-apiserver.
    pub fn no_such_method() -> Self {
        Self::method_not_allowed("the server does not allow this method on the requested resource")
    }

    /// The request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The server can send none of the media types that the client accepts.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The revision is newer than the current one.
    pub fn from_the_future(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            RETRY: 1,
        });
        Self { details: Some(details), ..Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message) }
    }

    /// A concurrency limit is reached.
    pub fn too_many_requests() -> Self {
        let message = "the server has received too many requests and has asked us to try again later";
        let details = Some(json!({RETRY: 1}));
        Self { details, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message) }
    }

    /// The request timed out.
    pub fn timed_out() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        let details = Some(json!({}));
        Self { details, ..Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message) }
    }

    /// The request body is too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The object is too large to store. Clients look for the message of etcd, which kube-apiserver passes on.
    pub(crate) fn object_too_large(why: impl std::fmt::Display) -> Self {
        Self::too_large(format!("etcdserver: request is too large: {why}"))
    }

    /// True for a revision or continue token that is too old.
    pub(crate) fn is_expired(&self) -> bool {
        self.reason == EXPIRED
    }

    /// Creates the status of an internal error.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// Adds a cause to the details. The message stays as it is.
    #[must_use]
    pub fn with_cause(mut self, cause: RejectionCause) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        details["causes"] = json!([{"reason": cause.as_str(), "message": self.message}]);
        self
    }

    /// The error as a `Status` object.
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
            // Only the size of an object can be invalid at this point.
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

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = format!("{}\n", self.object());
        let mut response = (code, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        // Clients that do not parse `details` use the header.
        let seconds = self.details.as_ref().and_then(|details| details.get(RETRY)?.as_u64());
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0) {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_in_the_details_and_keeps_message_and_details() {
        for cause in RejectionCause::ALL {
            let status = Status::forbidden("nodes", "a", "no").with_cause(cause);
            assert_eq!(status.message, "nodes \"a\" is forbidden: no");
            let details = &status.object()["details"];
            assert_eq!((&details["name"], &details["kind"]), (&json!("a"), &json!("nodes")));
            let reason = details["causes"][0]["reason"].as_str().unwrap_or_default();
            assert_eq!(RejectionCause::find(&["Other", reason]), Some(cause));
        }
        assert_eq!(RejectionCause::find(&["Other"]), None);
    }
}
