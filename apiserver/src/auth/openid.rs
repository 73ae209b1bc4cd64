//! The documents by which others learn to verify tokens of service accounts.

use axum::response::{IntoResponse as _, Response};
use http::header;
use serde_json::json;

use super::Auth;

/// Where the keys are told.
const KEYS: &str = "/openid/v1/jwks";
/// How long others may go on with what they were told; the stock server's.
const FRESH: &str = "public, max-age=3600";

/// The document at a path, if there is one.
pub(super) fn document(auth: &Auth, path: &str) -> Option<Response> {
    let (media_type, document) = match path {
        "/.well-known/openid-configuration" => {
            let document = json!({
                "issuer": auth.tokens.issuer(),
                "jwks_uri": format!("{}{KEYS}", auth.server),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            });
            ("application/json", document)
        }
        KEYS => ("application/jwk-set+json", auth.tokens.keys()),
        _ => return None,
    };
    let headers = [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, FRESH)];
    Some((headers, document.to_string()).into_response())
}
