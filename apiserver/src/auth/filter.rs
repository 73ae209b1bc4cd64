//! Authentication and authorization middleware. It also serves the OIDC discovery documents, which need no resource.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::{Method, Request, header};
use jiff::Timestamp;
use serde_json::json;

use super::request_log::RequestLog;
use super::{Attributes, Auth, On, impersonation, reviews};
use crate::identity::Identity;
use crate::represent::{self, Accept, As, Format};
use crate::status::Status;

impl Auth {
    /// Wraps the router with authentication and authorization, and answers access reviews and the OIDC discovery
    /// documents.
    pub fn guard(self: &Arc<Self>, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), pass))
    }

    /// Authenticates and authorizes a request, including impersonation.
    fn admit(
        &self,
        request: &mut Request<Body>,
        log: &mut RequestLog,
        now: Timestamp,
    ) -> Result<(Identity, Attributes), Status> {
        let attributes = Attributes::of(request.method(), request.uri())?;
        // Requests without an identity arrived over a listener that does not authenticate.
        let connection = request.extensions().get().cloned().unwrap_or_else(Identity::anonymous);
        let peer = connection.peer;
        let mut who = self.authenticate(connection, request.headers(), now)?;
        log.set_user(&who.user);
        if let Some(requested) = impersonation::requested(request.headers())? {
            for needed in &requested.needed {
                self.check(&who, needed)?;
            }
            tracing::debug!(
                user = who.user,
                as_user = requested.identity.user,
                "the user impersonates another user"
            );
            who = requested.identity;
            log.set_user(&who.user);
        }
        self.check(&who, &attributes)?;
        if let Some(also_required) = attributes.also_required() {
            self.check(&who, &also_required)?;
        }
        // An impersonated request keeps its peer address.
        who.peer = peer;
        // Handlers must not see the credentials.
        request.headers_mut().remove(header::AUTHORIZATION);
        Ok((who, attributes))
    }
}

async fn pass(State(auth): State<Arc<Auth>>, request: Request<Body>, next: Next) -> Response {
    let mut log = RequestLog::begin(&request);
    let response = answer(&auth, request, &mut log, next).await;
    log.finish(response.status());
    response
}

async fn answer(auth: &Arc<Auth>, mut request: Request<Body>, log: &mut RequestLog, next: Next) -> Response {
    let accept = Accept::of(request.headers());
    let (who, attributes) = match auth.admit(&mut request, log, Timestamp::now()) {
        Ok(admitted) => admitted,
        Err(refused) => return represent::error(&accept, refused).await,
    };
    match &attributes.on {
        On::Path(path) if request.method() == Method::GET || request.method() == Method::HEAD => {
            if let Some(document) = openid_document(auth, path) {
                return document;
            }
        }
        On::Path(_) => {}
        On::Resource(on) => match reviews::Review::of(&attributes.verb, on) {
            Ok(None) => {}
            Ok(Some(review)) => {
                let format = Format { encoding: accept.of_errors(), shape: As::Object };
                return match review.answer(auth, &who, on, request).await {
                    Ok(answer) => represent::respond(format, None, answer).await,
                    Err(refused) => represent::error(&accept, refused).await,
                };
            }
            Err(refused) => return represent::error(&accept, refused).await,
        },
    }
    request.extensions_mut().insert(who);
    next.run(request).await
}

/// Path of the JSON Web Key Set.
const KEYS: &str = "/openid/v1/jwks";
/// `Cache-Control` header of the documents, as in kube-apiserver.
const FRESH: &str = "public, max-age=3600";

/// The document at a path; `None` for other paths.
fn openid_document(auth: &Auth, path: &str) -> Option<Response> {
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
