//! Access reviews and token requests. They are virtual resources: a create returns the answer, and nothing is
//! stored.

mod access;
mod tokens;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, Request, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{AccessPolicy, Attributes, Auth, On, ResourceAttributes, nodes};
use crate::identity::Identity;
use crate::represent::{self, Accept, As, Format};
use crate::status::Status;
use crate::write::body;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// A kind of review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Review {
    /// SelfSubjectReview: the identity of the sender.
    SelfSubject,
    /// TokenReview: the identity behind a token.
    Token,
    /// SubjectAccessReview: whether a user may do something.
    SubjectAccess,
    /// LocalSubjectAccessReview: whether a user may do something in one namespace.
    LocalSubjectAccess,
    /// SelfSubjectAccessReview: whether the sender may do something.
    SelfSubjectAccess,
    /// SelfSubjectRulesReview: what the sender may do in a namespace.
    SelfSubjectRules,
    /// TokenRequest: a token for a service account. It is not stored either.
    TokenRequest,
}

impl Review {
    const ALL: [Self; 7] = [
        Self::SelfSubject,
        Self::Token,
        Self::SubjectAccess,
        Self::LocalSubjectAccess,
        Self::SelfSubjectAccess,
        Self::SelfSubjectRules,
        Self::TokenRequest,
    ];

    /// Group, resource, subresource and kind.
    fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::SelfSubject => (AUTHENTICATION, "selfsubjectreviews", "", "SelfSubjectReview"),
            Self::Token => (AUTHENTICATION, "tokenreviews", "", "TokenReview"),
            Self::SubjectAccess => (AUTHORIZATION, "subjectaccessreviews", "", "SubjectAccessReview"),
            Self::LocalSubjectAccess => {
                (AUTHORIZATION, "localsubjectaccessreviews", "", "LocalSubjectAccessReview")
            }
            Self::SelfSubjectAccess => {
                (AUTHORIZATION, "selfsubjectaccessreviews", "", "SelfSubjectAccessReview")
            }
            Self::SelfSubjectRules => {
                (AUTHORIZATION, "selfsubjectrulesreviews", "", "SelfSubjectRulesReview")
            }
            Self::TokenRequest => ("", "serviceaccounts", "token", "TokenRequest"),
        }
    }

    /// The review that a request creates, or `None` if it creates none.
    ///
    /// # Errors
    /// 404 or 405 for other verbs and paths: reviews are never stored.
    pub fn of(verb: &str, on: &ResourceAttributes) -> Result<Option<Self>, Status> {
        let is = |review: &Self| {
            let (group, resource, part, _) = review.names();
            let is_part = part.is_empty() || on.subresource == part;
            on.group == group && on.resource == resource && on.version == "v1" && is_part
        };
        let Some(review) = Self::ALL.into_iter().find(is) else { return Ok(None) };
        let (is_part, is_local) = (review == Self::TokenRequest, review == Self::LocalSubjectAccess);
        let is_place = on.name.is_empty() != is_part
            && on.subresource.is_empty() != is_part
            && on.namespace.is_empty() != (is_part || is_local);
        match verb {
            "create" if is_place => Ok(Some(review)),
            "create" => Err(Status::no_such_path()),
            _ => Err(Status::method_not_allowed(
                "the server does not allow this method on the requested resource",
            )),
        }
    }

    /// Reads the review from the body and answers it.
    ///
    /// # Errors
    /// 4xx for an invalid review.
    pub async fn answer(
        self,
        auth: &Auth,
        who: &Identity,
        on: &ResourceAttributes,
        request: Request<Body>,
    ) -> Result<Response, Status> {
        if wants_a_table(request.headers()) {
            return Err(Status::not_acceptable());
        }
        let mut object = self.read(request).await?;
        let spec = object.get("spec").cloned().unwrap_or_default();
        let now = Timestamp::now();
        let status = match self {
            Self::Token => tokens::review(auth, &spec, now)?,
            Self::SubjectAccess => access::review(auth, &spec)?,
            Self::LocalSubjectAccess => access::local_review(auth, &spec, &on.namespace)?,
            Self::SelfSubject | Self::SelfSubjectAccess | Self::SelfSubjectRules => {
                self.answer_own(auth, who, &spec).unwrap_or_else(|| Err(Status::no_such_path()))?
            }
            Self::TokenRequest => {
                nodes::tokens::check(auth, who, on, &spec)?;
                let made = tokens::request(auth, &on.namespace, &on.name, &spec, now)?;
                object.insert("spec".to_owned(), made.spec);
                object.insert("metadata".to_owned(), json!({"name": on.name, "namespace": on.namespace}));
                made.status
            }
        };
        Ok(answered(object, status))
    }

    /// Answers a review of the sender's own identity and access. `None` for other reviews.
    fn answer_own(
        self,
        policy: &dyn AccessPolicy,
        who: &Identity,
        spec: &Value,
    ) -> Option<Result<Value, Status>> {
        match self {
            Self::SelfSubject => Some(Ok(json!({"userInfo": access::user_info(who)}))),
            Self::SelfSubjectAccess => Some(access::self_review(policy, who, spec)),
            Self::SelfSubjectRules => Some(access::rules(policy, who, spec)),
            Self::Token | Self::SubjectAccess | Self::LocalSubjectAccess | Self::TokenRequest => None,
        }
    }

    async fn read(self, request: Request<Body>) -> Result<Map<String, Value>, Status> {
        let (parts, body) = request.into_parts();
        let media_type = body::media_type(&parts.headers);
        let bytes = body::whole(body, body::MAX_BYTES).await?;
        let (group, _, _, kind) = self.names();
        let group = if group.is_empty() { AUTHENTICATION } else { group };
        let api_version = format!("{group}/v1");
        let Value::Object(mut object) = body::document(media_type, &bytes)? else {
            return Err(Status::bad_request(format!("the body is not a {kind}")));
        };
        for (field, expected) in [("kind", kind), ("apiVersion", &api_version)] {
            match object.get(field).and_then(Value::as_str).unwrap_or_default() {
                "" => drop(object.insert(field.to_owned(), expected.into())),
                given if given == expected => {}
                given => {
                    return Err(Status::bad_request(format!(
                        "the {field} in the data ({given}) does not match the expected one ({expected})"
                    )));
                }
            }
        }
        api::schema::prune(&mut object, &api_version, kind);
        body::fit(&mut object, &api_version, kind)?;
        object.entry("metadata").or_insert_with(|| json!({}));
        Ok(object)
    }
}

/// Answers reviews of the sender's own identity and access: `kubectl auth whoami` and `kubectl auth can-i`. It returns
/// the request if it is for something else.
///
/// # Errors
/// The request, if it is not such a review.
pub async fn answer_own_review(
    policy: &dyn AccessPolicy,
    who: &Identity,
    attributes: &Attributes,
    request: Request<Body>,
) -> Result<Response, Request<Body>> {
    let On::Resource(on) = &attributes.on else { return Err(request) };
    let Ok(Some(review)) = Review::of(&attributes.verb, on) else { return Err(request) };
    if review.answer_own(policy, who, &Value::Null).is_none() {
        return Err(request);
    }
    let accept = Accept::of(request.headers());
    let answer = async {
        let object = review.read(request).await?;
        let spec = object.get("spec").cloned().unwrap_or_default();
        let status = review.answer_own(policy, who, &spec).unwrap_or_else(|| Err(Status::no_such_path()))?;
        let format = Format { encoding: accept.of_errors(), shape: As::Object };
        Ok::<_, Status>(represent::respond(format, None, answered(object, status)).await)
    };
    Ok(match answer.await {
        Ok(answer) => answer,
        Err(refused) => represent::error(&accept, refused).await,
    })
}

/// The response with the answer in the status of the review.
fn answered(mut object: Map<String, Value>, status: Value) -> Response {
    object.insert("status".to_owned(), status);
    let body = Value::Object(object).to_string();
    (StatusCode::CREATED, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// True for a client that accepts only tables. Reviews have no table.
fn wants_a_table(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut items = values.flat_map(|value| value.split(',')).peekable();
    items.peek().is_some() && items.all(|item| item.split(';').any(|part| part.trim().starts_with("as=")))
}

/// Validation error for a field of a review.
fn invalid(kind: &str, group: &str, field: &str, what: &str) -> Status {
    let message = format!("{kind}.{group} \"\" is invalid: {field}: {what}");
    let causes = json!([{"reason": "FieldValueInvalid", "message": what, "field": field}]);
    let status = Status::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
    Status { details: Some(json!({"group": group, "kind": kind, "causes": causes})), ..status }
}

/// Returns a string field, empty if absent.
fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list of strings.
fn texts(of: &Value, field: &str) -> Vec<String> {
    let list = of.get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
