//! A client that watches all objects, resumes after every disconnect, and checks the events.

use std::collections::BTreeMap;

use serde_json::Value;
use tests::{DEADLINE, wait_until};

use crate::master_kills::api::{Api, Held, Listing, ONLY, held, name};
use crate::master_kills::writer::Acknowledged;

/// Name of the object that ends the test.
pub const END: &str = "the-end";

/// A sequence of watches.
#[derive(Debug)]
pub struct Watcher {
    api: Api,
    from: u64,
    seen: u64,
    /// Current objects according to the events.
    objects: BTreeMap<String, Held>,
    /// Event of each revision: the object's name, and its number unless it was deleted.
    reported: BTreeMap<u64, (String, Option<u64>)>,
    /// Revision ranges that a list replaced: after the first, up to the second.
    gaps: Vec<(u64, u64)>,
    /// Number of watches that resumed from the last revision.
    pub resumed: usize,
    /// Violated invariants.
    pub broken: Vec<String>,
}

/// How a watch ended.
enum End {
    /// The connection broke.
    Broken,
    /// The revision was compacted: list again.
    TooOld,
    /// The test is over.
    Over,
}

impl Watcher {
    pub fn new(api: Api, from: u64) -> Self {
        let (objects, reported) = (BTreeMap::new(), BTreeMap::new());
        Self { api, from, seen: from, objects, reported, gaps: Vec::new(), resumed: 0, broken: Vec::new() }
    }

    /// Watches until the test ends or an invariant is violated.
    pub async fn run(mut self) -> Self {
        while self.broken.is_empty() {
            let response = self.begin().await;
            let end = match response.status().as_u16() {
                200 => {
                    self.resumed += 1;
                    self.follow(response).await
                }
                410 => End::TooOld,
                code => {
                    self.broken.push(format!("a watch from {} was refused: {code}", self.seen));
                    End::Over
                }
            };
            match end {
                End::Broken => {}
                End::TooOld => self.list().await,
                End::Over => break,
            }
        }
        self
    }

    /// Checks that every acknowledged write was delivered once, with its revision, outside of the ranges that a list
    /// replaced.
    pub fn check(&self, acknowledged: &[Acknowledged], last: &Listing) {
        for write in acknowledged {
            let Held { number, revision } = write.held;
            let is_listed = self.gaps.iter().any(|(after, upto)| revision > *after && revision <= *upto);
            if revision > self.from && !is_listed {
                let reported = self.reported.get(&revision);
                assert_eq!(reported, Some(&(write.name.clone(), Some(number))), "{revision} was missed");
            }
        }
        let mut objects = self.objects.clone();
        objects.remove(END);
        assert_eq!(objects, last.objects, "what the watch has led to");
    }

    /// Number of lists after a compaction.
    pub fn lists(&self) -> usize {
        self.gaps.len()
    }

    async fn begin(&self) -> reqwest::Response {
        let url = format!("{}?{ONLY}&watch=true&resourceVersion={}", self.api.url(""), self.seen);
        let look = async || {
            let answer = self.api.client.get(&url).send().await.map_err(|error| format!("{error:?}"))?;
            // The server is starting, or has lost its storage temporarily.
            if answer.status().as_u16() >= 500 { Err(answer.status().to_string()) } else { Ok(answer) }
        };
        wait_until(DEADLINE, look).await.unwrap()
    }

    async fn follow(&mut self, mut response: reqwest::Response) -> End {
        let mut buffer = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                if event["type"] == "ERROR" {
                    return if event["object"]["code"] == 410 { End::TooOld } else { End::Broken };
                }
                let name = name(&event["object"]);
                self.take(&event, &name);
                if name == END || !self.broken.is_empty() {
                    return End::Over;
                }
            }
        }
        End::Broken
    }

    fn take(&mut self, event: &Value, name: &str) {
        let now = held(&event["object"]);
        let before = self.objects.get(name).copied();
        let number = match (event["type"].as_str().unwrap(), before) {
            ("ADDED", None) => Some(now.number),
            ("MODIFIED", Some(before)) if now.number > before.number => Some(now.number),
            ("DELETED", Some(_)) => None,
            (kind, before) => {
                self.broken.push(format!("{kind} {name} {now:?} was received over {before:?}"));
                return;
            }
        };
        if now.revision <= self.seen {
            self.broken.push(format!("{name} {now:?} was received after {}", self.seen));
        }
        self.seen = now.revision;
        match number {
            Some(_) => self.objects.insert(name.to_owned(), now),
            None => self.objects.remove(name),
        };
        self.reported.insert(now.revision, (name.to_owned(), number));
    }

    async fn list(&mut self) {
        let listing = self.api.list_in_time().await;
        if listing.revision < self.seen {
            self.broken.push(format!("a list at {} after {}", listing.revision, self.seen));
        }
        self.gaps.push((self.seen, listing.revision));
        self.seen = listing.revision;
        self.objects = listing.objects;
    }
}
