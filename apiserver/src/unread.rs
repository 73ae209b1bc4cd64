//! What a client is still sending when its answer is there already: it is read off, or the client would see its connection
//! break and never the answer.
//!
//! HTTP/1.1 alone needs that; HTTP/2 ends what is sent on one stream without a word about the others.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http::{Request, header};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;
use tower::ServiceExt as _;

/// So much is read off: a few times the longest body that is taken at all. Whoever sends more means no good.
const MOST_BYTES: usize = 12 * 1024 * 1024;
/// So long: such a body over a slow line, while no other request waits for it.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The router's answer to a request, whose body has been read to its end by then.
pub(crate) async fn answered(router: Router, request: Request<Body>) -> Result<Response, Infallible> {
    // A client that asks before it sends is not made to send.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return router.oneshot(request).await;
    }
    let (back, left) = oneshot::channel();
    let request = request.map(|body| Body::new(Lent { body, back: Some(back) }));
    let answer = router.oneshot(request).await;
    // Whoever holds on to the body reads it by himself.
    let mut left = left;
    if let Ok(body) = left.try_recv() {
        read_off(body).await;
    }
    answer
}

async fn read_off(mut body: Body) {
    let all = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > MOST_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(MOST_TIME, all).await;
}

/// A body that comes back when it is no longer wanted.
struct Lent {
    body: Body,
    back: Option<oneshot::Sender<Body>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(back) = self.back.take() {
            // Nobody may be there any more to take it.
            let _ = back.send(std::mem::take(&mut self.body));
        }
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
