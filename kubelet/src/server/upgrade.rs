//! Whichever of two protocols a client asks for, and what is said where it can have neither.

use std::time::Duration;

use apiserver::Status;
use apiserver::spdy::remote::{self, Streams};
use apiserver::spdy::{self, Refusal};
use axum::extract::ws::WebSocketUpgrade;
use axum::response::{IntoResponse, Response};
use http::request::Parts;

use super::channels::Process;
use super::{spdy as streams, websocket};

/// A request for a process's streams, which can be had.
pub enum Upgrade {
    /// Over a WebSocket.
    WebSocket(WebSocketUpgrade),
    /// Over SPDY.
    Spdy(spdy::Upgrade),
}

/// Why they cannot be had.
pub enum Refused {
    /// As everything is said.
    Status(Status),
    /// As a client of SPDY is told.
    Spdy(Refusal),
}

impl Upgrade {
    /// Agrees with a client on a protocol.
    ///
    /// # Errors
    /// When it asks for none, or for none that is spoken here.
    pub async fn of_process(parts: &mut Parts) -> Result<Self, Refused> {
        if spdy::Upgrade::is_asked(&parts.headers) {
            return Ok(Self::Spdy(spdy::Upgrade::read(parts, remote::PROTOCOLS)?));
        }
        Ok(Self::WebSocket(websocket::upgrade(parts, &websocket::OF_PROCESSES).await?))
    }

    /// The answer, after which the client's side is served once all of it is there, as long as something moves within `idle`.
    pub fn serve<F>(
        self,
        wanted: remote::Wanted,
        idle: Duration,
        serve: impl FnOnce(Process) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self {
            Self::WebSocket(upgrade) => {
                upgrade.on_upgrade(move |socket| serve(websocket::process(socket, idle)))
            }
            Self::Spdy(upgrade) => {
                let protocol = upgrade.protocol;
                upgrade.serve(remote::admit, idle, move |session| async move {
                    // One who does not begin his streams is not served.
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
