//! A client that creates, updates and deletes one object, and records the responses.

use std::sync::Arc;

use serde_json::json;
use tests::Chance;

use crate::master_kills::api::{Api, Held, held};
use crate::master_kills::story::{Loss, Story};

/// An acknowledged write.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    pub name: String,
    pub held: Held,
}

/// One client and its object.
#[derive(Debug)]
pub struct Writer {
    api: Api,
    name: String,
    chance: Chance,
    /// The last known content of the object.
    held: Option<Held>,
    /// Writes without a response since then, as numbers or `None` for a deletion. The next acknowledged write clears
    /// them.
    doubts: Vec<Option<u64>>,
    last_number: u64,
    pub acknowledged: Vec<Acknowledged>,
    /// Violated invariants.
    pub broken: Vec<String>,
}

impl Writer {
    pub fn new(api: Api, name: String, chance: Chance) -> Self {
        let (acknowledged, broken) = (Vec::new(), Vec::new());
        Self { api, name, chance, held: None, doubts: Vec::new(), last_number: 0, acknowledged, broken }
    }

    /// Writes until the test ends or an invariant is violated.
    pub async fn run(mut self, story: Arc<Story>) -> Self {
        while !story.is_over() && self.broken.is_empty() {
            self.step(&story).await;
        }
        self
    }

    async fn step(&mut self, story: &Story) {
        self.last_number += 1;
        let number = self.last_number;
        let (client, name) = (&self.api.client, self.name.as_str());
        let (request, written) = match self.held {
            None => (client.post(self.api.url("")).json(&self.api.object(name, number, None)), Some(number)),
            Some(_) if self.chance.once_in(6) => (client.delete(self.api.url(name)), None),
            Some(before) if self.chance.once_in(2) => {
                let body = self.api.object(name, number, Some(before.revision));
                (client.put(self.api.url(name)).json(&body), Some(number))
            }
            Some(_) => {
                let patch = json!({"data": {"number": number.to_string()}}).to_string();
                let request = client.patch(self.api.url(name)).body(patch);
                (request.header("content-type", "application/merge-patch+json"), Some(number))
            }
        };
        match self.api.send(request).await {
            Ok((200 | 201, answer)) => {
                let now = written.map(|_| held(&answer));
                if let Some(now) = now {
                    story.acknowledge(now.revision, Loss::Never);
                    self.check_reported(now, number);
                    self.acknowledged.push(Acknowledged { name: self.name.clone(), held: now });
                }
                self.held = now;
                self.doubts.clear();
            }
            // A write without a response was applied.
            Ok((404 | 409, _)) if !self.doubts.is_empty() => self.settle().await,
            Ok((code, _)) if code >= 500 || code == 429 => {
                self.doubts.push(written);
                self.settle().await;
            }
            Ok((code, answer)) => self.broken.push(format!("{name} {number}: {code} {answer}")),
            Err(_) => {
                self.doubts.push(written);
                self.settle().await;
            }
        }
    }

    fn check_reported(&mut self, now: Held, number: u64) {
        let before = self.held.map_or(0, |held| held.revision);
        if now.number != number || now.revision <= before {
            self.broken.push(format!("{} received {now:?} for {number} after {before}", self.name));
        }
    }

    /// Reads the object: it must be the last acknowledged content or one of the writes without a response.
    async fn settle(&mut self) {
        let found = self.api.get_in_time(&self.name).await;
        let is_possible = found == self.held || self.doubts.contains(&found.map(|held| held.number));
        if !is_possible {
            self.broken.push(format!(
                "{} holds {found:?}, acknowledged was {:?}, tried since {:?}",
                self.name, self.held, self.doubts
            ));
        }
        self.held = found;
    }
}
