//! Attaches to the streams of a container's main process. It loses no output of a container that has just started
//! or exited.
//!
//! The engine delivers only output that follows the attach request. It never ends the stream of a container that
//! ended a moment before. `kubectl run --attach` attaches when it sees that the pod runs, so a short command would
//! lose its output, and the client would wait forever. Therefore the missing output is read from the log.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, sleep_until};

use crate::observed::State;
use crate::runtime::{Error, ExecSession, Inspected, LogOptions, Runtime, Stream};

/// How long after the start of the container a client that attaches also receives the earlier output.
const EARLY: SignedDuration = SignedDuration::from_secs(10);
/// How long the engine's stream may deliver nothing after the container's exit before it counts as complete.
const LAST_OUTPUT_WITHIN: Duration = Duration::from_secs(2);
/// How long the newest log lines are kept back, because the engine's stream may repeat them.
const REPEATED_WITHIN: Duration = Duration::from_millis(100);
/// Maximum size of these lines in bytes. The container writes them between two engine requests.
const RECENT_BYTES: usize = 16 * 1024;
/// Maximum bytes read from the log per stream if the engine's stream was attached too late.
const REST_BYTES: usize = 1024 * 1024;
/// Timeout of one wait for the container's exit. The next wait follows at once.
const WAIT: Duration = Duration::from_secs(3600);
/// Delay before the next wait if the engine does not answer.
const RETRY: Duration = Duration::from_secs(1);

type Piece = Result<(Stream, Bytes), Error>;
type Output = BoxStream<'static, Piece>;

/// Attaches to the container. With `stdin`, also to its standard input.
///
/// # Errors
/// If the engine refuses, or the container has ended and started more than [`EARLY`] ago. Its output is in the log.
pub async fn attach(runtime: &Arc<dyn Runtime>, id: &str, stdin: bool) -> Result<ExecSession, Error> {
    let (started_at, is_running) = match runtime.inspect(id).await? {
        Inspected::Container(_, container) => match container.state {
            State::Running { started_at, .. } => (Some(started_at), true),
            State::Exited(exit) => (exit.started_at, false),
            State::Created => (None, false),
        },
        Inspected::Sandbox(..) => (None, false),
    };
    let attached_at = Timestamp::now();
    let is_early = started_at.is_some_and(|started_at| attached_at.duration_since(started_at) < EARLY);
    if !is_running {
        if !is_early {
            return Err(Error::refused("attach to the container", "the container is not running"));
        }
        let output = runtime.logs(id, &LogOptions::default()).await?;
        return Ok(ExecSession { id: String::new(), output, input: Box::pin(tokio::io::sink()) });
    }
    let session = runtime.attach(id, stdin).await?;
    let mut live = Live {
        runtime: runtime.clone(),
        id: id.to_owned(),
        attached_at,
        output: session.output,
        ended: ended(runtime.clone(), id.to_owned()).boxed(),
        phase: Phase::Running,
        timer: None,
        recent: Recent::default(),
        sent: Recent::default(),
        has_output: false,
        queue: VecDeque::new(),
    };
    let mut earlier = stream::empty().boxed();
    if is_early {
        let until = LogOptions { until: Some(attached_at), ..LogOptions::default() };
        earlier = readable(runtime.logs(id, &until).await);
        live.recent = read_since(runtime.clone(), id.to_owned(), attached_at, RECENT_BYTES).await;
        live.timer = Some(Instant::now() + REPEATED_WITHIN);
    }
    let output = stream::try_unfold(live, |mut live| async move {
        Ok(live.next().await.transpose()?.map(|piece| (piece, live)))
    });
    Ok(ExecSession { output: earlier.chain(output).boxed(), ..session })
}

/// The container's log. It is empty if its driver cannot read it.
fn readable(log: Result<Output, Error>) -> Output {
    log.unwrap_or_else(|error| {
        tracing::debug!(%error, "the log of an attached container cannot be read");
        stream::empty().boxed()
    })
}

/// Completes when the container has ended.
async fn ended(runtime: Arc<dyn Runtime>, id: String) {
    loop {
        match runtime.wait(&id, WAIT).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(%error, "waiting for the end of an attached container failed");
                sleep(RETRY).await;
            }
        }
    }
}

/// The log since the attach request, by stream.
#[derive(Default)]
struct Recent {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Recent {
    fn of(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// The container runs.
    Running,
    /// The container has ended. The engine may still deliver output.
    Ended,
    /// The engine delivers no more output.
    Complete,
}

/// The engine's stream of an attached container.
struct Live {
    runtime: Arc<dyn Runtime>,
    id: String,
    attached_at: Timestamp,
    output: Output,
    ended: BoxFuture<'static, ()>,
    phase: Phase,
    /// When `recent` is sent. After the container's end: when its output counts as complete.
    timer: Option<Instant>,
    /// Log that was not sent yet, because the engine's stream probably repeats it.
    recent: Recent,
    /// The part of `recent` that the client has received.
    sent: Recent,
    /// Whether the engine's stream has delivered anything.
    has_output: bool,
    queue: VecDeque<(Stream, Bytes)>,
}

impl Live {
    async fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.queue.pop_front() {
                return Some(Ok(piece));
            }
            if self.phase == Phase::Complete {
                return None;
            }
            let timer = self.timer;
            let due = async { if let Some(at) = timer { sleep_until(at).await } else { pending().await } };
            tokio::select! {
                biased;
                piece = self.output.next() => match piece {
                    Some(Ok((stream, bytes))) => self.take(stream, bytes),
                    Some(Err(error)) => return Some(Err(error)),
                    None => self.complete().await,
                },
                () = &mut self.ended, if self.phase == Phase::Running => {
                    self.phase = Phase::Ended;
                    self.timer = Some(Instant::now() + LAST_OUTPUT_WITHIN);
                }
                () = due => match self.phase {
                    Phase::Running => {
                        self.timer = None;
                        self.release();
                    }
                    Phase::Ended | Phase::Complete => self.complete().await,
                },
            }
        }
    }

    /// Queues output of the engine's stream. Before it, queues the part of the log that the stream does not repeat.
    fn take(&mut self, stream: Stream, bytes: Bytes) {
        self.has_output = true;
        if self.phase == Phase::Ended {
            self.timer = Some(Instant::now() + LAST_OUTPUT_WITHIN);
        }
        let mut recent = std::mem::take(self.recent.of(stream));
        recent.truncate(unrepeated(&recent, &bytes));
        self.queue.extend([(stream, Bytes::from(recent)), (stream, bytes)]);
        self.queue.retain(|(_, bytes)| !bytes.is_empty());
    }

    /// Queues the part of the log that the engine's stream has not repeated in time.
    fn release(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let recent = std::mem::take(self.recent.of(stream));
            self.sent.of(stream).extend_from_slice(&recent);
            if !recent.is_empty() {
                self.queue.push_back((stream, recent.into()));
            }
        }
    }

    /// Queues the rest of the output. If the engine's stream delivered nothing, it was attached too late, and the
    /// log has all output.
    async fn complete(&mut self) {
        self.phase = Phase::Complete;
        if self.has_output {
            return self.release();
        }
        let (runtime, id) = (self.runtime.clone(), self.id.clone());
        let mut rest = read_since(runtime, id, self.attached_at, REST_BYTES).await;
        for stream in [Stream::Stdout, Stream::Stderr] {
            let sent = self.sent.of(stream).len();
            let rest = rest.of(stream).get(sent..).unwrap_or_default();
            if !rest.is_empty() {
                self.queue.push_back((stream, Bytes::copy_from_slice(rest)));
            }
        }
    }
}

/// The output of a container since a time, at most `limit` bytes per stream.
async fn read_since(runtime: Arc<dyn Runtime>, id: String, since: Timestamp, limit: usize) -> Recent {
    let since = LogOptions { since: Some(since), ..LogOptions::default() };
    let mut log = readable(runtime.logs(&id, &since).await);
    let mut recent = Recent::default();
    while let Some(Ok((stream, bytes))) = log.next().await {
        let held = recent.of(stream);
        held.extend_from_slice(&bytes[..bytes.len().min(limit - held.len())]);
    }
    recent
}

/// The length of the start of `recent` that `next` does not repeat. `next` continues `recent`, or repeats its end.
fn unrepeated(recent: &[u8], next: &[u8]) -> usize {
    let repeats = |at: &usize| recent[*at..].starts_with(next) || next.starts_with(&recent[*at..]);
    (0..=recent.len()).find(repeats).unwrap_or(recent.len())
}

#[cfg(test)]
mod tests {
    //! Tests of overlap of a log and the stream that continues it.

    use super::*;

    #[test]
    fn attach_sends_repeated_lines_once() {
        for (recent, next, expected) in [
            ("", "a\n", 0),
            ("a\n", "b\n", 2),
            ("a\nb\n", "b\nc\n", 2),
            ("a\nb\n", "a\nb\nc\n", 0),
            // The stream's first piece may end in the middle of what it repeats.
            ("a\nb\nc\n", "b", 2),
        ] {
            assert_eq!(unrepeated(recent.as_bytes(), next.as_bytes()), expected, "{recent:?} {next:?}");
        }
    }
}
