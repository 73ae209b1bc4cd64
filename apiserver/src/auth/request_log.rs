//! Logs requests: rejected ones at debug level, all others at trace level. It costs nothing when these levels are
//! disabled.

use std::time::Instant;

use http::{Method, Request, StatusCode};
use tracing::Level;

/// Log entry of a request, or `None` when logging is disabled.
#[derive(Debug)]
pub(crate) struct RequestLog(Option<Entry>);

#[derive(Debug)]
struct Entry {
    at: Instant,
    method: Method,
    /// Path without the query.
    path: String,
    user: String,
}

impl RequestLog {
    /// Starts the log entry of a request.
    pub(crate) fn begin<B>(request: &Request<B>) -> Self {
        Self(tracing::enabled!(Level::DEBUG).then(|| Entry {
            at: Instant::now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            user: String::new(),
        }))
    }

    /// Sets the authenticated user.
    pub(crate) fn set_user(&mut self, user: &str) {
        if let Some(entry) = &mut self.0 {
            user.clone_into(&mut entry.user);
        }
    }

    /// Logs the request with its status code.
    pub(crate) fn finish(self, code: StatusCode) {
        let Some(Entry { at, method, path, user }) = self.0 else { return };
        let (user, code) = (user.as_str(), code.as_u16());
        let milliseconds = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        if code >= 400 {
            tracing::debug!(%method, path, user, code, milliseconds, "request rejected");
        } else {
            tracing::trace!(%method, path, user, code, milliseconds, "request answered");
        }
    }
}
