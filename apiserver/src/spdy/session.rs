//! Server side of a SPDY session. One task reads frames, one writes them, and one task per stream forwards its
//! output.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::frame::{self, Decoder, Encoder, Frame, reason};
use super::stream::{Alive, Ends, Stream};
use crate::activity::Activity;
use crate::tasks;

/// Maximum number of open streams, two per forwarded connection. Their full buffers take 48 MiB.
pub(super) const MAX_STREAMS: usize = 512;
/// How often a client is probed while its data is not read. The server does not notice the end of an unread
/// connection; only a write to it fails.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// How long the client may take to close the connection at the end. Unread input is drained, because otherwise the
/// kernel would discard output that the client has not read.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of a read, and maximum size of a data frame.
const PIECE_BYTES: usize = 16 * 1024;
/// Capacity of the output queue in frames. It bounds the delay that one busy stream causes for others.
const WAITING_FRAMES: usize = 16;
/// Maximum size of one write, which combines several frames.
const WRITE_BYTES: usize = 64 * 1024;

/// Decides by its headers whether a stream is accepted.
pub type Admit = fn(&HeaderMap) -> bool;

/// A session whose streams the client opens.
///
/// The session ends when all its handles and streams are dropped, or after an idle timeout. It also ends when the
/// client closes it or is gone.
#[derive(Debug)]
pub struct Session {
    streams: mpsc::Receiver<Stream>,
    _alive: Alive,
}

impl Session {
    /// Starts a session on a connection after `101 Switching Protocols`. It ends when nothing was received or sent
    /// for `idle`.
    pub fn start(io: impl AsyncRead + AsyncWrite + Send + 'static, admit: Admit, idle: Duration) -> Self {
        let (offers, streams) = mpsc::channel(MAX_STREAMS);
        let (alive, unused) = mpsc::channel(1);
        let (frames, queue) = mpsc::channel(WAITING_FRAMES);
        let active = Activity::begin();
        let (from, to) = tokio::io::split(io);
        let mut writing = JoinSet::new();
        writing.spawn(write(to, queue, active.clone(), idle));
        let serving = Serving {
            admit,
            offers,
            alive: alive.downgrade(),
            frames,
            writing,
            open: HashMap::new(),
            latest: 0,
            gone_away: false,
            pumps: JoinSet::new(),
            active,
            idle,
        };
        tasks::supervise("SPDY session", serving.run(from, unused));
        Self { streams, _alive: alive }
    }

    /// The next stream that the client opens, or `None` if there are no more.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.streams.recv().await
    }
}

/// An open stream.
struct Open {
    /// Input for the reader, or `None` after the client has closed its side or the reader was dropped.
    input: Option<DuplexStream>,
    /// The output task, or `None` after the output has ended.
    pump: Option<AbortHandle>,
}

/// How a session ends.
enum End {
    /// The session is complete.
    Done,
    /// The client is gone.
    Gone,
    /// Protocol error.
    Broken(frame::Error),
}

struct Serving {
    admit: Admit,
    offers: mpsc::Sender<Stream>,
    alive: mpsc::WeakSender<Infallible>,
    frames: mpsc::Sender<Frame>,
    /// The writer task.
    writing: JoinSet<io::Result<()>>,
    open: HashMap<u32, Open>,
    /// ID of the latest stream.
    latest: u32,
    /// True if the client opens no more streams.
    gone_away: bool,
    /// The output tasks of the streams. Each returns its stream ID.
    pumps: JoinSet<u32>,
    /// Last activity.
    active: Activity,
    /// Idle timeout.
    idle: Duration,
}

impl Serving {
    async fn run<Io: AsyncRead>(mut self, mut from: ReadHalf<Io>, mut unused: mpsc::Receiver<Infallible>) {
        let end = self.read(&mut from, &mut unused).await;
        // Readers get the end of input, remaining writers fail, and no more streams are accepted.
        drop((self.offers, self.open));
        let status = match &end {
            End::Gone => return,
            End::Done => 0,
            End::Broken(error) => {
                tracing::debug!(%error, "closing a session: the client violated the SPDY protocol");
                1
            }
        };
        self.pumps.shutdown().await;
        let _ = self.frames.send(Frame::GoAway { last: self.latest, status }).await;
        drop(self.frames);
        // The writer task limits how long a slow client may take.
        let _ = self.writing.join_next().await;
        let mut left = [0; 1024];
        let _ =
            tokio::time::timeout(CLOSE_TIMEOUT, async { while let Ok(1..) = from.read(&mut left).await {} })
                .await;
    }

    async fn read<Io: AsyncRead>(
        &mut self,
        from: &mut ReadHalf<Io>,
        unused: &mut mpsc::Receiver<Infallible>,
    ) -> End {
        let mut decoder = Decoder::default();
        let mut come = BytesMut::new();
        let mut is_used = true;
        loop {
            loop {
                match decoder.next(&mut come) {
                    Ok(Some(frame)) => {
                        if self.take(frame).await.is_err() {
                            return End::Gone;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return End::Broken(error),
                }
            }
            come.reserve(PIECE_BYTES);
            tokio::select! {
                read = from.read_buf(&mut come) => match read {
                    Ok(1..) => self.active.touch(),
                    Ok(0) | Err(_) => return End::Gone,
                },
                Some(finished) = self.pumps.join_next() => self.stream_finished(finished),
                _ = unused.recv(), if is_used => is_used = false,
                Some(_) = self.writing.join_next() => return End::Gone,
                () = self.active.idle_for(self.idle) => return End::Gone,
            }
            if !is_used && self.pumps.is_empty() {
                return End::Done;
            }
        }
    }

    /// Handles a frame. Fails if output is no longer possible.
    async fn take(&mut self, frame: Frame) -> Result<(), Gone> {
        match frame {
            Frame::SynStream { stream, fin, unidirectional, headers } => {
                return self.begin(stream, fin, unidirectional, headers).await;
            }
            Frame::Data { stream, fin, bytes } => return self.deliver(stream, bytes, fin).await,
            Frame::Headers { stream, fin: true, .. } => {
                return self.deliver(stream, Bytes::new(), true).await;
            }
            Frame::Reset { stream, .. } => {
                if let Some(Open { pump: Some(pump), .. }) = self.open.remove(&stream) {
                    pump.abort();
                }
            }
            // Odd IDs are client pings. Even ones would answer server pings, which are never sent.
            Frame::Ping(number) if number % 2 == 1 => return self.send(Frame::Ping(number)).await,
            Frame::GoAway { .. } => self.gone_away = true,
            // Not used: the server opens no streams and keeps no windows.
            Frame::Ping(_)
            | Frame::SynReply { .. }
            | Frame::Settings(_)
            | Frame::Headers { .. }
            | Frame::WindowUpdate { .. } => {}
        }
        Ok(())
    }

    async fn begin(
        &mut self,
        number: u32,
        fin: bool,
        unidirectional: bool,
        headers: HeaderMap,
    ) -> Result<(), Gone> {
        if self.gone_away {
            return Ok(());
        }
        if number.is_multiple_of(2) || number <= self.latest {
            return self.send(Frame::Reset { stream: number, reason: reason::PROTOCOL_ERROR }).await;
        }
        self.latest = number;
        let refused = Frame::Reset { stream: number, reason: reason::REFUSED };
        if self.open.len() >= MAX_STREAMS || !(self.admit)(&headers) {
            return self.send(refused).await;
        }
        let Some(alive) = self.alive.upgrade() else { return self.send(refused).await };
        let (stream, Ends { input, output }) = Stream::new(number, headers, &alive);
        if self.offers.try_send(stream).is_err() {
            return self.send(refused).await;
        }
        self.send(Frame::SynReply { stream: number, fin: unidirectional, headers: HeaderMap::new() }).await?;
        let pump = (!unidirectional).then(|| self.pumps.spawn(pump(number, output, self.frames.clone())));
        let input = (!fin).then_some(input);
        if pump.is_some() || input.is_some() {
            self.open.insert(number, Open { input, pump });
        }
        Ok(())
    }

    /// Forwards data to the reader of a stream, and waits for space in its buffer. Fails if the client is gone.
    async fn deliver(&mut self, number: u32, bytes: Bytes, fin: bool) -> Result<(), Gone> {
        // Data of a closed stream was in transit.
        let Some(open) = self.open.get_mut(&number) else { return Ok(()) };
        let is_read = match &mut open.input {
            Some(input) => tokio::select! {
                given = tokio::time::timeout(self.idle, input.write_all(&bytes)) => match given {
                    Ok(given) => given.is_ok(),
                    // Skipping the data would corrupt the stream.
                    Err(_) => return Err(Gone),
                },
                () = probe(&self.frames) => return Err(Gone),
                Some(_) = self.writing.join_next() => return Err(Gone),
            },
            None => false,
        };
        if fin || !is_read {
            open.input = None;
        }
        if fin && open.pump.is_none() {
            self.open.remove(&number);
        }
        Ok(())
    }

    fn stream_finished(&mut self, finished: Result<u32, JoinError>) {
        // An aborted task belongs to a stream that was reset.
        let Ok(number) = finished else { return };
        if let Some(open) = self.open.get_mut(&number) {
            open.pump = None;
            if open.input.is_none() {
                self.open.remove(&number);
            }
        }
    }

    async fn send(&self, frame: Frame) -> Result<(), Gone> {
        self.frames.send(frame).await.map_err(|_| Gone)
    }
}

/// The error for output that is no longer possible.
struct Gone;

/// Forwards the output of a stream, then its end.
async fn pump(number: u32, mut output: DuplexStream, frames: mpsc::Sender<Frame>) -> u32 {
    loop {
        let mut bytes = BytesMut::with_capacity(PIECE_BYTES);
        let fin = !matches!(output.read_buf(&mut bytes).await, Ok(1..));
        let sent = frames.send(Frame::Data { stream: number, fin, bytes: bytes.freeze() }).await;
        if fin || sent.is_err() {
            return number;
        }
    }
}

/// Probes the client periodically until output is no longer possible.
///
/// It sends empty SETTINGS, which need no answer. A client whose own output is blocked could not answer a ping, and
/// would stop reading.
async fn probe(frames: &mpsc::Sender<Frame>) {
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        if frames.send(Frame::Settings(Vec::new())).await.is_err() {
            return;
        }
    }
}

/// Writes frames until the queue is closed.
async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Frame>,
    active: Activity,
    idle: Duration,
) -> io::Result<()> {
    let mut encoder = Encoder::default();
    let mut bytes = BytesMut::new();
    while let Some(frame) = queue.recv().await {
        encoder.encode(&frame, &mut bytes);
        while bytes.len() < WRITE_BYTES
            && let Ok(frame) = queue.try_recv()
        {
            encoder.encode(&frame, &mut bytes);
        }
        let written = async {
            // Go's reader expects the frame header in one piece.
            to.write_all(&bytes).await?;
            to.flush().await
        };
        tokio::time::timeout(idle, written).await??;
        bytes.clear();
        active.touch();
    }
    to.shutdown().await
}
