//! Concurrency limits per request class (read-only, mutating, heartbeat, long-running), and request timeouts.
//!
//! Health endpoints and `system:masters` are exempt, so that an overloaded server can be diagnosed. Requests
//! over the limit are queued for a short time (`seats`), then rejected with 429; long-running requests are
//! rejected at once. A large response body is sent in chunks and keeps its seat until the client has taken
//! the last one.

mod request_class;
mod seats;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::State;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::{HeaderValue, Request};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;

use self::request_class::RequestClass;
use self::seats::{Requester, SeatPool};
use crate::auth::request_log::RequestLog;
use crate::guarded_body::GuardedBody;
use crate::identity::Identity;
use crate::request;
use crate::status::Status;
use crate::tasks;

/// Limit for read-only requests in flight; `--max-requests-inflight` of kube-apiserver.
const READ_ONLY: usize = 400;
/// Limit for mutating requests in flight; `--max-mutating-requests-inflight` of kube-apiserver.
const MUTATING: usize = 200;
/// Limit for heartbeats in flight. They are few and fast. Without a limit of their own, an overloaded server would
/// lose heartbeats, and the node lifecycle controller would evict pods.
const HEARTBEAT: usize = 50;
/// Limit for long-running requests: about ten watches from each of 5,000 nodes, which use less than 1 GiB.
const LONG_RUNNING: usize = 50_000;
/// Timeout of other requests, of reading their bodies and of each response chunk; `--request-timeout` of
/// kube-apiserver.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time in the queue is the request's timeout divided by this number: five seconds by default, half of the
/// time that clients wait for a response.
const QUEUE_FRACTION: u32 = 12;
/// Responses above this size are sent in chunks. Smaller ones fit into the buffers of a connection.
const LARGE_BYTES: u64 = 256 * 1024;
/// Size of a chunk. Chunks are copies, so that a buffered chunk does not keep the whole body in memory.
const CHUNK_BYTES: usize = 64 * 1024;

/// The concurrency limits and the request timeout of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit for read-only requests in flight.
    pub read_only: usize,
    /// Limit for mutating requests in flight.
    pub mutating: usize,
    /// Limit for heartbeats in flight.
    pub heartbeat: usize,
    /// Limit for long-running requests in flight.
    pub long_running: usize,
    /// Timeout of requests that are not long-running.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            read_only: READ_ONLY,
            mutating: MUTATING,
            heartbeat: HEARTBEAT,
            long_running: LONG_RUNNING,
            timeout: REQUEST_TIMEOUT,
        }
    }
}

/// The free seats of each request class.
#[derive(Debug)]
struct InFlight {
    read_only: SeatPool,
    mutating: SeatPool,
    heartbeat: SeatPool,
    long_running: SeatPool,
    timeout: Duration,
}

/// The seat of a request in flight, or `None` for exempt requests.
type Seat = Option<OwnedSemaphorePermit>;

/// Wraps the router with these limits.
pub fn limit_in_flight(router: Router, limits: Limits) -> Router {
    let limits = InFlight {
        read_only: SeatPool::new(limits.read_only),
        mutating: SeatPool::new(limits.mutating),
        heartbeat: SeatPool::new(limits.heartbeat),
        long_running: SeatPool::new(limits.long_running),
        timeout: limits.timeout,
    };
    router.layer(from_fn_with_state(Arc::new(limits), pass))
}

impl InFlight {
    /// Acquires a seat for a request of this class.
    async fn admit(
        &self,
        class: RequestClass,
        request: &Requester<'_>,
        timeout: Duration,
    ) -> Result<Seat, Status> {
        if class == RequestClass::Health || request.who.is_some_and(Identity::is_master) {
            return Ok(None);
        }
        let seats = match class {
            RequestClass::LongRunning => return self.long_running.try_acquire().map(Some),
            RequestClass::ReadOnly => &self.read_only,
            RequestClass::Heartbeat => &self.heartbeat,
            RequestClass::Mutating | RequestClass::Health => &self.mutating,
        };
        seats.acquire(request, timeout / QUEUE_FRACTION).await.map(Some)
    }

    /// Timeout of the request: the smaller of the configured one and the `timeout` query parameter.
    fn timeout(&self, request: &Request<Body>) -> Result<Duration, Status> {
        let requested = request::timeout(request.uri())?;
        Ok(requested.map_or(self.timeout, |requested| requested.min(self.timeout)))
    }
}

async fn pass(State(limits): State<Arc<InFlight>>, request: Request<Body>, next: Next) -> Response {
    let begun = Instant::now();
    let who: Option<&Identity> = request.extensions().get();
    let class = RequestClass::of(request.method(), request.uri(), who);
    // Long-running requests have no timeout, and `timeout` may have another meaning for them.
    let timeout =
        if class == RequestClass::LongRunning { Ok(limits.timeout) } else { limits.timeout(&request) };
    let admitted = match timeout {
        Ok(timeout) => {
            let requester = Requester { who, token: request.headers().get(AUTHORIZATION) };
            limits.admit(class, &requester, timeout).await.map(|seat| (seat, begun + timeout))
        }
        Err(refused) => Err(refused),
    };
    let (seat, until) = match admitted {
        Ok(admitted) => admitted,
        Err(refused) => {
            let (log, refused) = (RequestLog::begin(&request), refused.into_response());
            log.finish(refused.status());
            return refused;
        }
    };
    if class == RequestClass::LongRunning {
        let response = next.run(request).await;
        // An error response releases the seat at once, even if the client does not read it.
        if response.status().is_client_error() || response.status().is_server_error() {
            return response;
        }
        return response.map(|body| Body::new(GuardedBody::new(body, seat)));
    }
    match timeout_at(until, next.run(request)).await {
        Ok(response) => chunked(response, seat, limits.timeout),
        Err(_) => Status::timed_out().into_response(),
    }
}

/// Wraps a large response, or one of unknown size. It releases the seat when it is sent, or when the client reads no
/// chunk within `limit`.
fn chunked(response: Response, seat: Seat, limit: Duration) -> Response {
    let length = response.body().size_hint().exact();
    if length.is_some_and(|length| length <= LARGE_BYTES) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // A stream has no length of its own; the header lets the client detect a truncated body. Without a length, an error
    // at the end does.
    if let Some(length) = length {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let (pieces, taken) = mpsc::channel::<Bytes>(1);
    let (whole, is_whole) = oneshot::channel();
    tasks::supervise("chunked response", send_chunks(body, pieces, whole, seat, limit));
    let end = stream::once(is_whole).filter_map(move |whole| {
        let is_truncated = whole.is_err() && length.is_none();
        ready(is_truncated.then(|| Err(io::Error::other("the response is incomplete"))))
    });
    let taken = ReceiverStream::new(taken).map(Ok).chain(end);
    Response::from_parts(head, Body::from_stream(taken))
}

/// Sends a body in pieces, and then that it was sent whole.
async fn send_chunks(
    mut body: Body,
    pieces: mpsc::Sender<Bytes>,
    whole: oneshot::Sender<()>,
    seat: Seat,
    limit: Duration,
) {
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return };
        let Ok(data) = frame.into_data() else { continue };
        for piece in data.chunks(CHUNK_BYTES) {
            match timeout(limit, pieces.send(Bytes::copy_from_slice(piece))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => {
                    tracing::debug!("dropped a response that the client did not read");
                    return;
                }
            }
        }
    }
    let _ = whole.send(());
    drop(seat);
}
