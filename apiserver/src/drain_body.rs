//! Drains unread request bodies after an early response, so that the client can read the response before the
//! connection is closed.
//!
//! Only HTTP/1.1 needs this; HTTP/2 resets the stream.

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

/// Largest part of a body that is drained, in bytes: a few times the maximum body size.
const MAX_DRAIN_BYTES: usize = 12 * 1024 * 1024;
/// How long a body is drained at most.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves a request and drains the rest of its body.
pub(crate) async fn serve(router: Router, request: Request<Body>) -> Result<Response, Infallible> {
    // A client that sends `Expect: 100-continue` has not sent the body yet.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return router.oneshot(request).await;
    }
    let (back, left) = oneshot::channel();
    let request = request.map(|body| Body::new(BorrowedBody { body, back: Some(back) }));
    let answer = router.oneshot(request).await;
    // A handler that still holds the body reads it itself.
    let mut left = left;
    if let Ok(body) = left.try_recv() {
        drain(body).await;
    }
    answer
}

async fn drain(mut body: Body) {
    let all = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > MAX_DRAIN_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, all).await;
}

/// A request body that is given back when this reader is dropped.
struct BorrowedBody {
    body: Body,
    back: Option<oneshot::Sender<Body>>,
}

impl Drop for BorrowedBody {
    fn drop(&mut self) {
        if let Some(back) = self.back.take() {
            // The receiver may be gone.
            let _ = back.send(std::mem::take(&mut self.body));
        }
    }
}

impl HttpBody for BorrowedBody {
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
