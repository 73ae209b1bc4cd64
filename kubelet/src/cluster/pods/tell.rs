//! Tells the API what becomes of the pods here: the latest status of each, and when one of the master's that is to go has gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::line::is_over;
use super::{Shared, status};
use crate::cluster::is_told_elsewhere;
use crate::cluster::patience::{Patience, is_of_its_own};
use crate::identity::{Api, Trouble, Voice};
use crate::observed::PodUid;
use crate::report::{Latest, Reports};

/// Who tells.
pub(super) struct Teller {
    pub shared: Arc<Shared>,
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    pub reports: Arc<Reports>,
    pub voice: Voice,
    /// The latest of every pod of this node.
    pub latest: BTreeMap<PodUid, Latest>,
    /// Pods that something may have to be told of.
    pub due: BTreeSet<PodUid>,
    /// What was told last, or refused, and what the pod's version was then: it is not told again before that is another, or before
    /// another list.
    pub tried: BTreeMap<(PodUid, About), (Value, Option<u64>)>,
    /// How many lists there were then.
    pub lists: u64,
}

/// What something was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    Status,
    End,
}

/// What there is to tell.
#[derive(Debug)]
enum Word {
    /// Its status, by a patch.
    Status(String, Value),
    /// It has gone: these options remove it.
    Gone(String, Value),
}

impl Teller {
    /// Tells for as long as the kubelet runs.
    pub async fn run(mut self) {
        let mut changed = self.shared.changed.subscribe();
        let mut patience = Patience::new();
        loop {
            self.look();
            let api = self.apis.borrow_and_update().clone();
            let next = self.due.first().cloned();
            if let (Some(api), Some(uid)) = (api, next) {
                match self.tell(&api, &uid).await {
                    Ok(()) => {
                        patience.is_fine();
                        continue;
                    }
                    Err(trouble) => {
                        self.complain(&trouble, patience.failures());
                        if patience.wait(&trouble, &mut self.apis).await.is_none() {
                            return;
                        }
                        continue;
                    }
                }
            }
            tokio::select! {
                () = self.reports.arrived() => {}
                _ = changed.changed() => {}
                changed = self.apis.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Takes what has been heard of since.
    fn look(&mut self) {
        for (uid, newer) in self.reports.take() {
            self.latest.entry(uid.clone()).or_default().then(newer);
            self.due.insert(uid);
        }
        let mut state = self.shared.lock();
        self.due.append(&mut state.touched);
        if self.lists != state.book.lists() {
            self.lists = state.book.lists();
            self.tried.clear();
            self.due.extend(self.latest.keys().cloned());
        }
        // The images of pods that are being ended stay until nothing of those is left.
        let is_gone = |uid: &PodUid| self.latest.get(uid).is_none_or(|latest| latest.is_gone);
        if state.mirrors.forget(is_gone) {
            drop(state);
            self.shared.changed.send_replace(());
        }
    }

    /// Tells what there is to tell of a pod, one thing after the other.
    async fn tell(&mut self, api: &Api, uid: &PodUid) -> Result<(), Trouble> {
        while let Some(word) = self.word(uid) {
            let (answer, about, sent) = match word {
                Word::Status(path, patch) => {
                    let answer = api.patch(&path, &patch).await;
                    (answer.map(|value| self.shared.lock().book.answered(value)), About::Status, patch)
                }
                Word::Gone(path, options) => (api.delete(&path, &options).await, About::End, options),
            };
            match answer {
                Ok(()) => {}
                // It is gone, somebody has written it at this moment, or another one has its name by now: what is heard will say so.
                Err(trouble) if trouble.is_code(404) || trouble.is_code(409) => break,
                Err(trouble) if is_of_its_own(&trouble) => {
                    let text = format!("what has become of a pod is not told to its cluster: {trouble}");
                    self.voice.warn("PodNotTold", text, Timestamp::now());
                }
                Err(trouble) => return Err(trouble),
            }
            let version = self.version(uid);
            self.tried.insert((uid.clone(), about), (sent, version));
        }
        self.due.remove(uid);
        Ok(())
    }

    /// The version of a pod, or of its image, as it is known now.
    fn version(&self, uid: &PodUid) -> Option<u64> {
        let state = self.shared.lock();
        state.book.there(uid).or_else(|| state.mirrors.image_of(&state.book, uid))?.version
    }

    /// The next thing to tell of a pod.
    fn word(&mut self, uid: &PodUid) -> Option<Word> {
        let latest = self.latest.get(uid)?.clone();
        let tried = |about| self.tried.get(&(uid.clone(), about));
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let is_in_doubt = state.book.is_in_doubt() || state.book.lists() == 0;
        let Some(there) = state.book.there(uid).or_else(|| state.mirrors.image_of(&state.book, uid)) else {
            if latest.is_gone && !is_in_doubt {
                self.latest.remove(uid);
                self.tried.retain(|(of, _), _| of != uid);
                if state.book.ended(uid) {
                    drop(guard);
                    self.shared.changed.send_replace(());
                }
            }
            return None;
        };
        let is_image = there.mirror.is_some();
        if !there.is_to_run && !is_image {
            return None;
        }
        let is_tried = |about, word: &Value| {
            tried(about).is_some_and(|(sent, version)| sent == word && *version == there.version)
        };
        let path = format!("/api/v1/namespaces/{}/pods/{}", there.name.namespace, there.name.name);
        // What the engine has not shown is nothing to tell.
        let own = latest.status.as_ref().filter(|own| own.phase.as_deref() != Some("Unknown"));
        if let Some(own) = own {
            let has_run = own.container_statuses.as_ref().is_some_and(|all| !all.is_empty());
            if is_image {
                if there.is_over() && !is_over(own) {
                    let image = there.uid.clone();
                    state.mirrors.outlives(uid, &image);
                    drop(guard);
                    self.shared.changed.send_replace(());
                    return None;
                }
            } else if there.is_over() && !latest.is_gone && !(is_over(own) && has_run) {
                // Somebody else has said that it is over, or it was never let in.
                if state.book.give_up(uid) {
                    drop(guard);
                    self.shared.changed.send_replace(());
                }
                return None;
            }
            let patch = status::patch(&there.uid, &there.status, own);
            if let Some(patch) = patch.filter(|patch| !is_tried(About::Status, patch)) {
                return Some(Word::Status(format!("{path}/status"), patch));
            }
        }
        let is_going = latest.is_gone && there.is_doomed && !is_image;
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid.as_str()}});
        (is_going && !is_tried(About::End, &options)).then_some(Word::Gone(path, options))
    }

    fn complain(&mut self, trouble: &Trouble, failures: u32) {
        // A master that is away for a moment is no news.
        if failures == 0 && matches!(trouble, Trouble::Unreachable { .. }) || is_told_elsewhere(trouble) {
            return;
        }
        let text = format!(
            "how pods are is not told to their cluster: {trouble}; they run on, and it is told later"
        );
        self.voice.warn("PodsNotTold", text, Timestamp::now());
    }
}

#[cfg(test)]
mod tests;
