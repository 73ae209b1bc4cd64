//! A watch: events that come one by one, each a line of JSON.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Response;

use super::trouble::Trouble;

/// Longest event: what a store holds of an object is 1.5 MiB at most, and is spelled longer in JSON.
const LONGEST_BYTES: usize = 8 << 20;

/// A watch that goes on.
#[derive(Debug)]
pub struct Watching {
    response: Response,
    server: Arc<str>,
    lines: Lines,
}

impl Watching {
    pub(super) fn new(response: Response, server: Arc<str>) -> Self {
        Self { response, server, lines: Lines::default() }
    }

    /// The next event; `None` when the server has ended it.
    ///
    /// # Errors
    /// When nothing comes for so long, or what comes is no watch.
    pub async fn next(&mut self, within: Duration) -> Result<Option<Vec<u8>>, Trouble> {
        loop {
            if let Some(line) = self.lines.take() {
                return Ok(Some(line));
            }
            let piece = tokio::time::timeout(within, self.response.chunk()).await;
            let silent = |_| {
                let why = format!("a watch has said nothing for {} s", within.as_secs());
                Trouble::Unreachable { server: self.server.to_string(), why }
            };
            let piece = piece.map_err(silent)?;
            let Some(piece) = piece.map_err(|error| Trouble::of(&self.server, error, Timestamp::now()))?
            else {
                return Ok(None);
            };
            self.lines
                .put(&piece)
                .map_err(|why| Trouble::damaged(format!("a watch of {}", self.server), why))?;
        }
    }
}

/// Pieces in, lines out.
#[derive(Debug, Default)]
struct Lines {
    held: Vec<u8>,
    /// How much of it has no end of a line in it.
    looked: usize,
}

impl Lines {
    /// Takes a piece, unless what is held is too long for an event.
    fn put(&mut self, piece: &[u8]) -> Result<(), String> {
        if self.held.len() + piece.len() > LONGEST_BYTES {
            return Err(format!("has an event of more than {LONGEST_BYTES} bytes: that is no API server"));
        }
        self.held.extend_from_slice(piece);
        Ok(())
    }

    /// The first whole line; one that is empty says nothing.
    fn take(&mut self) -> Option<Vec<u8>> {
        loop {
            let rest = self.held.get(self.looked..)?;
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.looked = self.held.len();
                return None;
            };
            let mut line: Vec<u8> = self.held.drain(..=self.looked + end).collect();
            self.looked = 0;
            line.pop();
            if !line.is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Lines out of pieces.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn lines_come_whole_however_they_were_cut() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\n{\"c\"";
        for size in 1..=text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.put(piece).unwrap();
                found.extend(std::iter::from_fn(|| lines.take()));
            }
            assert_eq!(found, [b"{\"a\":1}".to_vec(), b"{\"b\":2}".to_vec()], "{size}");
            assert_eq!(lines.held, b"{\"c\"");
        }
        assert!(Lines::default().put(&vec![b' '; LONGEST_BYTES + 1]).is_err());
    }
}
