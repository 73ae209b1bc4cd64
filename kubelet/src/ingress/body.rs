//! The body of a forwarded request. The next attempt can use it if the previous one has read nothing from it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

/// Holds the request body between attempts, and the time at which a part of it was last sent.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    unsent: Option<Incoming>,
    at: Instant,
}

impl Progress {
    /// Takes the body of a request.
    pub fn new(body: Incoming) -> Self {
        Self(Arc::new(Mutex::new(State { unsent: Some(body), at: Instant::now() })))
    }

    /// The body for the next attempt. `None` if an earlier attempt has read from it.
    pub fn body(&self) -> Option<RequestBody> {
        let body = self.lock().unsent.take()?;
        Some(RequestBody { body: Some(body), is_read: false, progress: self.clone() })
    }

    /// When a part of the body was last sent.
    pub fn last(&self) -> Instant {
        self.lock().at
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of one attempt.
#[derive(Debug)]
pub struct RequestBody {
    body: Option<Incoming>,
    is_read: bool,
    progress: Progress,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_read = true;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if polled.is_ready() {
            self.progress.lock().at = Instant::now();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !self.is_read || body.is_end_stream()) {
            self.progress.lock().unsent = Some(body);
        }
    }
}
