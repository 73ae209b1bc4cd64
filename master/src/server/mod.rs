//! The top router of the API server: health, version and the API, with authentication and authorization.

mod health;

use std::sync::Arc;

use apiserver::auth::Auth;
use apiserver::{Status, VERSION, ui};
use axum::routing::get;
use axum::{Json, Router};

pub use health::Checks;

/// Creates the top router. `api` handles all paths except health and version.
pub fn router(api: Router, checks: &Arc<Checks>, auth: &Arc<Auth>) -> Router {
    let router = Router::new()
        .route("/version", get(|| async { Json(VERSION.document()) }))
        .merge(health::router(checks))
        .method_not_allowed_fallback(|| async {
            Status::method_not_allowed("the server does not allow this method on the requested resource")
        })
        .fallback_service(api);
    // The page holds no data. It reads the API with the credentials of the browser.
    auth.guard(router).merge(ui::router())
}

/// Returns an API without resources.
pub fn no_api() -> Router {
    Router::new().fallback(|| async { Status::no_such_path() })
}

#[cfg(test)]
mod tests;
