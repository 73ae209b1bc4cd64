//! `/healthz`: the loops that must keep turning do.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;

use crate::health::Health;

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
