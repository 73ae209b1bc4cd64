//! Transports: a tower service in this process, or the one HTTP client for remote servers.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use reqwest::redirect;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt as _};

/// Timeout for the connection with the TLS handshake. It is how long an unreachable server delays the use of the
/// next one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection has no traffic before the kernel probes it.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// Interval of HTTP/2 pings, and timeout of their answers. They detect a server that lost power while its watches
/// were idle.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(15);

/// A response body that broke off.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BodyError(BoxError);

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Sends requests to a server. The URLs for a remote server are absolute.
pub type Transport = BoxCloneSyncService<Request<Bytes>, Response<Body>, BoxError>;

/// Creates a transport to a service in this process.
pub fn in_process<S, B>(service: S) -> Transport
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let infallible = |never: Infallible| -> BoxError { match never {} };
    let service = service.map_request(|request: Request<Bytes>| request.map(Full::new));
    BoxCloneSyncService::new(service.map_response(boxed).map_err(infallible))
}

/// Configures the HTTP client for remote servers: TLS, timeouts, keep-alive, and the proxies of the environment
/// (`HTTPS_PROXY`, `NO_PROXY`). The client follows no redirects.
pub fn builder(tls: ClientConfig) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(TCP_KEEPALIVE)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .http2_keep_alive_while_idle(true)
}

/// Creates a transport to remote servers. With HTTP/2, one connection to a server carries all requests and watches.
/// `idle_connections` is the number of idle HTTP/1 connections that stay open.
///
/// # Errors
/// If the TLS configuration cannot be used.
pub fn http(tls: ClientConfig, idle_connections: usize) -> Result<Transport, BoxError> {
    let client = builder(tls).pool_max_idle_per_host(idle_connections).build()?;
    let send = move |request: Request<Bytes>| {
        let client = client.clone();
        async move {
            let response = client.execute(request.try_into()?).await;
            // Errors of the client name the server.
            let response = response.map_err(reqwest::Error::without_url)?;
            Ok::<_, BoxError>(boxed(response.into()))
        }
    };
    Ok(BoxCloneSyncService::new(tower::service_fn(send)))
}

/// Sends one HTTP/1.1 request over an open connection, such as a Unix socket. The connection ends with the
/// response.
///
/// # Errors
/// If the connection broke.
pub async fn send_on<S>(stream: S, request: Request<Bytes>) -> Result<Response<Body>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut connection = Box::pin(connection);
    let mut sent = pin!(sender.send_request(request.map(Full::new)));
    // An error of the connection is also that of the request or the body.
    let (response, connection) = tokio::select! {
        response = &mut sent => (response?, Some(connection)),
        _ = &mut connection => (sent.await?, None),
    };
    Ok(boxed(response.map(|body| ConnectedBody { body, connection })))
}

/// A response body that drives its connection.
struct ConnectedBody<C> {
    body: Incoming,
    /// `None` after the connection has ended.
    connection: Option<Pin<Box<C>>>,
}

impl<C: Future> HttpBody for ConnectedBody<C> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let has_ended =
            self.connection.as_mut().is_some_and(|connection| connection.as_mut().poll(cx).is_ready());
        if has_ended {
            self.connection = None;
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn boxed<B>(response: Response<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    response.map(|body| body.map_err(|error| BodyError(error.into())).boxed_unsync())
}

/// The URL of a path on a server. The URL of the server may contain a path itself.
///
/// # Errors
/// If the result is not a URL.
pub(crate) fn url(server: &str, path: &str) -> http::Result<Uri> {
    Ok(format!("{}{path}", server.trim_end_matches('/')).parse::<Uri>()?)
}
