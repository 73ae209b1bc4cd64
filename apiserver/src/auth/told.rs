//! What the log says of requests: at debug those that are refused, at trace every one; nothing of it is made when nobody
//! wants to know.

use std::time::Instant;

use http::{Method, Request, StatusCode};
use tracing::Level;

/// A request that the log may tell of.
#[derive(Debug)]
pub(crate) struct Told(Option<Begun>);

#[derive(Debug)]
struct Begun {
    at: Instant,
    method: Method,
    /// Without the query: what is asked for, not how.
    path: String,
    user: String,
}

impl Told {
    /// Notes a request that begins.
    pub(crate) fn begin<B>(request: &Request<B>) -> Self {
        Self(tracing::enabled!(Level::DEBUG).then(|| Begun {
            at: Instant::now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            user: String::new(),
        }))
    }

    /// Notes who sends it.
    pub(crate) fn by(&mut self, user: &str) {
        if let Some(begun) = &mut self.0 {
            user.clone_into(&mut begun.user);
        }
    }

    /// Tells of its answer.
    pub(crate) fn answered(self, code: StatusCode) {
        let Some(Begun { at, method, path, user }) = self.0 else { return };
        let (user, code) = (user.as_str(), code.as_u16());
        let milliseconds = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        if code >= 400 {
            tracing::debug!(%method, path, user, code, milliseconds, "a request was refused");
        } else {
            tracing::trace!(%method, path, user, code, milliseconds, "a request was answered");
        }
    }
}
