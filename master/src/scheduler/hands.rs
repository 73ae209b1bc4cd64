//! Carries out what was decided: gives pods their nodes, several at once, and says of the others why they have none.

use std::sync::Arc;

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::events::{Events, Name, Told, What};
use super::extender::Extenders;
use super::mind::Mind;
use super::pod::{DISRUPTED, PREEMPTED, Pod};
use super::state::{Decision, Promise, TROUBLE};
use crate::controllers::{Client, Delete, Error, Kind};

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
    extenders: Extenders,
    free: Arc<Semaphore>,
}

impl Hands {
    /// Writes through that client, and tells the mind what failed.
    pub fn new(client: Client, mind: Arc<Mind>, events: Events, extenders: Extenders) -> Self {
        Self { client, mind, events, extenders, free: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Waits until one is free; nothing is decided before it can be carried out.
    pub async fn free(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.ok()
    }

    /// Carries it out. While extenders have a pod in hand nothing is written, and nothing else waits for that: how many they have,
    /// the mind knows.
    pub async fn carry_out(self, decision: Decision, free: Option<OwnedSemaphorePermit>) {
        match decision {
            Decision::Ask { .. } | Decision::AskForRoom { .. } => {
                drop(free);
                if let Some(decision) = self.ask(decision).await {
                    self.write(decision, None).await;
                }
            }
            Decision::Bind { .. } | Decision::Refused { .. } => self.write(decision, free).await,
        }
    }

    /// Asks extenders, and returns what is decided then: something to be written, or once more a question.
    async fn ask(&self, mut decision: Decision) -> Option<Decision> {
        loop {
            decision = match decision {
                Decision::Ask { pod, choices } => {
                    let names = choices.nodes.clone();
                    let opinion = self.extenders.opinion(&pod, names).await;
                    self.mind.tell(|state, now| state.heard(&pod, choices, opinion, now))?
                }
                Decision::AskForRoom { pod, refusal, offers } => {
                    let offers = self.extenders.spare(&pod, offers).await;
                    self.mind.tell(|state, now| state.heard_of_room(pod, &refusal, offers, now))?
                }
                decided => return Some(decided),
            }
        }
    }

    async fn write(&self, decision: Decision, free: Option<OwnedSemaphorePermit>) {
        match decision {
            Decision::Bind { pod, node } if self.extenders.bind_for(&pod) => {
                drop(free);
                let answer = self.extenders.bind(&pod, &node).await;
                self.mind.tell(|state, _| state.is_bound());
                let _free = self.free().await;
                self.bound_by_others(&pod, &node, answer).await;
            }
            Decision::Bind { pod, node } => {
                let _free = self.or_free(free).await;
                self.bind_here(&pod, &node).await;
            }
            Decision::Refused { pod, words, reason, promise } => {
                let _free = self.or_free(free).await;
                self.refuse(&pod, (reason, &words), &promise).await;
            }
            Decision::Ask { .. } | Decision::AskForRoom { .. } => {}
        }
    }

    async fn or_free(&self, free: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        match free {
            None => self.free().await,
            free => free,
        }
    }

    async fn bound_by_others(&self, pod: &Pod, node: &str, answer: Option<Result<(), String>>) {
        match answer {
            None => self.bind_here(pod, node).await,
            Some(Ok(())) => self.is_bound(pod, node),
            Some(Err(error)) => {
                tracing::warn!(pod = pod.key(), node, error, "an extender gives a pod no node; trying again");
                self.mind.tell(|state, now| state.unbound(&pod.uid, now));
                self.refuse(pod, (TROUBLE, &error), &Promise::Stays).await;
            }
        }
    }

    async fn bind_here(&self, pod: &Pod, node: &str) {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        });
        match self.client.ask_of(&Kind::POD, &pod.namespace, &pod.name, "binding", binding).await {
            Ok(_) => self.is_bound(pod, node),
            Err(error) => {
                tell_of(&error, pod, node);
                self.mind.tell(|state, now| state.unbound(&pod.uid, now));
                if !is_overtaken(&error) {
                    self.refuse(pod, (TROUBLE, &error.whole()), &Promise::Stays).await;
                }
            }
        }
    }

    fn is_bound(&self, pod: &Pod, node: &str) {
        tracing::debug!(pod = pod.key(), node, "a pod has its node");
        self.events.tell(Told {
            pod: Name::of(pod),
            what: What::Scheduled,
            message: format!("Successfully assigned {} to {node}", pod.key()),
        });
    }

    /// Says why a pod has no node, in a word and a sentence, and does what is promised to it.
    async fn refuse(&self, pod: &Pod, why: (&str, &str), promise: &Promise) {
        let words = why.1;
        self.events.tell(Told { pod: Name::of(pod), what: What::Refused, message: words.to_owned() });
        let node = match promise {
            Promise::Stays => pod.nominated.as_str(),
            Promise::Over => "",
            Promise::Made { node, .. } => node,
        };
        let is_told = |(reason, message): &(String, String)| (reason.as_str(), message.as_str()) == why;
        if !pod.told.as_ref().is_some_and(is_told) || pod.nominated != node {
            tracing::debug!(pod = pod.key(), why = words, node, "no node can have a pod");
            if let Err(error) = self.tell(pod, why, node).await
                && !error.is_not_found()
            {
                tracing::debug!(
                    pod = pod.key(),
                    error = error.whole(),
                    "cannot tell a pod why it has no node"
                );
            }
        }
        if let Promise::Made { node, victims, outdone } = promise {
            self.make_room(pod, node, victims, outdone).await;
        }
    }

    /// Ends pods for another one.
    async fn make_room(&self, pod: &Pod, node: &str, victims: &[Arc<Pod>], outdone: &[Arc<Pod>]) {
        for other in outdone {
            self.take_back(other).await;
        }
        // Those that are on their way out already need not be told.
        for victim in victims.iter().filter(|victim| !victim.wants.is_ending) {
            if let Err(error) = self.end(victim, pod).await {
                let (pod_key, victim) = (pod.key(), victim.key());
                tracing::warn!(
                    pod = pod_key,
                    victim,
                    error = error.whole(),
                    "a pod cannot be ended for another one; trying again"
                );
                return self.mind.tell(|state, now| state.unpromised(&pod.uid, now));
            }
            tracing::info!(
                pod = pod.key(),
                victim = victim.key(),
                node,
                "a pod is ended for one of a higher priority"
            );
            let message = format!("Preempted by pod {} on node {node}", pod.uid);
            self.events.tell(Told { pod: Name::of(victim), what: What::Preempted, message });
        }
    }

    /// Says of a pod that has to make way that it is promised nothing any more, unless it has changed meanwhile.
    async fn take_back(&self, other: &Pod) {
        let none = withdrawn(other);
        let (namespace, name) = (&other.namespace, &other.name);
        if let Err(error) = self.client.patch_part(&Kind::POD, namespace, name, "status", none).await
            && !error.is_conflict()
        {
            tracing::debug!(
                pod = other.key(),
                error = error.whole(),
                "a pod still says that it is promised a node"
            );
        }
    }

    async fn end(&self, victim: &Pod, pod: &Pod) -> Result<(), Error> {
        let condition = json!({
            "type": DISRUPTED, "status": "True", "reason": PREEMPTED,
            "message": format!("{}: preempting to accommodate a higher priority pod", pod.scheduler),
            "lastTransitionTime": seconds(Timestamp::now()),
        });
        let (namespace, name) = (&victim.namespace, &victim.name);
        let patch = json!({"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}});
        match self.client.patch_part(&Kind::POD, namespace, name, "status", patch).await {
            // Another one of that name, or none any more.
            Err(error) if error.is_not_found() || error.is_conflict() => return Ok(()),
            other => other?,
        };
        let how = Delete { uid: Some(&victim.uid), ..Delete::default() };
        match self.client.delete(&Kind::POD, namespace, name, &how).await {
            Err(error) if error.is_conflict() => Ok(()),
            other => other,
        }
    }

    /// Writes the condition and the node that the pod is promised, unless it has one by now.
    async fn tell(&self, pod: &Pod, why: (&str, &str), promised: &str) -> Result<(), Error> {
        let mut version = pod.revision.clone();
        for _ in 0..TRIES {
            match self.write_status(pod, &version, why, promised).await {
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

    async fn write_status(
        &self,
        pod: &Pod,
        version: &str,
        (reason, words): (&str, &str),
        promised: &str,
    ) -> Result<(), Error> {
        let mut condition =
            json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": words});
        if pod.told.is_none() {
            condition["lastTransitionTime"] = seconds(Timestamp::now()).into();
        }
        let mut patch =
            json!({"metadata": {"resourceVersion": version}, "status": {"conditions": [condition]}});
        if pod.nominated != promised {
            patch["status"]["nominatedNodeName"] =
                if promised.is_empty() { Value::Null } else { promised.into() };
        }
        self.client.patch_part(&Kind::POD, &pod.namespace, &pod.name, "status", patch).await.map(drop)
    }
}

/// What takes back the node that exactly that pod is promised.
fn withdrawn(pod: &Pod) -> Value {
    json!({
        "metadata": {"uid": pod.uid, "resourceVersion": pod.revision}, "status": {"nominatedNodeName": null},
    })
}

/// The pod has a node, or is gone.
fn is_overtaken(error: &Error) -> bool {
    error.is_conflict() || error.is_not_found()
}

fn tell_of(error: &Error, pod: &Pod, node: &str) {
    let (pod, error_text) = (pod.key(), error.whole());
    if is_overtaken(error) {
        tracing::debug!(pod, node, error = error_text, "somebody else came before");
    } else {
        tracing::warn!(pod, node, error = error_text, "a pod cannot be given its node; trying again");
    }
}

#[cfg(test)]
mod tests {
    //! What is written.
    use super::*;

    #[test]
    fn a_promise_is_taken_back_from_the_pod_that_was_seen_alone() {
        let pod = Pod { uid: "u".to_owned(), revision: "7".to_owned(), ..Pod::default() };
        assert_eq!(
            withdrawn(&pod),
            json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"nominatedNodeName": null}})
        );
    }
}
