//! Who may go on to the API: until roles decide, those who may do everything, and nobody else.

use apiserver::{Identity, Status};
use axum::body::Body;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{Request, StatusCode};
use serde_json::json;

/// The group that may do everything, whatever roles say.
const MASTERS: &str = "system:masters";

/// Lets a request pass, or refuses it with the words of a stock server.
pub async fn pass(request: Request<Body>, next: Next) -> Response {
    // A request without an identity came by a way that authenticates nobody.
    let identity = request.extensions().get().cloned().unwrap_or_else(Identity::anonymous);
    if identity.is_in(MASTERS) {
        return next.run(request).await;
    }
    let verb = request.method().as_str().to_lowercase();
    let message =
        format!("forbidden: User \"{}\" cannot {verb} path \"{}\"", identity.user, request.uri().path());
    let refused = Status::new(StatusCode::FORBIDDEN, "Forbidden", message);
    Status { details: Some(json!({})), ..refused }.into_response()
}
