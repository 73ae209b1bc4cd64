//! OIDC discovery documents, which other services use to verify service-account tokens.

use axum::response::{IntoResponse as _, Response};
use http::header;
use serde_json::json;

use super::Auth;

/// Path of the JSON Web Key Set.
const KEYS: &str = "/openid/v1/jwks";
/// `Cache-Control` header of the documents, as in kube-apiserver.
const FRESH: &str = "public, max-age=3600";

/// The document at a path, or `None` for other paths.
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
