//! Makes and removes the images that the API has of the pods that this node has from elsewhere, one after the other.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::Shared;
use super::mirrors::Step;
use crate::cluster::patience::{LONGEST_WAIT, Patience, beyond_it, may_be_its_own, until};
use crate::desired::Desired;
use crate::identity::{Api, Trouble, chance};
use crate::report::{About, Outbox, Severity};

/// Who does.
pub(super) struct Reflector {
    pub node: String,
    pub shared: Arc<Shared>,
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    pub desired: watch::Receiver<Arc<Desired>>,
    pub outbox: Arc<Outbox>,
}

impl Reflector {
    /// Does so for as long as the kubelet runs.
    pub async fn run(mut self) {
        let mut changed = self.shared.changed.subscribe();
        let mut patience = Patience::new();
        self.follow();
        loop {
            changed.borrow_and_update();
            let api = self.apis.borrow_and_update().clone();
            let next = {
                let mut state = self.shared.lock();
                let state = &mut *state;
                state.mirrors.next(&state.book, &self.node, Timestamp::now())
            };
            let wait = match (api, next) {
                (Some(api), Ok(step)) => {
                    // Whoever is to be asked may be away, which is told by others.
                    let done = self.take(&api, &step).await;
                    if patience.after(done, &mut self.apis).await.is_none() {
                        return;
                    }
                    continue;
                }
                (Some(_), Err(due)) => until(due),
                (None, _) => LONGEST_WAIT,
            };
            tokio::select! {
                wanted = self.desired.changed() => {
                    if wanted.is_err() {
                        return;
                    }
                    self.follow();
                }
                changed = self.apis.changed() => if changed.is_err() { return },
                changed = changed.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn follow(&mut self) {
        let desired = self.desired.borrow_and_update().clone();
        self.shared.lock().mirrors.follow(&desired);
        self.shared.changed.send_replace(());
    }

    /// Takes a step, which is put back where the server does not; trouble is what may have nothing to do with which.
    async fn take(&self, api: &Api, step: &Step) -> Result<(), Trouble> {
        let done = match step {
            Step::Make(_, path, image) => api.create(path, image).await,
            Step::Remove(_, path, options) => api.delete(path, options).await,
        };
        let now = Timestamp::now();
        let mut state = self.shared.lock();
        let told = match &done {
            Ok(()) => {
                state.mirrors.done(step, now);
                None
            }
            Err(trouble) if may_be_its_own(trouble) => {
                let why = trouble.to_string();
                let told = state.mirrors.refused(step, &why, trouble.is_code(409), now, chance());
                if trouble.is_code(403) {
                    // The Node that it names as its owner may be another by now, as the next list shows.
                    self.shared.list_anew.notify_one();
                }
                told.map(|pod| (pod, why))
            }
            Err(_) => return done,
        };
        drop(state);
        if let Some((pod, why)) = told {
            let text = format!(
                "the cluster is not shown this pod, which runs all the same: {why}; it is tried again"
            );
            self.outbox.note(About::pod(&pod), Severity::Warning, "FailedMirrorPod", text);
        }
        beyond_it(done)
    }
}
