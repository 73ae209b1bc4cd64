//! A watch under way: one JSON document a line, read as they come.

use axum::body::Body;
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::{Error, Json, Sieve};

/// The longest line that is read; the largest object that a server takes is a third of it.
const MOST_LINE_BYTES: usize = 10 * 1024 * 1024;

/// What a server tells a watcher.
#[derive(Debug)]
pub enum Event {
    /// An object as it is now.
    Put(Json),
    /// An object as it last was.
    Gone(Json),
    /// Nothing happened up to here.
    Bookmark(Json),
}

/// A watch under way.
#[derive(Debug)]
pub struct Watch {
    body: Body,
    read: Vec<u8>,
    /// How much of `read` has been handed out.
    at: usize,
    /// What is read of an event.
    sieve: Sieve,
}

impl Watch {
    pub(super) fn of(body: Body, object: Sieve) -> Self {
        // In place of an object there may be a status.
        let object = ["code", "reason", "message"].into_iter().fold(object, Sieve::with);
        let sieve = Sieve::nothing().with("type").with_part("object", object);
        Self { body, read: Vec::new(), at: 0, sieve }
    }

    /// The next event; `None` when the server has ended the watch, after which another goes on from the last revision.
    ///
    /// # Errors
    /// [`Error::is_expired`] when changes were missed: list again.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.read[self.at..]) {
                let line = &self.read[self.at..self.at + length];
                self.at += length + 1;
                return Some(event(&self.sieve, line));
            }
            self.read.drain(..self.at);
            self.at = 0;
            if self.read.len() > MOST_LINE_BYTES {
                return Some(Err(Error::Lost("an event is longer than any object may be".into())));
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Err(error) => return Some(Err(Error::Lost(error.into()))),
            }
        }
    }
}

fn event(sieve: &Sieve, line: &[u8]) -> Result<Event, Error> {
    let mut event = sieve.read(line).map_err(Error::Unreadable)?;
    let object = match event.get_mut("object").map(Value::take) {
        Some(Value::Object(object)) => object,
        _ => Json::new(),
    };
    match event.get("type").and_then(Value::as_str) {
        Some("ADDED" | "MODIFIED") => Ok(Event::Put(object)),
        Some("DELETED") => Ok(Event::Gone(object)),
        Some("BOOKMARK") => Ok(Event::Bookmark(object)),
        _ => {
            let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let code = object.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            Err(Error::Refused {
                code: code.unwrap_or(500),
                reason: text("reason"),
                message: text("message"),
                names_object: false,
            })
        }
    }
}
