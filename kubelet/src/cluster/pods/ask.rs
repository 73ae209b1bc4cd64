//! Asks the API for the tokens of pods, one after the other, and again before they expire.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::Shared;
use super::tokens::Question;
use crate::cluster::patience::{LONGEST_WAIT, Patience, beyond_it, may_be_its_own, until};
use crate::identity::{Api, Trouble, chance};
use crate::report::{About, Outbox, Severity};

/// Who asks.
pub(super) struct Asker {
    pub shared: Arc<Shared>,
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    pub outbox: Arc<Outbox>,
}

impl Asker {
    /// Asks for as long as the kubelet runs.
    pub async fn run(mut self) {
        let mut changed = self.shared.changed.subscribe();
        let mut patience = Patience::new();
        loop {
            changed.borrow_and_update();
            let api = self.apis.borrow_and_update().clone();
            let next = self.shared.lock().shelf.tokens.next(Timestamp::now());
            let wait = match (api, next) {
                (Some(api), Ok(question)) => {
                    // Whoever is to be asked may be away, which is told by others; tokens that there are serve on.
                    let done = self.ask(&api, &question).await;
                    if patience.after(done, &mut self.apis).await.is_none() {
                        return;
                    }
                    continue;
                }
                (Some(_), Err(due)) => until(due),
                (None, _) => LONGEST_WAIT,
            };
            tokio::select! {
                changed = self.apis.changed() => if changed.is_err() { return },
                changed = changed.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Asks for one, which is put back where the server gives none; trouble is what may have nothing to do with which.
    async fn ask(&self, api: &Api, question: &Question) -> Result<(), Trouble> {
        let now = Timestamp::now();
        let answered = api.post(&question.path, &question.body).await;
        let why = match &answered {
            Ok(answer) => {
                let given = self.shared.lock().shelf.tokens.given(question, answer, now, chance());
                given.err().map(|why| format!("the answer of {} {why}", api.server()))
            }
            Err(trouble) if may_be_its_own(trouble) => Some(trouble.to_string()),
            Err(_) => return answered.map(drop),
        };
        if let Some(why) = why {
            let told = self.shared.lock().shelf.tokens.refused(&question.key, &why, now, chance());
            if let Some(pod) = told {
                let text = format!("no token is given for this pod: {why}; it is asked for again");
                self.outbox.note(About::pod(&pod), Severity::Warning, "TokenRefused", text);
            }
        }
        self.shared.changed.send_replace(());
        beyond_it(answered.map(drop))
    }
}
