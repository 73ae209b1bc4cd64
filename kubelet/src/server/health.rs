//! `/healthz`: is the kubelet itself well? An engine that is away is the node's trouble, not the kubelet's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;

/// The loops that must keep turning, each with the time of its last turn.
#[derive(Debug, Default)]
pub struct Health {
    loops: Mutex<BTreeMap<&'static str, Beat>>,
}

#[derive(Debug)]
struct Beat {
    last: Instant,
    at_least_every: Duration,
}

impl Health {
    /// Nothing to watch over yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A loop turned; it is stuck when it does not do so again in time.
    pub fn beat(&self, name: &'static str, at_least_every: Duration) {
        let beat = Beat { last: Instant::now(), at_least_every };
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).insert(name, beat);
    }

    /// The loops that are stuck.
    fn stuck(&self) -> Vec<&'static str> {
        let loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops
            .iter()
            .filter(|(_, beat)| beat.last.elapsed() > beat.at_least_every)
            .map(|(name, _)| *name)
            .collect()
    }
}

/// `/healthz`, and its younger names.
pub fn router(health: &Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(answer))
        .route("/livez", get(answer))
        .route("/readyz", get(answer))
        .with_state(health.clone())
}

async fn answer(State(health): State<Arc<Health>>) -> (StatusCode, String) {
    let stuck = health.stuck();
    if stuck.is_empty() {
        return (StatusCode::OK, "ok".to_owned());
    }
    let lines: String =
        stuck.iter().map(|name| format!("[-]{name} failed: it has not turned in time\n")).collect();
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}healthz check failed\n"))
}
