//! How many requests are answered at once and how long each may take, so that a server that is asked for too much says so
//! and goes on.
//!
//! Requests that read, that write, that say that a node is alive and that go on for as long as somebody listens have a bound each; health
//! and whoever may do everything have none, so that what is wrong can be seen and mended. Whoever comes when all places are taken
//! waits for one a while, in line (`places`): to be refused and to come again costs both sides more. What goes on for long is not waited
//! for. A large answer is handed out in pieces and counts until the last of them has been taken.

mod kind;
mod pieces;
mod places;
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
use http::header::AUTHORIZATION;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use self::kind::Kind;
use self::places::{Places, Waits};
use crate::auth::told::Told;
use crate::held::Held;
use crate::identity::Identity;
use crate::request;
use crate::status::Status;

/// Requests that change nothing; the stock server's `--max-requests-inflight`.
const READING: usize = 400;
/// Requests that may change something; the stock server's `--max-mutating-requests-inflight`.
const WRITING: usize = 200;
/// Nodes, and who leads, that say that they are alive: they are few and quick, and a cluster that hears nothing of its nodes because of all
/// else that they have to tell would take their pods away from them.
const BEATING: usize = 50;
/// Watches and others that go on: a few of each of 5,000 nodes, in less than a GiB.
const LASTING: usize = 50_000;
/// How long any other request may take, its body and each piece of its answer; the stock server's `--request-timeout`.
const TIME: Duration = Duration::from_secs(60);
/// Which part of its time a request waits in line at most: five seconds, which clients have that wait ten for an answer.
const PART_IN_LINE: u32 = 12;

/// The most that is done at once, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that change nothing.
    pub reading: usize,
    /// Requests that may change something.
    pub writing: usize,
    /// Nodes that say that they are alive.
    pub beating: usize,
    /// Requests that go on for as long as somebody listens.
    pub lasting: usize,
    /// How long a request may take that does not go on.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reading: READING, writing: WRITING, beating: BEATING, lasting: LASTING, time: TIME }
    }
}

/// What is free of the limits.
#[derive(Debug)]
struct Bounds {
    reading: Places,
    writing: Places,
    beating: Places,
    lasting: Places,
    time: Duration,
}

/// A place among the requests that are answered at once; none for those that need none.
type Place = Option<OwnedSemaphorePermit>;

/// The router, asked for no more than that at once.
pub fn bounded(router: Router, limits: Limits) -> Router {
    let bounds = Bounds {
        reading: Places::new(limits.reading),
        writing: Places::new(limits.writing),
        beating: Places::new(limits.beating),
        lasting: Places::new(limits.lasting),
        time: limits.time,
    };
    router.layer(from_fn_with_state(Arc::new(bounds), pass))
}

impl Bounds {
    /// A place for a request of that kind, which may take so long.
    async fn admit(&self, kind: Kind, request: &Waits<'_>, time: Duration) -> Result<Place, Status> {
        if kind == Kind::Health || request.who.is_some_and(Identity::is_master) {
            return Ok(None);
        }
        let places = match kind {
            Kind::Lasting => return self.lasting.at_once().map(Some),
            Kind::Reading => &self.reading,
            Kind::Heartbeat => &self.beating,
            Kind::Writing | Kind::Health => &self.writing,
        };
        places.in_turn(request, time / PART_IN_LINE).await.map(Some)
    }

    /// How long the request may take: what the client allows it, if that is less.
    fn time(&self, request: &Request<Body>) -> Result<Duration, Status> {
        let asked = request::timeout(request.uri())?;
        Ok(asked.map_or(self.time, |asked| asked.min(self.time)))
    }
}

async fn pass(State(bounds): State<Arc<Bounds>>, request: Request<Body>, next: Next) -> Response {
    let begun = Instant::now();
    let who: Option<&Identity> = request.extensions().get();
    let kind = Kind::of(request.method(), request.uri(), who);
    // What goes on has no time, and may mean something else by `timeout`: whoever listens in a pod is asked so.
    let time = if kind == Kind::Lasting { Ok(bounds.time) } else { bounds.time(&request) };
    let admitted = match time {
        Ok(time) => {
            let waits = Waits { who, token: request.headers().get(AUTHORIZATION) };
            bounds.admit(kind, &waits, time).await.map(|place| (place, begun + time))
        }
        Err(refused) => Err(refused),
    };
    let (place, until) = match admitted {
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
    match timeout_at(until, next.run(request)).await {
        Ok(response) => pieces::handed_out(response, place, bounds.time).await,
        Err(_) => Status::timed_out().into_response(),
    }
}
