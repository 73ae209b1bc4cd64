//! HTTP middleware that records request metrics.

use std::sync::Arc;
use std::time::Instant;

use apiserver::GuardedBody;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use axum::response::Response;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;

use super::{Answered, Counted, InFlight, Metrics, labels};

/// Records a request and its response. It must wrap the whole router.
pub async fn observe(State(metrics): State<Arc<Metrics>>, request: Request<Body>, next: Next) -> Response {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let (what, dry_run) = {
        let rows = metrics.catalog.rows();
        labels::of(request.method(), request.uri(), content_type.unwrap_or_default(), &rows)
    };
    let answered = |code: StatusCode| {
        let answered = Answered { code: code.as_u16(), dry_run, what: what.clone() };
        metrics.requests.get_or_create(&answered).inc();
    };
    if what.is_long() {
        let going_on = Counted::begin(metrics.long_running.get_or_create_owned(&what));
        let response = next.run(request).await;
        answered(response.status());
        if response.status() != StatusCode::OK || what.verb != "WATCH" || !has_lines(&response) {
            return response.map(|body| Body::new(GuardedBody::new(body, going_on)));
        }
        let events = metrics.watch_events.get_or_create_owned(&what.resource());
        return response.map(|body| {
            let counted = body.map_frame(move |frame| {
                if let Some(data) = frame.data_ref() {
                    events.inc_by(count_lines(data));
                }
                frame
            });
            Body::new(GuardedBody::new(Body::new(counted), going_on))
        });
    }
    let request_kind = if what.is_mutating() { "mutating" } else { "readOnly" };
    let in_flight = Counted::begin(metrics.in_flight.get_or_create_owned(&InFlight { request_kind }));
    let begun = Instant::now();
    let response = next.run(request).await;
    drop(in_flight);
    metrics.durations.get_or_create(&what).observe(begun.elapsed().as_secs_f64());
    answered(response.status());
    response
}

/// True if each watch event is one line. Events in other encodings are not counted.
fn has_lines(response: &Response) -> bool {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// Counts the newlines.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
