//! The streams of forwarded ports: every connection is a pair, one for its data and one for what goes wrong.

use std::collections::VecDeque;
use std::time::Duration;

use http::HeaderMap;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use super::session::Session;
use super::stream::Stream;

/// The protocol of forwarded ports.
pub const PROTOCOLS: &[&str] = &["portforward.k8s.io"];
/// How long the second stream of a pair may take to come after the first; the stock kubelet's.
const SECOND_WITHIN: Duration = Duration::from_secs(30);
/// Streams that wait for their second, half of those that a session has; a client that begins more has lost count.
const WAITING: usize = 256;

/// A connection that a client has accepted and wants forwarded.
#[derive(Debug)]
pub struct Pair {
    /// To which port.
    pub port: u16,
    /// What goes back and forth.
    pub data: Stream,
    /// What went wrong, as text for people; a client that reads anything on it ends the connection.
    pub error: Stream,
}

/// A session of forwarded ports.
#[derive(Debug)]
pub struct Pairs {
    session: Session,
    /// The first streams of pairs, the oldest first, by what tells their second.
    waiting: VecDeque<(Instant, String, Stream)>,
}

/// Whether a stream is one of a forwarded connection.
pub fn admit(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    matches!(text("streamtype"), "data" | "error") && text("port").parse::<u16>().is_ok_and(|port| port > 0)
}

impl Pairs {
    /// The pairs of a session that was begun with [`admit`].
    pub fn new(session: Session) -> Self {
        Self { session, waiting: VecDeque::new() }
    }

    /// The next connection; `None` when the client goes away.
    pub async fn next(&mut self) -> Option<Pair> {
        loop {
            let late = self.waiting.front().map(|(since, ..)| *since + SECOND_WITHIN);
            let stream = tokio::select! {
                stream = self.session.accept() => stream?,
                () = until(late) => {
                    self.give_up().await;
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
                return Some(Pair { port, data, error });
            }
            if self.waiting.len() == WAITING {
                self.give_up().await;
            }
            self.waiting.push_back((Instant::now(), request, stream));
        }
    }

    /// Ends the stream that has waited longest.
    async fn give_up(&mut self) {
        if let Some((_, request, mut stream)) = self.waiting.pop_front()
            && stream.kind() == "error"
        {
            let message = format!("(request={request}) timed out waiting for streams");
            // It fits in any buffer; a client that is gone does not ask.
            let _ = stream.writer.write_all(message.as_bytes()).await;
        }
    }
}

/// What both streams of a pair have in common. The oldest clients say nothing; their data comes right after its error.
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
