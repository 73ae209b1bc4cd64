//! The way in: nothing behind it is reached by anybody who may not.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::{Method, Request, header};
use jiff::Timestamp;

use super::told::Told;
use super::{Attributes, Auth, On, impersonation, openid, reviews};
use crate::identity::Identity;
use crate::status::Status;

impl Auth {
    /// The router for those who may; reviews and the documents of the issuer are answered before it.
    pub fn guard(self: &Arc<Self>, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), pass))
    }

    /// Says who sends the request, and that they may.
    fn admit(
        &self,
        request: &mut Request<Body>,
        told: &mut Told,
        now: Timestamp,
    ) -> Result<(Identity, Attributes), Status> {
        let attributes = Attributes::of(request.method(), request.uri())?;
        // A request without an identity came by a way that authenticates nobody.
        let connection = request.extensions().get().cloned().unwrap_or_else(Identity::anonymous);
        let peer = connection.peer;
        let mut who = self.known(connection, request.headers(), now)?;
        told.by(&who.user);
        if let Some(wanted) = impersonation::wanted(request.headers())? {
            for needed in &wanted.needed {
                self.check(&who, needed)?;
            }
            tracing::debug!(
                user = who.user,
                as_user = wanted.identity.user,
                "somebody acts as somebody else"
            );
            who = wanted.identity;
            told.by(&who.user);
        }
        self.check(&who, &attributes)?;
        if let Some(besides) = attributes.besides() {
            self.check(&who, &besides)?;
        }
        // Whoever it is, and for whom he acts.
        who.peer = peer;
        // Nobody behind this needs the secret.
        request.headers_mut().remove(header::AUTHORIZATION);
        Ok((who, attributes))
    }
}

async fn pass(State(auth): State<Arc<Auth>>, request: Request<Body>, next: Next) -> Response {
    let mut told = Told::begin(&request);
    let response = answer(&auth, request, &mut told, next).await;
    told.answered(response.status());
    response
}

async fn answer(auth: &Arc<Auth>, mut request: Request<Body>, told: &mut Told, next: Next) -> Response {
    let (who, attributes) = match auth.admit(&mut request, told, Timestamp::now()) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into_response(),
    };
    match &attributes.on {
        On::Path(path) if request.method() == Method::GET || request.method() == Method::HEAD => {
            if let Some(document) = openid::document(auth, path) {
                return document;
            }
        }
        On::Path(_) => {}
        On::Resource(on) => match reviews::Review::of(&attributes.verb, on) {
            Ok(None) => {}
            Ok(Some(review)) => {
                let answer = review.answer(auth, &who, on, request).await;
                return answer.unwrap_or_else(Status::into_response);
            }
            Err(refused) => return refused.into_response(),
        },
    }
    request.extensions_mut().insert(who);
    next.run(request).await
}
