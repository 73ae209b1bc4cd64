//! Carries out what was decided: gives pods their nodes, several at once, and says of the others why they have none.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::events::{Events, Name, Told};
use super::mind::Mind;
use super::pod::Pod;
use super::state::Decision;
use crate::controllers::{Client, Error, Kind};

/// Writes at once: enough for a store to take many with one commit, few enough that one that is slow holds few pods.
const AT_ONCE: usize = 128;

/// How often a condition is written anew when somebody else came before; the next look writes it otherwise.
const TRIES: u32 = 3;

/// Who writes.
#[derive(Clone, Debug)]
pub struct Hands {
    client: Client,
    mind: Arc<Mind>,
    events: Events,
    free: Arc<Semaphore>,
}

impl Hands {
    /// Writes through that client, and tells the mind what failed.
    pub fn new(client: Client, mind: Arc<Mind>, events: Events) -> Self {
        Self { client, mind, events, free: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Waits until one is free; nothing is decided before it can be carried out.
    pub async fn free(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.ok()
    }

    /// Carries it out in its own time.
    pub fn carry_out(&self, decision: Decision, free: Option<OwnedSemaphorePermit>) {
        let hands = self.clone();
        tokio::spawn(async move {
            match decision {
                Decision::Bind { pod, node } => hands.bind(&pod, &node).await,
                Decision::Refused { pod, words } => hands.refuse(&pod, &words).await,
            }
            drop(free);
        });
    }

    async fn bind(&self, pod: &Pod, node: &str) {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        });
        match self.client.ask_of(&Kind::POD, &pod.namespace, &pod.name, "binding", binding).await {
            Ok(_) => {
                tracing::debug!(pod = pod.key(), node, "a pod has its node");
                self.events.tell(Told {
                    pod: Name::of(pod),
                    is_good: true,
                    message: format!("Successfully assigned {} to {node}", pod.key()),
                });
            }
            Err(error) => {
                tell_of(&error, pod, node);
                self.mind.tell(|state, now| state.unbound(&pod.uid, now));
            }
        }
    }

    async fn refuse(&self, pod: &Pod, words: &str) {
        self.events.tell(Told { pod: Name::of(pod), is_good: false, message: words.to_owned() });
        let is_told = |(reason, message): &(String, String)| reason == UNSCHEDULABLE && message == words;
        if pod.told.as_ref().is_some_and(is_told) {
            return;
        }
        tracing::debug!(pod = pod.key(), why = words, "no node can have a pod");
        if let Err(error) = self.tell(pod, words).await
            && !error.is_not_found()
        {
            tracing::debug!(pod = pod.key(), error = error.whole(), "cannot tell a pod why it has no node");
        }
    }

    /// Writes the condition, unless the pod has a node by now.
    async fn tell(&self, pod: &Pod, words: &str) -> Result<(), Error> {
        let mut version = pod.revision.clone();
        for _ in 0..TRIES {
            match self.write_condition(pod, &version, words).await {
                Err(error) if error.is_conflict() => {}
                written => return written,
            }
            let now = Pod::of(&self.client.get(&Kind::POD, &pod.namespace, &pod.name).await?);
            if now.uid != pod.uid || !now.node.is_empty() {
                return Ok(());
            }
            version = now.revision;
        }
        Ok(())
    }

    async fn write_condition(&self, pod: &Pod, version: &str, words: &str) -> Result<(), Error> {
        let mut condition =
            json!({"type": "PodScheduled", "status": "False", "reason": UNSCHEDULABLE, "message": words});
        if pod.told.is_none() {
            condition["lastTransitionTime"] =
                Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
        }
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": [condition]}});
        self.client.patch_part(&Kind::POD, &pod.namespace, &pod.name, "status", patch).await.map(drop)
    }
}

/// Why a pod waits, as its condition says it.
const UNSCHEDULABLE: &str = "Unschedulable";

fn tell_of(error: &Error, pod: &Pod, node: &str) {
    let (pod, error_text) = (pod.key(), error.whole());
    if error.is_conflict() || error.is_not_found() {
        tracing::debug!(pod, node, error = error_text, "somebody else came before");
    } else {
        tracing::warn!(pod, node, error = error_text, "a pod cannot be given its node; trying again");
    }
}
