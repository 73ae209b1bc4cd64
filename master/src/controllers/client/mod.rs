//! A client of an API server: objects as maps, one at a time or as lists and watches.
//!
//! The service behind it is the server's own router, or a connection to one that is elsewhere. A client library would
//! bring types for every kind, a second TLS stack and a cache of whole objects; what controllers need of it is this file.

mod error;
mod kind;
mod remote;
mod sieve;
mod watch;

use std::convert::Infallible;
use std::time::Duration;

use apiserver::Identity;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Map, Value, json};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

pub use self::error::Error;
pub use self::kind::Kind;
pub use self::remote::{Address, Remote};
pub use self::sieve::Sieve;
pub use self::watch::{Event, Watch};

/// An object as it is sent.
pub type Json = Map<String, Value>;

/// How long an answer may take before the request counts as lost; writes wait for a disk.
const ANSWER: Duration = Duration::from_secs(30);
/// Objects of a list that are asked for at once; what the stock clients ask for.
const PAGE: usize = 500;
/// The largest answer that is read: a page of the largest objects is cut before it eats the memory.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// What stands behind a client.
type Service = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// A client that acts for one user.
#[derive(Clone, Debug)]
pub struct Client {
    service: Service,
    identity: Option<Identity>,
    agent: String,
}

/// What becomes of a deleted object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// How an object is to be deleted.
#[derive(Clone, Debug, Default)]
pub struct Delete<'a> {
    /// Only the object with this identity.
    pub uid: Option<&'a str>,
    /// Only in this version.
    pub revision: Option<&'a str>,
    /// What becomes of its dependents.
    pub propagation: Option<Propagation>,
    /// Seconds that a pod may take to end.
    pub grace_seconds: Option<u32>,
}

impl Client {
    /// A client of a server in this process.
    pub fn inside(router: Router) -> Self {
        let infallible = |never: Infallible| -> BoxError { match never {} };
        Self::of(BoxCloneSyncService::new(tower::ServiceExt::<Request<Body>>::map_err(router, infallible)))
    }

    /// A client of a server elsewhere; whoever it acts for, it shows the same certificate.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub fn outside(remote: &Remote<'_>) -> Result<Self, BoxError> {
        Ok(Self::of(remote::service(remote)?))
    }

    fn of(service: Service) -> Self {
        Self { service, identity: None, agent: "controllers".to_owned() }
    }

    /// The same under another name in the server's log.
    pub fn called(self, agent: &str) -> Self {
        Self { agent: agent.to_owned(), ..self }
    }

    /// The same for a service account of `kube-system`; a server elsewhere goes by the connection's credentials.
    pub fn for_account(&self, name: &str) -> Self {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"].map(str::to_owned);
        self.of_identity(
            Identity::authenticated(format!("system:serviceaccount:kube-system:{name}"), groups),
            name,
        )
    }

    /// The same for a master itself, which may do everything.
    pub fn for_master(&self) -> Self {
        let everything = ["system:masters".to_owned()];
        self.of_identity(Identity::authenticated("system:apiserver", everything), "master")
    }

    /// The same for a user in no group.
    pub fn for_user(&self, user: &str, agent: &str) -> Self {
        self.of_identity(Identity::authenticated(user, []), agent)
    }

    fn of_identity(&self, identity: Identity, agent: &str) -> Self {
        Self { service: self.service.clone(), identity: Some(identity), agent: agent.to_owned() }
    }

    /// One object.
    ///
    /// # Errors
    /// [`Error::is_not_found`] when it is not there; otherwise try again.
    pub async fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Json, Error> {
        self.ask(Method::GET, &kind.path(namespace, name), None).await
    }

    /// The same for an object that may not be there.
    ///
    /// # Errors
    /// When it cannot be told: try again.
    pub async fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Json>, Error> {
        match self.get(kind, namespace, name).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A part of an object, such as its scale; nothing where it has none.
    ///
    /// # Errors
    /// When it cannot be told: try again.
    pub async fn find_part(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: &str,
    ) -> Result<Option<Json>, Error> {
        match self.ask(Method::GET, &format!("{}/{part}", kind.path(namespace, name)), None).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() || error.is_no_such_path() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same for who may list objects of that kind, and not read one.
    ///
    /// # Errors
    /// When it cannot be told: try again.
    pub async fn named(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Json>, Error> {
        let mut found = None;
        let path = kind.path(namespace, "");
        let path = format!("{path}?fieldSelector=metadata.name%3D{name}");
        self.pages(path, Sieve::Everything, |object| found = Some(object)).await?;
        Ok(found)
    }

    /// A document of the server, such as discovery.
    ///
    /// # Errors
    /// When the server does not answer, or not with JSON.
    pub async fn document(&self, path: &str, accept: &'static str) -> Result<Json, Error> {
        let request = self.request(Method::GET, path).header(header::ACCEPT, accept);
        read(self.send(request.body(Body::empty())).await?).await
    }

    /// Whether the server says that it can do its work. One that is never asked that says nothing against it.
    ///
    /// # Errors
    /// When it does not answer, or says no.
    pub async fn is_ready(&self) -> Result<(), Error> {
        let response = self.send(self.request(Method::GET, "/readyz").body(Body::empty())).await?;
        if response.status().is_server_error() { Err(refused(response).await) } else { Ok(()) }
    }

    /// Everything in a namespace, or everywhere when that is empty: given to `each` a page at a time. Returns the
    /// revision from which a watch goes on.
    ///
    /// # Errors
    /// When a page cannot be had; what was given before is incomplete then.
    pub async fn list(
        &self,
        kind: &Kind,
        namespace: &str,
        each: impl FnMut(Json) + Send,
    ) -> Result<String, Error> {
        self.list_of(kind, namespace, Sieve::Everything, each).await
    }

    /// The same where of each no more is read than that.
    ///
    /// # Errors
    /// As of [`Self::list`].
    pub async fn list_of(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Sieve,
        each: impl FnMut(Json) + Send,
    ) -> Result<String, Error> {
        self.pages(format!("{}?limit={PAGE}", kind.path(namespace, "")), object, each).await
    }

    /// What in a namespace has all of these labels.
    ///
    /// # Errors
    /// When a page cannot be had.
    pub async fn labelled(
        &self,
        kind: &Kind,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> Result<Vec<Json>, Error> {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| escaped(&format!("{name}={value}"))).collect();
        let path = kind.path(namespace, "");
        let mut found = Vec::new();
        let first = format!("{path}?limit={PAGE}&labelSelector={}", labels.join(","));
        self.pages(first, Sieve::Everything, |object| found.push(object)).await?;
        Ok(found)
    }

    async fn pages(
        &self,
        first: String,
        object: Sieve,
        mut each: impl FnMut(Json) + Send,
    ) -> Result<String, Error> {
        let sieve = Sieve::nothing().with("metadata").with_part("items", object);
        let mut token = String::new();
        loop {
            let page = format!("{first}{token}");
            let request = self.request(Method::GET, &page).header(header::ACCEPT, "application/json");
            let mut list = read_by(&sieve, self.send(request.body(Body::empty())).await?).await?;
            if let Some(Value::Array(items)) = list.remove("items") {
                for item in items {
                    if let Value::Object(item) = item {
                        each(item);
                    }
                }
            }
            let text = |field: &str| {
                let metadata = list.get("metadata").and_then(|metadata| metadata.get(field));
                metadata.and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            match text("continue") {
                next if next.is_empty() => return Ok(text("resourceVersion")),
                // Tokens of some servers are base64 with `=` and `+`.
                next => token = format!("&continue={}", escaped(&next)),
            }
        }
    }

    /// What changes after that revision; of each object what is asked for.
    ///
    /// # Errors
    /// [`Error::is_expired`] when the revision is too old: list again.
    pub async fn watch(&self, kind: &Kind, revision: &str, sieve: Sieve) -> Result<Watch, Error> {
        let path = kind.path("", "");
        let path = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
        let response = self.send(self.request(Method::GET, &path).body(Body::empty())).await?;
        if response.status().is_success() {
            return Ok(Watch::of(response.into_body(), sieve));
        }
        Err(refused(response).await)
    }

    /// Makes an object.
    ///
    /// # Errors
    /// [`Error::exists`] when there is one of its name.
    pub async fn create(&self, kind: &Kind, namespace: &str, object: Value) -> Result<Json, Error> {
        self.ask(Method::POST, &kind.path(namespace, ""), Some(("application/json", object))).await
    }

    /// Asks something of an object by a part of it, such as a token of a service account.
    ///
    /// # Errors
    /// [`Error::is_not_found`] when the object is not there.
    pub async fn ask_of(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: &str,
        question: Value,
    ) -> Result<Json, Error> {
        let path = format!("{}/{part}", kind.path(namespace, name));
        self.ask(Method::POST, &path, Some(("application/json", question))).await
    }

    /// Writes an object, or a part of it, in the version that it names.
    ///
    /// # Errors
    /// [`Error::is_conflict`] when somebody else came before.
    pub async fn update(&self, kind: &Kind, part: &str, object: Json) -> Result<Json, Error> {
        let text = |field: &str| {
            let metadata = object.get("metadata").and_then(|metadata| metadata.get(field));
            metadata.and_then(Value::as_str).unwrap_or_default()
        };
        let mut path = kind.path(text("namespace"), text("name"));
        if !part.is_empty() {
            path = format!("{path}/{part}");
        }
        self.ask(Method::PUT, &path, Some(("application/json", Value::Object(object)))).await
    }

    /// Changes fields of an object (JSON merge patch).
    ///
    /// # Errors
    /// [`Error::is_conflict`] when the patch names a version and somebody else came before.
    pub async fn patch(&self, kind: &Kind, namespace: &str, name: &str, patch: Value) -> Result<Json, Error> {
        let body = Some(("application/merge-patch+json", patch));
        self.ask(Method::PATCH, &kind.path(namespace, name), body).await
    }

    /// Changes fields of a part of an object (strategic merge patch: what has a key in a list stands for itself).
    ///
    /// # Errors
    /// [`Error::is_conflict`] when the patch names a version and somebody else came before.
    pub async fn patch_part(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: &str,
        patch: Value,
    ) -> Result<Json, Error> {
        let path = format!("{}/{part}", kind.path(namespace, name));
        self.ask(Method::PATCH, &path, Some(("application/strategic-merge-patch+json", patch))).await
    }

    /// Deletes an object; one that is gone already is as well.
    ///
    /// # Errors
    /// [`Error::is_conflict`] when it is another one.
    pub async fn delete(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        how: &Delete<'_>,
    ) -> Result<(), Error> {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(propagation) = how.propagation {
            options["propagationPolicy"] = propagation.as_str().into();
        }
        if let Some(seconds) = how.grace_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        for (field, value) in [("uid", how.uid), ("resourceVersion", how.revision)] {
            if let Some(value) = value {
                options["preconditions"][field] = value.into();
            }
        }
        let body = Some(("application/json", options));
        match self.ask(Method::DELETE, &kind.path(namespace, name), body).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Value)>,
    ) -> Result<Json, Error> {
        let request = self.request(method, path).header(header::ACCEPT, "application/json");
        let request = match body {
            None => request.body(Body::empty()),
            Some((media_type, body)) => {
                request.header(header::CONTENT_TYPE, media_type).body(Body::from(body.to_string()))
            }
        };
        read(self.send(request).await?).await
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(path).header(header::USER_AGENT, &self.agent);
        match &self.identity {
            None => request,
            Some(identity) => request.extension(identity.clone()),
        }
    }

    async fn send(&self, request: http::Result<Request<Body>>) -> Result<Response<Body>, Error> {
        let request = request.map_err(|error| Error::Lost(error.into()))?;
        let answer = tokio::time::timeout(ANSWER, self.service.clone().oneshot(request)).await;
        answer.map_err(|late| Error::Lost(late.into()))?.map_err(Error::Lost)
    }
}

async fn read(response: Response<Body>) -> Result<Json, Error> {
    read_by(&Sieve::Everything, response).await
}

/// So much of an answer.
async fn read_by(sieve: &Sieve, response: Response<Body>) -> Result<Json, Error> {
    if !response.status().is_success() {
        return Err(refused(response).await);
    }
    match sieve.read(&all(response.into_body()).await?).map_err(Error::Unreadable)? {
        Value::Object(object) => Ok(object),
        other => serde_json::from_value(other).map_err(Error::Unreadable),
    }
}

/// What a refusal says.
async fn refused(response: Response<Body>) -> Error {
    let code = response.status().as_u16();
    let status = match all(response.into_body()).await {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes).unwrap_or_default(),
        Err(error) => return error,
    };
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let named = status.pointer("/details/name").and_then(Value::as_str).unwrap_or_default();
    Error::Refused { code, reason: text("reason"), message: text("message"), names_object: !named.is_empty() }
}

async fn all(body: Body) -> Result<Bytes, Error> {
    let read = tokio::time::timeout(ANSWER, Limited::new(body, MOST_BYTES).collect()).await;
    let collected = read.map_err(|late| Error::Lost(late.into()))?;
    collected.map(|body| body.to_bytes()).map_err(Error::Lost)
}

/// A text in a query.
fn escaped(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let escape = |byte: u8| {
        if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(escape).collect()
}
