//! Decodes a watch: a stream of JSON events, one per line.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, Status};
use crate::list::ListMeta;
use crate::transport::Body;

/// Maximum length of an event in bytes. It is three times the largest object that a server accepts.
const MAX_LINE_BYTES: usize = 10 * 1024 * 1024;

/// A watch event.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// An object was added or modified.
    Applied(T),
    /// An object was deleted. The value is its last state.
    Deleted(T),
    /// Nothing changed up to this resource version.
    Bookmark(String),
}

/// An open watch. `seed` decodes the objects.
#[derive(Debug)]
pub struct Watch<S> {
    server: Arc<str>,
    body: Body,
    read: Vec<u8>,
    /// Offset in `read` of the first byte that was not returned.
    at: usize,
    seed: S,
}

impl<S> Watch<S> {
    pub(crate) fn new(server: Arc<str>, body: Body, seed: S) -> Self {
        Self { server, body, read: Vec::new(), at: 0, seed }
    }

    /// The next event, or `None` if the server ended the watch. The caller may open another one at the last
    /// resource version.
    ///
    /// # Errors
    /// [`Error::is_expired`] if changes were missed, so that the caller must list again. [`Error::Lost`] if no data
    /// arrives within `idle_timeout`.
    pub async fn next<T>(&mut self, idle_timeout: Duration) -> Option<Result<Event<T>, Error>>
    where
        S: Copy + for<'de> DeserializeSeed<'de, Value = T>,
    {
        loop {
            let rest = self.read.get(self.at..).unwrap_or_default();
            if let Some(length) = memchr::memchr(b'\n', rest) {
                let line = rest.get(..length).unwrap_or_default();
                self.at += length + 1;
                if line.is_empty() {
                    continue;
                }
                return Some(decode(&self.server, self.seed, line));
            }
            self.read.drain(..self.at);
            self.at = 0;
            if self.read.len() > MAX_LINE_BYTES {
                let server = self.server.clone();
                return Some(Err(Error::TooLarge { server, bytes: MAX_LINE_BYTES }));
            }
            match tokio::time::timeout(idle_timeout, self.body.frame()).await {
                Ok(None) => return None,
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(error))) => return Some(Err(Error::lost(&self.server, error.into()))),
                Err(_) => {
                    let why = format!("a watch was silent for {} s", idle_timeout.as_secs());
                    return Some(Err(Error::lost(&self.server, why.into())));
                }
            }
        }
    }
}

/// Decodes one line.
fn decode<T, S>(server: &Arc<str>, seed: S, line: &[u8]) -> Result<Event<T>, Error>
where
    S: for<'de> DeserializeSeed<'de, Value = T>,
{
    let mut line = serde_json::Deserializer::from_slice(line);
    let event = Line { seed, item: PhantomData }.deserialize(&mut line).and_then(|event| {
        line.end()?;
        Ok(event)
    });
    match event {
        Ok(Ok(event)) => Ok(event),
        Ok(Err(status)) => Err(status.into_error(server, None, None)),
        Err(source) => Err(Error::Unreadable { server: server.clone(), source }),
    }
}

/// Decodes an event. Every server writes the type before the object, and the type determines how the object is
/// decoded.
struct Line<S, T> {
    seed: S,
    item: PhantomData<T>,
}

impl<'de, T, S: DeserializeSeed<'de, Value = T>> DeserializeSeed<'de> for Line<S, T> {
    type Value = Result<Event<T>, Status>;

    fn deserialize<D: Deserializer<'de>>(self, line: D) -> Result<Self::Value, D::Error> {
        line.deserialize_map(self)
    }
}

#[derive(Deserialize)]
struct Versioned {
    metadata: ListMeta,
}

impl<'de, T, S: DeserializeSeed<'de, Value = T>> Visitor<'de> for Line<S, T> {
    type Value = Result<Event<T>, Status>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a watch event with a type and an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut kind, mut event, mut seed) = (String::new(), None, Some(self.seed));
        while let Some(field) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match (field.as_ref(), seed.take()) {
                ("type", unused) => {
                    kind = map.next_value()?;
                    seed = unused;
                }
                ("object", Some(seed)) => {
                    event = Some(match kind.as_str() {
                        "ADDED" | "MODIFIED" => Ok(Event::Applied(map.next_value_seed(seed)?)),
                        "DELETED" => Ok(Event::Deleted(map.next_value_seed(seed)?)),
                        "BOOKMARK" => {
                            let bookmark: Versioned = map.next_value()?;
                            Ok(Event::Bookmark(bookmark.metadata.resource_version.unwrap_or_default()))
                        }
                        "ERROR" => Err(map.next_value()?),
                        other => return Err(A::Error::custom(format!("unknown event type {other:?}"))),
                    });
                }
                (_, unused) => {
                    map.next_value::<IgnoredAny>()?;
                    seed = unused;
                }
            }
        }
        event.ok_or_else(|| A::Error::missing_field("object"))
    }
}

#[cfg(test)]
mod tests {
    //! Tests of events that are decoded and rejected, and lines in chunks.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::convert::Infallible;

    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use serde_json::{Value, json};
    use tokio_stream::iter;

    use super::*;

    type AsValue = PhantomData<Value>;

    fn decoded(line: &Value) -> Result<Event<Value>, Error> {
        decode(&"a server".into(), AsValue::default(), line.to_string().as_bytes())
    }

    #[test]
    fn an_event_is_a_change_or_a_bookmark() {
        let pod = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
        for (kind, expected) in [
            ("ADDED", Event::Applied(pod.clone())),
            ("MODIFIED", Event::Applied(pod.clone())),
            ("DELETED", Event::Deleted(pod.clone())),
            ("BOOKMARK", Event::Bookmark("7".to_owned())),
        ] {
            assert_eq!(decoded(&json!({"type": kind, "object": pod})).unwrap(), expected);
        }
    }

    #[test]
    fn an_error_event_has_the_code_of_its_status() {
        let error = |code: u16| json!({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "old"}});
        let expired = decoded(&error(410)).unwrap_err();
        assert!(expired.is_expired() && expired.to_string().contains("old"), "{expired}");
        assert!(!decoded(&error(500)).unwrap_err().is_expired());
        for invalid in [json!({"type": "MOVED", "object": {}}), json!({"type": "ADDED"}), json!([])] {
            assert!(matches!(decoded(&invalid), Err(Error::Unreadable { .. })), "{invalid}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watch_decodes_events_split_across_chunks() {
        let event = |name: &str| json!({"type": "ADDED", "object": {"metadata": {"name": name}}}).to_string();
        let text = format!("{}\n\n{}\n{{\"type\"", event("a"), event("b")).into_bytes();
        for size in 1..=text.len() {
            let chunks: Vec<_> = text
                .chunks(size)
                .map(|chunk| Ok::<_, Infallible>(Frame::data(bytes::Bytes::copy_from_slice(chunk))))
                .collect();
            let body = StreamBody::new(iter(chunks)).map_err(|never| match never {}).boxed_unsync();
            let mut watch = Watch::new("a server".into(), body, AsValue::default());
            let mut names = Vec::new();
            while let Some(event) = watch.next(Duration::from_secs(1)).await {
                let Event::Applied(object) = event.unwrap() else { panic!("no change") };
                names.push(object["metadata"]["name"].as_str().unwrap().to_owned());
            }
            assert_eq!(names, ["a", "b"], "{size}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_watch_times_out() {
        let body = StreamBody::new(tokio_stream::pending::<Result<Frame<bytes::Bytes>, Infallible>>());
        let body = body.map_err(|never| match never {}).boxed_unsync();
        let mut watch = Watch::new("a server".into(), body, AsValue::default());
        let error = watch.next(Duration::from_secs(180)).await.unwrap().unwrap_err();
        assert!(error.full_message().contains("silent for 180 s"), "{}", error.full_message());
    }
}
