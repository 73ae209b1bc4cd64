//! The streams of a command in a container, and how its end is told on them.

use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::session::Session;
use super::stream::Stream;

/// The protocols of commands; over SPDY the fifth is the fourth.
pub const PROTOCOLS: &[&str] =
    &["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
/// How long a client may take to begin the streams that it has asked for; the stock kubelet's.
const STREAMS_WITHIN: Duration = Duration::from_secs(30);

/// Which streams a client has asked for; the one for errors is never asked for and always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Input is sent.
    pub stdin: bool,
    /// Output is waited for.
    pub stdout: bool,
    /// Error output is waited for; never with a terminal, which has one output.
    pub stderr: bool,
    /// There is a terminal, whose size changes.
    pub tty: bool,
}

/// The streams of a command: each is there if it was asked for, and those that are dropped end.
#[derive(Debug)]
pub struct Streams {
    /// What they are part of; it accepts no more once the client is gone.
    pub session: Session,
    /// How its end is told.
    pub protocol: &'static str,
    /// Its input.
    pub stdin: Option<Stream>,
    /// Its output.
    pub stdout: Option<Stream>,
    /// Its error output.
    pub stderr: Option<Stream>,
    /// Sizes of its terminal, `{"Width":80,"Height":24}` after `{"Width":80,"Height":24}`.
    pub resize: Option<Stream>,
    /// How it ends.
    pub error: Stream,
}

/// Whether a stream is one of a command's.
pub fn admit(headers: &HeaderMap) -> bool {
    let kind = headers.get("streamtype").map_or(&b""[..], |value| value.as_bytes());
    [&b"error"[..], b"stdin", b"stdout", b"stderr", b"resize"].contains(&kind)
}

impl Streams {
    /// Waits for the streams of a command; `None` when the client goes away or does not begin them in time.
    pub async fn accept(mut session: Session, protocol: &'static str, wanted: Wanted) -> Option<Self> {
        let has_resize = !matches!(protocol, "v2.channel.k8s.io" | "channel.k8s.io");
        let mut waited: Vec<(&str, Option<Stream>)> = [
            ("error", true),
            ("stdin", wanted.stdin),
            ("stdout", wanted.stdout),
            ("stderr", wanted.stderr && !wanted.tty),
            ("resize", wanted.tty && has_resize),
        ]
        .into_iter()
        .filter_map(|(kind, is_wanted)| is_wanted.then_some((kind, None)))
        .collect();
        let all = async {
            while waited.iter().any(|(_, stream)| stream.is_none()) {
                let stream = session.accept().await?;
                if let Some((_, place)) = waited.iter_mut().find(|(kind, _)| *kind == stream.kind()) {
                    *place = Some(stream);
                }
            }
            Some(())
        };
        tokio::time::timeout(STREAMS_WITHIN, all).await.ok().flatten()?;
        let mut take = |wanted: &str| {
            let found = waited.iter_mut().find(|(kind, _)| *kind == wanted);
            found.and_then(|(_, stream)| stream.take())
        };
        Some(Self {
            stdin: take("stdin"),
            stdout: take("stdout"),
            stderr: take("stderr"),
            resize: take("resize"),
            error: take("error")?,
            session,
            protocol,
        })
    }

    /// Tells how the command ended, after which all of its streams end.
    pub async fn end(mut self, status: &Value) {
        // A client that is gone does not ask.
        let _ = self.error.writer.write_all(&told(self.protocol, status)).await;
    }
}

/// How an end is told: since the fourth protocol by a `Status`, before by what went wrong, or by nothing.
pub fn told(protocol: &str, status: &Value) -> Vec<u8> {
    match protocol {
        "v3.channel.k8s.io" | "v2.channel.k8s.io" | "channel.k8s.io" => {
            let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
            if text("status") == "Success" { Vec::new() } else { text("message").as_bytes().to_vec() }
        }
        _ => status.to_string().into_bytes(),
    }
}
