//! Selects WebSocket or SPDY for a process session. If neither is possible, it reports the reason.

use std::time::Duration;

use apiserver::Status;
use apiserver::spdy::exec::{self, Streams};
use apiserver::spdy::{self, Refusal};
use axum::extract::ws::WebSocketUpgrade;
use axum::response::{IntoResponse, Response};
use http::request::Parts;

use super::channels::Process;
use super::{spdy as streams, websocket};

/// An accepted upgrade request for process streams.
pub enum Upgrade {
    /// The session runs over a WebSocket.
    WebSocket(WebSocketUpgrade),
    /// The session runs over SPDY.
    Spdy(spdy::Upgrade),
}

/// A rejected upgrade request.
pub enum Refused {
    /// The request is rejected with an API status.
    Status(Status),
    Spdy(Refusal),
}

impl Upgrade {
    /// Negotiates a protocol with the client.
    ///
    /// # Errors
    /// If the request asks for no upgrade, or for no supported protocol.
    pub async fn of_process(parts: &mut Parts) -> Result<Self, Refused> {
        if spdy::Upgrade::is_requested(&parts.headers) {
            return Ok(Self::Spdy(spdy::Upgrade::read(parts, exec::PROTOCOLS)?));
        }
        Ok(Self::WebSocket(websocket::upgrade(parts, &websocket::OF_PROCESSES).await?))
    }

    /// Accepts the upgrade, and calls `serve` once all streams of the client are open. `idle` is the idle timeout.
    pub fn serve<F>(
        self,
        wanted: exec::StreamOptions,
        idle: Duration,
        serve: impl FnOnce(Process) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self {
            Self::WebSocket(upgrade) => upgrade.on_upgrade(move |socket| async move {
                let (process, connection) = websocket::process(socket, idle);
                tokio::join!(serve(process), connection);
            }),
            Self::Spdy(upgrade) => {
                let protocol = upgrade.protocol;
                upgrade.serve(exec::admit, idle, move |session| async move {
                    // A client that does not open its streams is not served.
                    if let Some(all) = Streams::accept(session, protocol, wanted).await {
                        serve(streams::process(all)).await;
                    }
                })
            }
        }
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Spdy(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Status(status) => status.into_response(),
            Self::Spdy(refusal) => refusal.into_response(),
        }
    }
}
