//! Streams of exec and attach, and the encoding of the exit status.

use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::session::Session;
use super::stream::Stream;

/// Subprotocols of exec. Over SPDY, v5 is identical to v4.
pub const PROTOCOLS: &[&str] =
    &["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
/// How long a client may take to open the streams, as in the stock kubelet.
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);

/// The streams that the client requests. The error stream is always present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error; unused with a terminal, which has only one output.
    pub stderr: bool,
    /// True for a terminal, which also has a resize stream.
    pub tty: bool,
}

/// The requested streams of a command. Dropping a stream ends it.
#[derive(Debug)]
pub struct Streams {
    /// The session. It accepts no more streams once the client is gone.
    pub session: Session,
    /// Negotiated subprotocol.
    pub protocol: &'static str,
    /// Standard input.
    pub stdin: Option<Stream>,
    /// Standard output.
    pub stdout: Option<Stream>,
    /// Standard error.
    pub stderr: Option<Stream>,
    /// Terminal sizes as consecutive JSON objects: `{"Width":80,"Height":24}`.
    pub resize: Option<Stream>,
    /// Exit status.
    pub error: Stream,
}

/// Whether the headers are those of an exec stream.
pub fn admit(headers: &HeaderMap) -> bool {
    let kind = headers.get("streamtype").map_or(&b""[..], |value| value.as_bytes());
    [&b"error"[..], b"stdin", b"stdout", b"stderr", b"resize"].contains(&kind)
}

impl Streams {
    /// Waits for all requested streams. Returns `None` if the client is gone or does not open them in time.
    pub async fn accept(mut session: Session, protocol: &'static str, wanted: StreamOptions) -> Option<Self> {
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
        tokio::time::timeout(STREAMS_TIMEOUT, all).await.ok().flatten()?;
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

    /// Sends the exit status and ends all streams.
    pub async fn end(mut self, status: &Value) {
        // A client that is gone does not need it.
        let _ = self.error.writer.write_all(&encode_status(self.protocol, status)).await;
    }
}

/// Encodes the exit status. Since v4 it is a `Status`, before that an error message or nothing.
pub fn encode_status(protocol: &str, status: &Value) -> Vec<u8> {
    match protocol {
        "v3.channel.k8s.io" | "v2.channel.k8s.io" | "channel.k8s.io" => {
            let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
            if text("status") == "Success" { Vec::new() } else { text("message").as_bytes().to_vec() }
        }
        _ => status.to_string().into_bytes(),
    }
}
