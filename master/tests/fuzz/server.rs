//! A master in this process, with all layers that a request passes.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::Issuer;
use apiserver::storage::{Limits, Memory};
use apiserver::{Catalog, Identity, kinds};
use axum::Router;
use axum::body::{Body, HttpBody as _, to_bytes};
use http::Request;
use master::admission::AdmissionConfig;
use master::server::{Checks, router};
use proptest::test_runner::TestCaseError;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::damage::Shown;
use crate::seeds;

/// Time limit of a response. It allows for a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of requests before the server is replaced, so that created objects do not accumulate.
const REQUESTS: usize = 3000;

/// A server that is replaced after a number of requests.
pub struct Server {
    runtime: Runtime,
    router: RefCell<Router>,
    requests: Cell<usize>,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Server {
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let router = RefCell::new(runtime.block_on(open()));
        Self { runtime, router, requests: Cell::new(0) }
    }

    /// Sends a request as administrator, or as the user in its headers.
    pub fn send_request(
        &self,
        request: http::request::Builder,
        body: &[u8],
    ) -> Result<Answer, TestCaseError> {
        // The HTTP parser rejects requests that are not valid HTTP.
        let request = request.body(Body::from(body.to_vec()));
        let request = request.map_err(|error| TestCaseError::reject(error.to_string()))?;
        self.requests.set(self.requests.get() + 1);
        if self.requests.get().is_multiple_of(REQUESTS) {
            *self.router.borrow_mut() = self.runtime.block_on(open());
        }
        let shown = format!("{} {}", request.method(), request.uri());
        let router = self.router.borrow().clone();
        let answered = self.runtime.block_on(async { timeout(PATIENCE, answer(router, request)).await });
        let (code, bytes) = answered
            .map_err(|_| TestCaseError::fail(format!("{shown} was not answered\n{}", Shown(body))))?;
        let wrong = |why: &str| {
            let (sent, answer) = (Shown(body), Shown(&bytes));
            Err(TestCaseError::fail(format!("{shown} {why}: {code} {answer}\n{sent}")))
        };
        let body = serde_json::from_slice(&bytes).ok();
        let body = body.or_else(|| api::protobuf::decode(&bytes).ok()).unwrap_or(Value::Null);
        let is_status = body["kind"] == "Status" && body["code"] == code;
        match code {
            200..400 => Ok(Answer { code, body }),
            400.. if !is_status => wrong("was answered with no Status"),
            400.. if body["message"].as_str().is_none_or(str::is_empty) => wrong("got no error message"),
            // A future revision.
            400..500 | 504 => Ok(Answer { code, body }),
            _ => wrong("is no fault of the server"),
        }
    }
}

/// The status code and the body. The body of a watch is not read.
async fn answer(router: Router, request: Request<Body>) -> (u16, Vec<u8>) {
    let response = router.oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let is_stream = response.body().size_hint().exact().is_none();
    if code < 400 && is_stream {
        return (code, Vec::new());
    }
    (code, to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec())
}

async fn open() -> Router {
    let store = Arc::new(Memory::new(Limits::default()));
    let issuer = Issuer { name: "https://issuer".to_owned(), server: "https://server".to_owned() };
    let key = rcgen::KeyPair::generate().unwrap().serialize_der();
    let added = AdmissionConfig::default();
    let served = master::api::open(store, Catalog::new(kinds::all()), &key, issuer, added).await.unwrap();
    let router = router(served.api, &Arc::new(Checks::new()), &served.auth);
    for seed in seeds::OBJECTS {
        let request = admin(seed.method, seed.path).header("content-type", seed.media_type);
        let request = request.body(Body::from(seed.body)).unwrap();
        let (code, body) = answer(router.clone(), request).await;
        assert!(code < 300, "{} {}: {code} {}", seed.method, seed.path, Shown(&body));
    }
    router
}

/// A request builder with the identity of an administrator.
pub fn admin(method: &str, uri: &str) -> http::request::Builder {
    let who = Identity::authenticated("admin", ["system:masters".to_owned()]);
    Request::builder().method(method).uri(uri).extension(who)
}
