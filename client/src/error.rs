//! Errors of API requests, and how callers may react to them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::CertificateError;
use serde::Deserialize;
use tower::BoxError;

/// A failed API request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server rejected the request with a `Status`.
    #[error("{code} {reason}: {message}")]
    Refused {
        /// The URL of the server.
        server: Arc<str>,
        /// The HTTP status code.
        code: u16,
        /// The machine-readable `Status` reason.
        reason: String,
        /// The message of the server.
        message: String,
        /// Whether the error names an object, not just a path.
        names_object: bool,
        /// The machine-readable reasons in `details.causes`.
        causes: Vec<String>,
        /// The `Retry-After` of the response.
        retry_after: Option<Duration>,
    },
    /// No response arrived. A write may have been applied nevertheless.
    #[error("{server} does not respond")]
    Lost {
        /// The URL of the server.
        server: Arc<str>,
        /// The error of the connection.
        #[source]
        source: BoxError,
    },
    /// The approval webhook did not respond.
    #[error("the webhook at {server} (--csr-approval-webhook) does not respond")]
    Webhook {
        /// The URL of the webhook.
        server: String,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// The response exceeds the size limit.
    #[error("the response of {server} exceeds {bytes} bytes")]
    TooLarge {
        /// The URL of the server.
        server: Arc<str>,
        /// The limit in bytes.
        bytes: usize,
    },
    /// The response is not valid JSON.
    #[error("cannot parse the response of {server}")]
    Unreadable {
        /// The URL of the server.
        server: Arc<str>,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The server does not serve this kind, at least not yet.
    #[error("the API server does not serve {kind} of {api_version}")]
    NoKind {
        /// The group and version.
        api_version: String,
        /// The kind of the object.
        kind: String,
    },
}

impl Error {
    /// Creates the error for a request without a response.
    pub fn lost(server: &Arc<str>, source: BoxError) -> Self {
        Self::Lost { server: server.clone(), source }
    }

    /// Creates the error for a request without a response within `limit`.
    pub(crate) fn late(server: &Arc<str>, limit: Duration) -> Self {
        let why = format!("no response within {} s", limit.as_secs());
        Self::lost(server, io::Error::new(io::ErrorKind::TimedOut, why).into())
    }

    /// Whether the object does not exist although its kind is served.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { reason, names_object: true, .. } if reason == "NotFound")
    }

    /// Whether the server does not serve the resource. Then nothing is known about its objects.
    pub fn is_unknown_resource(&self) -> bool {
        matches!(self, Self::Refused { reason, names_object: false, .. } if reason == "NotFound")
    }

    /// Whether the object was changed or replaced since it was read.
    pub fn is_conflict(&self) -> bool {
        self.is_reason("Conflict")
    }

    /// Whether an object of this name already exists.
    pub fn exists(&self) -> bool {
        self.is_reason("AlreadyExists")
    }

    /// Whether the server is overloaded or unreachable, so that other requests would fail as well.
    pub fn is_server_unavailable(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Refused { code: 429 | 503 | 504, .. })
    }

    /// Whether the resource version is compacted (410 Gone), or the server has not reached it because it lost data or
    /// lags behind. The client must list again.
    pub fn is_expired(&self) -> bool {
        self.has_code(410) || self.has_code(504) && self.has_cause("ResourceVersionTooLarge")
    }

    /// Whether the object cannot be created because its namespace is terminating.
    pub fn is_namespace_terminating(&self) -> bool {
        self.is_forbidden() && self.has_cause("NamespaceTerminating")
    }

    /// Whether the user lacks permission, or the namespace of a write is terminating.
    pub fn is_forbidden(&self) -> bool {
        self.is_reason("Forbidden")
    }

    /// Whether the server answered with this HTTP status code.
    pub fn has_code(&self, wanted: u16) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }

    /// The `Retry-After` of a rejection.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Refused { retry_after, .. } = self { *retry_after } else { None }
    }

    /// The reason why the client does not trust the certificate of the server, or `None` for other errors.
    pub fn certificate_error(&self) -> Option<&CertificateError> {
        match self {
            Self::Lost { source, .. } => certificate_error(source.as_ref()),
            _ => None,
        }
    }

    /// The message of the error with those of all its sources.
    pub fn full_message(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(source) = next {
            text = format!("{text}: {source}");
            next = source.source();
        }
        text
    }

    /// The message of [`root_cause`].
    pub fn root_cause(&self) -> String {
        root_cause(self)
    }

    fn has_cause(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { causes, .. } if causes.iter().any(|cause| cause == wanted))
    }

    fn is_reason(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == wanted)
    }
}

/// The message of the innermost cause, which is the error of the operating system if no connection can be opened.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

fn certificate_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a CertificateError> {
    if let Some(rustls::Error::InvalidCertificate(why)) = error.downcast_ref::<rustls::Error>() {
        return Some(why);
    }
    // The error inside an I/O error is not among its sources.
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.and_then(|wrapped| certificate_error(wrapped)).or_else(|| certificate_error(error.source()?))
}

/// A `Status` that a server returns instead of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    code: u16,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    name: String,
    causes: Option<Vec<Cause>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
}

impl Status {
    /// Returns the error that the `Status` describes. If there is no HTTP status code, the code in the `Status` is
    /// used.
    pub fn into_error(self, server: &Arc<str>, code: Option<u16>, retry_after: Option<Duration>) -> Error {
        let details = self.details.unwrap_or_default();
        let code = code.unwrap_or(if self.code == 0 { 500 } else { self.code });
        Error::Refused {
            server: server.clone(),
            code,
            reason: self.reason,
            message: self.message,
            names_object: !details.name.is_empty(),
            causes: details.causes.into_iter().flatten().map(|cause| cause.reason).collect(),
            retry_after,
        }
    }
}
