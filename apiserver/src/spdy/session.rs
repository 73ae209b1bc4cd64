//! The server's side of a session: one task reads frames and hands their bytes to streams, one writes, and every stream has
//! one that takes what it has to say.

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

/// Streams open at once: two of every connection that a `kubectl port-forward` carries. All their buffers full are 48 MiB.
pub(super) const STREAMS: usize = 512;
/// A client whose bytes nobody takes is asked this often whether it is there: while nothing is read of a connection, its end
/// is not seen, and only what is sent to one that is gone comes back as an error.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// How long a client that has been told everything may take to close the connection; what it still sends is read off, or
/// the kernel would throw away what it has not read yet.
const LINGER: Duration = Duration::from_secs(10);
/// Read at once, and the longest data that is sent in one frame.
const PIECE_BYTES: usize = 16 * 1024;
/// Frames that wait to be written, each of a piece at most; one stream that says much is not to make others wait long.
const WAITING_FRAMES: usize = 16;
/// So much of them is written at once.
const WRITE_BYTES: usize = 64 * 1024;

/// Whether a stream with these headers is taken.
pub type Admit = fn(&HeaderMap) -> bool;

/// A session with a client, which begins streams.
///
/// It goes on until neither it nor any of its streams is held any more, the client ends it or is gone, or nothing moves.
#[derive(Debug)]
pub struct Session {
    streams: mpsc::Receiver<Stream>,
    _alive: Alive,
}

impl Session {
    /// Begins, on a connection on which `101 Switching Protocols` was the last that was said; it ends when nothing has come
    /// and nothing gone for as long as `idle`.
    pub fn start(io: impl AsyncRead + AsyncWrite + Send + 'static, admit: Admit, idle: Duration) -> Self {
        let (offers, streams) = mpsc::channel(STREAMS);
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
        tokio::spawn(serving.run(from, unused));
        Self { streams, _alive: alive }
    }

    /// The next stream that the client begins; `None` when it begins no more.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.streams.recv().await
    }
}

/// A stream that the client has begun and that is not over.
struct Open {
    /// `None` when there is nothing more to read, or nobody who does.
    input: Option<DuplexStream>,
    /// Takes what is to be sent; `None` when all of it is.
    pump: Option<AbortHandle>,
}

/// How a session ends.
enum End {
    /// All is said.
    Done,
    /// The client is not there any more.
    Gone,
    /// The client does not speak SPDY.
    Broken(frame::Error),
}

struct Serving {
    admit: Admit,
    offers: mpsc::Sender<Stream>,
    alive: mpsc::WeakSender<Infallible>,
    frames: mpsc::Sender<Frame>,
    /// The one task that writes.
    writing: JoinSet<io::Result<()>>,
    open: HashMap<u32, Open>,
    /// The number of the stream that was begun last.
    latest: u32,
    /// The client begins no more streams.
    gone_away: bool,
    /// A task a stream, which ends with its number when all that it had to say is on its way.
    pumps: JoinSet<u32>,
    /// When something came or went last.
    active: Activity,
    /// How long nothing may.
    idle: Duration,
}

impl Serving {
    async fn run<Io: AsyncRead>(mut self, mut from: ReadHalf<Io>, mut unused: mpsc::Receiver<Infallible>) {
        let end = self.read(&mut from, &mut unused).await;
        // Readers see the end of what came, writers that somebody still holds fail, and no more streams are waited for.
        drop((self.offers, self.open));
        let status = match &end {
            End::Gone => return,
            End::Done => 0,
            End::Broken(error) => {
                tracing::debug!(%error, "a session ends because its client breaks the rules of SPDY");
                1
            }
        };
        self.pumps.shutdown().await;
        let _ = self.frames.send(Frame::GoAway { last: self.latest, status }).await;
        drop(self.frames);
        // A client may take its time to read what there is; the writer knows how long at most.
        let _ = self.writing.join_next().await;
        let mut left = [0; 1024];
        let _ =
            tokio::time::timeout(LINGER, async { while let Ok(1..) = from.read(&mut left).await {} }).await;
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
                    Ok(1..) => self.active.moved(),
                    Ok(0) | Err(_) => return End::Gone,
                },
                Some(said) = self.pumps.join_next() => self.has_said_all(said),
                _ = unused.recv(), if is_used => is_used = false,
                Some(_) = self.writing.join_next() => return End::Gone,
                () = self.active.ceased(self.idle) => return End::Gone,
            }
            if !is_used && self.pumps.is_empty() {
                return End::Done;
            }
        }
    }

    /// Does what a frame says; fails when nothing can be written any more.
    async fn take(&mut self, frame: Frame) -> Result<(), Gone> {
        match frame {
            Frame::SynStream { stream, fin, unidirectional, headers } => {
                return self.begin(stream, fin, unidirectional, headers).await;
            }
            Frame::Data { stream, fin, bytes } => return self.give(stream, bytes, fin).await,
            Frame::Headers { stream, fin: true, .. } => return self.give(stream, Bytes::new(), true).await,
            Frame::Reset { stream, .. } => {
                if let Some(Open { pump: Some(pump), .. }) = self.open.remove(&stream) {
                    pump.abort();
                }
            }
            // Odd numbers are the client's; others would answer a question that is never asked.
            Frame::Ping(number) if number % 2 == 1 => return self.send(Frame::Ping(number)).await,
            Frame::GoAway { .. } => self.gone_away = true,
            // Nothing was asked, and nobody keeps windows.
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
        if self.open.len() >= STREAMS || !(self.admit)(&headers) {
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

    /// Gives bytes to the reader of a stream, who may have to make room first; fails when the client goes away meanwhile.
    async fn give(&mut self, number: u32, bytes: Bytes, fin: bool) -> Result<(), Gone> {
        // What comes for a stream that is over was on its way when it ended.
        let Some(open) = self.open.get_mut(&number) else { return Ok(()) };
        let is_read = match &mut open.input {
            Some(input) => tokio::select! {
                given = tokio::time::timeout(self.idle, input.write_all(&bytes)) => match given {
                    Ok(given) => given.is_ok(),
                    // To go on without these bytes would be to tell the reader that they never were.
                    Err(_) => return Err(Gone),
                },
                () = ask(&self.frames) => return Err(Gone),
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

    fn has_said_all(&mut self, said: Result<u32, JoinError>) {
        // One that was aborted belonged to a stream that is gone already.
        let Ok(number) = said else { return };
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

/// Nothing can be written any more.
struct Gone;

/// Sends what a stream has to say, and that this was all.
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

/// Asks the client again and again whether it is there, until nothing can be written any more.
///
/// By settings without a setting, which nobody answers: one whose own bytes are stuck could not, and would read no more until
/// it had.
async fn ask(frames: &mpsc::Sender<Frame>) {
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        if frames.send(Frame::Settings(Vec::new())).await.is_err() {
            return;
        }
    }
}

/// Writes frames until there are no more.
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
            // Whole: Go's reader wants the headers of a frame in one piece.
            to.write_all(&bytes).await?;
            to.flush().await
        };
        tokio::time::timeout(idle, written).await??;
        bytes.clear();
        active.moved();
    }
    to.shutdown().await
}
