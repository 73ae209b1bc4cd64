//! A container's log.

use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;

use super::errors::{ASK, is_gone, late};
use super::{Docker, look, stream};
use crate::runtime::{Error, LogOptions, Stream};

/// What stands for a termination message when a failed container left none, as in the Kubernetes API.
const LAST_LINES: u64 = 80;
const LAST_BYTES: usize = 2048;

pub(super) async fn logs(
    docker: &Docker,
    id: &str,
    options: &LogOptions,
) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error> {
    let config = look::inspect(docker, id).await?.config;
    let terminal = config.and_then(|config| config.tty).unwrap_or_default();
    let since = options.since.map(|since| format!("{}.{:09}", since.as_second(), since.subsec_nanosecond()));
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
            ("tail", tail.as_deref().unwrap_or("all")),
        ],
    );
    Ok(stream::output(stream::get(docker, "read the log", id, &path).await?, terminal))
}

/// The end of a container's log, `None` when it is empty or the container is gone.
pub(super) async fn last_words(docker: &Docker, id: &str) -> Result<Option<String>, Error> {
    let options = LogOptions { tail: Some(LAST_LINES), ..LogOptions::default() };
    let read = async {
        let mut log = logs(docker, id, &options).await?;
        let mut words = Vec::new();
        while let Some((_, piece)) = log.try_next().await? {
            words.extend_from_slice(&piece);
            // Lines have no bounds: no more than the end is ever kept.
            if words.len() > 2 * LAST_BYTES {
                words.drain(..words.len() - LAST_BYTES);
            }
        }
        Ok(words)
    };
    match tokio::time::timeout(ASK, read).await.unwrap_or_else(|_| Err(late("read the log", ASK))) {
        Ok(words) if words.is_empty() => Ok(None),
        Ok(words) => {
            Ok(Some(String::from_utf8_lossy(&words[words.len().saturating_sub(LAST_BYTES)..]).into_owned()))
        }
        // A log that cannot be read (another driver, a lost file) is no reason to know nothing of the container.
        Err(Error::Refused { .. }) => Ok(None),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
