//! One request and its answer on a fresh connection, over HTTP/1.1 or HTTP/2, without a client object.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use http::header::LOCATION;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// How much of a body is read; the stock kubelet's limit.
const BODY_LIMIT: usize = 10 * 1024;
/// How long a response head may be.
const HEAD_LIMIT: usize = 64 * 1024;

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// At most the first [`BODY_LIMIT`] bytes.
    pub body: Bytes,
    pub trailers: HeaderMap,
}

impl Answer {
    /// Where it sends the caller instead.
    pub fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION)?.to_str().ok()
    }
}

/// Asks over HTTP/1.1.
pub(super) async fn http1<IO>(io: IO, request: Request<Empty<Bytes>>) -> Result<Answer, String>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .title_case_headers(true)
        .max_buf_size(HEAD_LIMIT)
        .handshake(TokioIo::new(io))
        .await
        .map_err(|error| hyper_text(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| hyper_text(&error))?;
        let (parts, mut incoming) = response.into_parts();
        let mut body = Body::default();
        while body.wants_more() {
            let Some(frame) = incoming.frame().await else { break };
            let frame = frame.map_err(|error| hyper_text(&error))?;
            if let Ok(data) = frame.into_data() {
                body.take(data);
            }
        }
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.read,
            trailers: HeaderMap::new(),
        })
    };
    beside(connection, exchange).await
}

/// Asks over HTTP/2, known in advance to be spoken there.
pub(super) async fn http2<IO>(io: IO, request: Request<()>, data: Option<Bytes>) -> Result<Answer, String>
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
    beside(connection, exchange).await
}

/// The start of a body. What comes in one piece, as the answers of health endpoints do, is not copied.
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

/// Runs the exchange to its end and the connection beside it, in this task. The connection may end first: what it has
/// read is still waiting for the exchange.
async fn beside<C: Future, T>(connection: C, exchange: impl Future<Output = T>) -> T {
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

/// hyper's error as users know it from the stock kubelet.
fn hyper_text(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "EOF".to_owned();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = match cause.downcast_ref::<std::io::Error>() {
            Some(io) => super::address::io_text(io),
            None => format!("{text}: {cause}"),
        };
        source = cause.source();
    }
    text
}
