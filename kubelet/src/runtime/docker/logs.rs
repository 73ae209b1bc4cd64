//! Reads container logs.

use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;

use super::errors::{QUERY_TIMEOUT, is_gone, timed_out};
use super::{Docker, inspect, stream};
use crate::observed::Timestamp;
use crate::runtime::{Error, LogOptions, Stream};

/// Limits for the end of the log that replaces a missing termination message, as in the Kubernetes API.
const LAST_LINES: u64 = 80;
const LAST_BYTES: usize = 2048;

pub(super) async fn logs(
    docker: &Docker,
    id: &str,
    options: &LogOptions,
) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error> {
    let config = inspect::inspect_raw(docker, id).await?.config;
    let terminal = config.and_then(|config| config.tty).unwrap_or_default();
    let time = |time: Timestamp| format!("{}.{:09}", time.as_second(), time.subsec_nanosecond());
    let (since, until) = (options.since.map(time), options.until.map(time));
    let tail = options.tail.map(|lines| lines.to_string());
    let flag = |on: bool| if on { "1" } else { "0" };
    let path = stream::query(
        &format!("/containers/{id}/logs"),
        &[
            ("stdout", "1"),
            ("stderr", "1"),
            ("follow", flag(options.follow)),
            ("timestamps", flag(options.timestamps)),
            ("since", since.as_deref().unwrap_or("0")),
            ("until", until.as_deref().unwrap_or("0")),
            ("tail", tail.as_deref().unwrap_or("all")),
        ],
    );
    Ok(stream::output(stream::get(docker, "read the log", id, &path).await?, terminal))
}

/// The end of a container's log, or `None` if it is empty or the container is gone.
pub(super) async fn log_tail(docker: &Docker, id: &str) -> Result<Option<String>, Error> {
    let options = LogOptions { tail: Some(LAST_LINES), ..LogOptions::default() };
    let read = async {
        let mut log = logs(docker, id, &options).await?;
        let mut words = Vec::new();
        while let Some((_, piece)) = log.try_next().await? {
            words.extend_from_slice(&piece);
            // Lines can be arbitrarily long, so only the tail is kept in memory.
            if words.len() > 2 * LAST_BYTES {
                words.drain(..words.len() - LAST_BYTES);
            }
        }
        Ok(words)
    };
    match tokio::time::timeout(QUERY_TIMEOUT, read)
        .await
        .unwrap_or_else(|_| Err(timed_out("read the log", QUERY_TIMEOUT)))
    {
        Ok(words) if words.is_empty() => Ok(None),
        Ok(words) => {
            Ok(Some(String::from_utf8_lossy(&words[words.len().saturating_sub(LAST_BYTES)..]).into_owned()))
        }
        // An unreadable log (another driver, a lost file) must not hide the container's state.
        Err(Error::Refused { .. }) => Ok(None),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
