//! A node that renews its lease. A kill may lose the last renewals, but none that was followed by a durable write.

use std::sync::Arc;

use crate::master_kills::api::{Api, Held, held};
use crate::master_kills::story::{Loss, Story};
use crate::master_kills::writer::Acknowledged;

/// One node.
#[derive(Debug)]
pub struct Heart {
    api: Api,
    name: String,
    /// Versions that are known to have been written, and the number of kills before each request; the last one may be
    /// current.
    renewals: Vec<(Held, usize)>,
    last_number: u64,
    newest: u64,
    pub acknowledged: Vec<Acknowledged>,
    /// Number of renewals lost by kills.
    pub lost: usize,
    /// Violated invariants.
    pub broken: Vec<String>,
}

impl Heart {
    pub fn new(api: Api, name: String) -> Self {
        let (renewals, acknowledged, broken) = (Vec::new(), Vec::new(), Vec::new());
        Self { api, name, renewals, last_number: 0, newest: 0, acknowledged, lost: 0, broken }
    }

    /// Renews until the test ends or an invariant is violated.
    pub async fn run(mut self, story: Arc<Story>) -> Self {
        self.api.create_in_time(&self.name).await;
        self.settle(&story).await;
        while !story.is_over() && self.broken.is_empty() {
            self.renew(&story).await;
        }
        self
    }

    async fn renew(&mut self, story: &Story) {
        let (kills, before) = (story.kills(), self.renewals.last().map(|(held, _)| held.revision));
        self.last_number += 1;
        let body = self.api.object(&self.name, self.last_number, before);
        match self.api.send(self.api.client.put(self.api.url(&self.name)).json(&body)).await {
            Ok((200, answer)) => {
                let now = held(&answer);
                if now.number != self.last_number || now.revision <= self.newest {
                    self.broken.push(format!("{} received {now:?} after {}", self.name, self.newest));
                }
                self.newest = now.revision;
                story.acknowledge(now.revision, Loss::AtTheEnd);
                self.acknowledged.push(Acknowledged { name: self.name.clone(), held: now });
                self.renewals.push((now, kills));
            }
            // The last known renewal was lost, or one without a response was stored.
            Ok((409, _)) | Err(_) => self.settle(story).await,
            Ok((code, _)) if code >= 500 || code == 429 => self.settle(story).await,
            Ok((code, answer)) => self.broken.push(format!("{}: {code} {answer}", self.name)),
        }
    }

    /// Reads the stored lease.
    async fn settle(&mut self, story: &Story) {
        let kills = story.kills();
        let Some(found) = self.api.get_in_time(&self.name).await else {
            self.broken.push(format!("{} is gone", self.name));
            return;
        };
        let known = std::mem::take(&mut self.renewals);
        let is_safe = |(held, kills): &&(Held, usize)| held.revision <= story.safe_since(*kills);
        let safe = known.iter().filter(is_safe).map(|(held, _)| held.number).max().unwrap_or(0);
        let as_acknowledged =
            known.iter().find(|(held, _)| held.number == found.number).map(|(held, _)| *held);
        if found.number < safe
            || found.number > self.last_number
            || as_acknowledged.is_some_and(|acked| acked != found)
        {
            self.broken.push(format!(
                "{} holds {found:?}, acknowledged was {as_acknowledged:?}, safe was {safe}",
                self.name
            ));
        }
        self.lost += known.iter().filter(|(held, _)| held.number > found.number).count();
        self.renewals.push((found, kills));
    }
}
