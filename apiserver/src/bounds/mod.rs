//! How many requests are answered at once and how long each may take, so that a server that is asked for too much says so
//! and goes on.
//!
//! Requests that read, that write and that go on for as long as somebody listens have a bound each; health and whoever may
//! do everything have none, so that what is wrong can be seen and mended. A large answer is handed out in pieces and counts
//! until the last of them has been taken.

mod kind;
mod pieces;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::Request;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use self::kind::Kind;
use crate::auth::told::Told;
use crate::held::Held;
use crate::identity::{Identity, MASTERS};
use crate::request;
use crate::status::Status;

/// Requests that change nothing; the stock server's `--max-requests-inflight`.
const READING: usize = 400;
/// Requests that may change something; the stock server's `--max-mutating-requests-inflight`.
const WRITING: usize = 200;
/// Watches and others that go on: a few of each of 5,000 nodes, in less than a GiB.
const LASTING: usize = 50_000;
/// How long any other request may take, its body and each piece of its answer; the stock server's `--request-timeout`.
const TIME: Duration = Duration::from_secs(60);

/// The most that is done at once, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that change nothing.
    pub reading: usize,
    /// Requests that may change something.
    pub writing: usize,
    /// Requests that go on for as long as somebody listens.
    pub lasting: usize,
    /// How long a request may take that does not go on.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reading: READING, writing: WRITING, lasting: LASTING, time: TIME }
    }
}

/// What is free of the limits.
#[derive(Debug)]
struct Bounds {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    lasting: Arc<Semaphore>,
    time: Duration,
}

/// A place among the requests that are answered at once; none for those that need none.
type Place = Option<OwnedSemaphorePermit>;

/// The router, asked for no more than that at once.
pub fn bounded(router: Router, limits: Limits) -> Router {
    let places = |most: usize| Arc::new(Semaphore::new(most));
    let bounds = Bounds {
        reading: places(limits.reading),
        writing: places(limits.writing),
        lasting: places(limits.lasting),
        time: limits.time,
    };
    router.layer(from_fn_with_state(Arc::new(bounds), pass))
}

impl Bounds {
    /// A place for the request.
    fn admit(&self, kind: Kind, request: &Request<Body>) -> Result<Place, Status> {
        let who: Option<&Identity> = request.extensions().get();
        let places = match kind {
            Kind::Health => return Ok(None),
            _ if who.is_some_and(|who| who.groups.iter().any(|group| group == MASTERS)) => return Ok(None),
            Kind::Reading => &self.reading,
            Kind::Writing => &self.writing,
            Kind::Lasting => &self.lasting,
        };
        places.clone().try_acquire_owned().map(Some).map_err(|_| Status::too_many_requests())
    }

    /// How long the request may take: what the client allows it, if that is less.
    fn time(&self, request: &Request<Body>) -> Result<Duration, Status> {
        let asked = request::timeout(request.uri())?;
        Ok(asked.map_or(self.time, |asked| asked.min(self.time)))
    }
}

async fn pass(State(bounds): State<Arc<Bounds>>, request: Request<Body>, next: Next) -> Response {
    let kind = Kind::of(request.method(), request.uri());
    // What goes on has no time, and may mean something else by `timeout`: whoever listens in a pod is asked so.
    let time = if kind == Kind::Lasting { Ok(bounds.time) } else { bounds.time(&request) };
    let admitted = bounds.admit(kind, &request).and_then(|place| Ok((place, time?)));
    let (place, time) = match admitted {
        Ok(admitted) => admitted,
        Err(refused) => {
            let (told, refused) = (Told::begin(&request), refused.into_response());
            told.answered(refused.status());
            return refused;
        }
    };
    if kind == Kind::Lasting {
        let response = next.run(request).await;
        // A refusal does not go on, and whoever may not watch takes no place from those who may by not reading it.
        if response.status().is_client_error() || response.status().is_server_error() {
            return response;
        }
        return response.map(|body| Body::new(Held::new(body, place)));
    }
    match timeout(time, next.run(request)).await {
        Ok(response) => pieces::handed_out(response, place, bounds.time).await,
        Err(_) => Status::timed_out().into_response(),
    }
}
