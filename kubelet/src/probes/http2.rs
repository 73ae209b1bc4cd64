//! Sends one HTTP/2 request on a new connection.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::http1::{BODY_LIMIT, HEAD_LIMIT};

/// An HTTP/2 response, as a probe evaluates it.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body, at most its first [`BODY_LIMIT`] bytes.
    pub body: Bytes,
    pub trailers: HeaderMap,
}

/// Sends a request with prior knowledge of HTTP/2.
pub(super) async fn send<IO>(io: IO, request: Request<()>, data: Option<Bytes>) -> Result<Answer, String>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let text = |error: h2::Error| error.to_string();
    let (sender, connection) = h2::client::Builder::new()
        .enable_push(false)
        .max_header_list_size(HEAD_LIMIT as u32)
        .handshake::<_, Bytes>(io)
        .await
        .map_err(text)?;
    let exchange = async {
        let mut sender = sender.ready().await.map_err(text)?;
        let (response, mut stream) = sender.send_request(request, data.is_none()).map_err(text)?;
        if let Some(data) = data {
            stream.send_data(data, true).map_err(text)?;
        }
        let (parts, mut incoming) = response.await.map_err(text)?.into_parts();
        let mut body = Body::default();
        let mut trailers = HeaderMap::new();
        while body.wants_more() {
            let Some(data) = incoming.data().await else {
                trailers = incoming.trailers().await.map_err(text)?.unwrap_or_default();
                break;
            };
            let data = data.map_err(text)?;
            incoming.flow_control().release_capacity(data.len()).map_err(text)?;
            body.take(data);
        }
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.read, trailers })
    };
    drive(connection, exchange).await
}

/// The start of a body. A body that arrives in one frame is not copied.
#[derive(Default)]
struct Body {
    read: Bytes,
}

impl Body {
    fn wants_more(&self) -> bool {
        self.read.len() < BODY_LIMIT
    }

    fn take(&mut self, data: Bytes) {
        let data = data.slice(..data.len().min(BODY_LIMIT - self.read.len()));
        if self.read.is_empty() {
            self.read = data;
        } else {
            let mut both = BytesMut::from(&self.read[..]);
            both.extend_from_slice(&data);
            self.read = both.freeze();
        }
    }
}

/// Runs the connection and the exchange in one task. The connection may end first. The exchange then still reads
/// buffered data.
async fn drive<C: Future, T>(connection: C, exchange: impl Future<Output = T>) -> T {
    let mut connection = pin!(connection);
    let mut exchange = pin!(exchange);
    let mut closed = false;
    poll_fn(|cx| {
        if let Poll::Ready(answer) = exchange.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        if closed {
            return Poll::Pending;
        }
        closed = connection.as_mut().poll(cx).is_ready();
        exchange.as_mut().poll(cx)
    })
    .await
}
