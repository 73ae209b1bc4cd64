//! Streams of port-forward: each forwarded connection has a data and an error stream.

use std::collections::VecDeque;
use std::time::Duration;

use http::HeaderMap;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use super::session::Session;
use super::stream::Stream;

/// Subprotocols of port-forward.
pub const PROTOCOLS: &[&str] = &["portforward.k8s.io"];
/// How long a client may take to open the second stream of a pair, as in the stock kubelet.
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of incomplete pairs. They can use half of the session's streams.
const WAITING: usize = 256;

/// A forwarded connection.
#[derive(Debug)]
pub struct ForwardedConnection {
    /// Target port.
    pub port: u16,
    /// Data stream.
    pub data: Stream,
    /// Error stream with a plain text message. Clients close the connection on any output.
    pub error: Stream,
}

/// A port-forward session.
#[derive(Debug)]
pub struct ForwardedConnections {
    session: Session,
    /// Incomplete pairs, oldest first, with their request ID.
    waiting: VecDeque<(Instant, String, Stream)>,
}

/// Whether the headers are those of a port-forward stream.
pub fn admit(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    matches!(text("streamtype"), "data" | "error") && text("port").parse::<u16>().is_ok_and(|port| port > 0)
}

impl ForwardedConnections {
    /// Creates the connections of a session that was started with [`admit`].
    pub fn new(session: Session) -> Self {
        Self { session, waiting: VecDeque::new() }
    }

    /// The next connection, or `None` if the client is gone.
    pub async fn next(&mut self) -> Option<ForwardedConnection> {
        loop {
            let late = self.waiting.front().map(|(since, ..)| *since + PAIR_TIMEOUT);
            let stream = tokio::select! {
                stream = self.session.accept() => stream?,
                () = until(late) => {
                    self.drop_oldest_pair().await;
                    continue;
                }
            };
            let request = request(&stream);
            let is_second =
                |first: &(Instant, String, Stream)| first.1 == request && first.2.kind() != stream.kind();
            if let Some(at) = self.waiting.iter().position(is_second)
                && let Some((_, _, first)) = self.waiting.remove(at)
                && let Ok(port) = stream.header("port").parse()
            {
                let (data, error) = if stream.kind() == "data" { (stream, first) } else { (first, stream) };
                return Some(ForwardedConnection { port, data, error });
            }
            if self.waiting.len() == WAITING {
                self.drop_oldest_pair().await;
            }
            self.waiting.push_back((Instant::now(), request, stream));
        }
    }

    /// Ends the oldest pair of streams that is incomplete.
    async fn drop_oldest_pair(&mut self) {
        if let Some((_, request, mut stream)) = self.waiting.pop_front()
            && stream.kind() == "error"
        {
            let message = format!("(request={request}) timed out waiting for streams");
            // The message fits into the buffer; a client that is gone does not need it.
            let _ = stream.writer.write_all(message.as_bytes()).await;
        }
    }
}

/// The request ID of a stream. The oldest clients send none: their data stream directly follows its error stream.
fn request(stream: &Stream) -> String {
    match stream.header("requestid") {
        "" if stream.kind() == "data" => format!("stream {}", stream.id.saturating_sub(2)),
        "" => format!("stream {}", stream.id),
        request => request.to_owned(),
    }
}

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
