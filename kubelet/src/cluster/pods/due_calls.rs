//! The loop of a manager that sends calls to the API server one after the other, each when it is due.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::cluster::backoff::{Backoff, MAX_WAIT, time_until};
use crate::identity::{Api, ApiError};

/// A source of calls to the API server.
pub(super) trait DueCalls: Sync {
    /// A call.
    type Call: Send + Sync;

    /// The next call that is due, or the time when one will be due.
    fn next(&self, now: Timestamp) -> Result<Self::Call, Option<Timestamp>>;

    /// Sends a call and stores its result. A returned error concerns the server as a whole, and the loop backs off.
    /// Other tasks report that the API server does not answer.
    fn send(&self, api: &Api, call: &Self::Call) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// Sends the calls of a manager until the kubelet stops. `changed` announces new calls.
pub(super) async fn send_due_calls(
    calls: &impl DueCalls,
    mut apis: watch::Receiver<Option<Arc<Api>>>,
    mut changed: watch::Receiver<()>,
) {
    let mut backoff = Backoff::new();
    loop {
        changed.borrow_and_update();
        let api = apis.borrow_and_update().clone();
        let wait = match (api, calls.next(Timestamp::now())) {
            (Some(api), Ok(call)) => {
                let done = calls.send(&api, &call).await;
                if backoff.record(done, &mut apis).await.is_none() {
                    return;
                }
                continue;
            }
            (Some(_), Err(due)) => time_until(due),
            (None, _) => MAX_WAIT,
        };
        tokio::select! {
            changed = apis.changed() => if changed.is_err() { return },
            changed = changed.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(wait) => {}
        }
    }
}
