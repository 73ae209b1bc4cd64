//! Health endpoints `/livez`, `/readyz` and `/healthz`, in the format of the stock API server.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{StatusCode, header};

use apiserver::Status;

/// Timeout of a check. Clients that probe the health usually wait a few seconds.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a check, as a future.
type Look = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A named check of `/livez` or `/readyz`.
struct Check {
    name: &'static str,
    /// The endpoints that fail if the check fails.
    group: Group,
    look: Box<dyn Fn() -> Look + Send + Sync>,
}

/// The endpoints that a check belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// All endpoints. If the check fails, the process should be restarted.
    Live,
    /// The endpoints `/readyz` and `/healthz`. `/livez?verbose` lists the check, but does not fail, because a
    /// restart does not repair the store.
    Store,
    /// Only the endpoint `/readyz`.
    Ready,
}

/// Post-start hooks of the stock API server. Before it serves, the master has completed the equivalent work.
const STARTED: [&str; 15] = [
    "poststarthook/start-kube-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-status-available-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
];

impl Check {
    fn at_once(
        name: &'static str,
        group: Group,
        look: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name, group, look: Box::new(move || Box::pin(std::future::ready(look()))) }
    }

    async fn look(&self) -> Result<(), String> {
        let looked = tokio::time::timeout(CHECK_TIMEOUT, (self.look)()).await;
        looked.unwrap_or_else(|_| Err(format!("no answer within {} s", CHECK_TIMEOUT.as_secs())))
    }
}

/// All checks. A check that the stock API server also has uses the stock name.
pub struct Checks {
    all: Vec<Check>,
}

impl Default for Checks {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all.iter().map(|check| (check.name, check.group))).finish()
    }
}

impl Checks {
    /// Creates the checks that pass whenever the server responds.
    pub fn new() -> Self {
        let always = ["ping", "log"].map(|name| Check::at_once(name, Group::Live, || Ok(())));
        Self { all: always.into() }
    }

    /// Creates the checks of a master, which serves only after its startup work.
    pub fn serving() -> Self {
        let started = STARTED.map(|name| Check::at_once(name, Group::Live, || Ok(())));
        let mut checks = Self::new();
        checks.all.extend(started);
        checks.ready("informer-sync", || Ok(()))
    }

    /// Adds a check to `/readyz`.
    pub fn ready(
        mut self,
        name: &'static str,
        look: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.all.push(Check::at_once(name, Group::Ready, look));
        self
    }

    /// Adds an asynchronous check to `/readyz`.
    pub fn ready_when<F>(self, name: &'static str, look: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.when(name, Group::Ready, look)
    }

    /// Adds a check of the store.
    pub fn store_when<F>(self, name: &'static str, look: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.when(name, Group::Store, look)
    }

    fn when<F>(
        mut self,
        name: &'static str,
        group: Group,
        look: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.all.push(Check { name, group, look: Box::new(move || Box::pin(look())) });
        self
    }

    fn of(&self, endpoint: Endpoint) -> impl Iterator<Item = &Check> {
        self.all.iter().filter(move |check| match (endpoint, check.group) {
            (Endpoint::Readyz, _) | (_, Group::Live | Group::Store) => true,
            (Endpoint::Livez | Endpoint::Healthz, Group::Ready) => false,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Livez,
    Readyz,
    Healthz,
}

impl Endpoint {
    fn name(self) -> &'static str {
        match self {
            Self::Livez => "livez",
            Self::Readyz => "readyz",
            Self::Healthz => "healthz",
        }
    }
}

/// The routes of the three endpoints and of the single checks.
pub fn router(checks: &Arc<Checks>) -> Router {
    [Endpoint::Livez, Endpoint::Readyz, Endpoint::Healthz].into_iter().fold(
        Router::new(),
        |router, endpoint| {
            let (all, one) = (checks.clone(), checks.clone());
            let name = endpoint.name();
            router
                .route(
                    &format!("/{name}"),
                    get(async move |Query(query): Query<Vec<(String, String)>>| {
                        answer(&all, endpoint, &query).await
                    }),
                )
                .route(
                    &format!("/{name}/{{*check}}"),
                    get(async move |Path(check): Path<String>| answer_one(&one, endpoint, &check).await),
                )
        },
    )
}

async fn answer(checks: &Checks, endpoint: Endpoint, query: &[(String, String)]) -> Response {
    let values = |wanted: &'static str| query.iter().filter(move |(name, _)| name == wanted);
    let is_verbose = values("verbose").next().is_some();
    let excluded: Vec<&str> = values("exclude").map(|(_, value)| value.as_str()).collect();
    let name = endpoint.name();
    let (mut lines, mut failed) = (String::new(), false);
    for check in checks.of(endpoint) {
        let decides = endpoint != Endpoint::Livez || check.group == Group::Live;
        if excluded.contains(&check.name) {
            let _ = writeln!(lines, "[+]{} excluded: ok", check.name);
            continue;
        }
        if !decides && !is_verbose {
            continue;
        }
        match check.look().await {
            Ok(()) => drop(writeln!(lines, "[+]{} ok", check.name)),
            Err(reason) => {
                failed |= decides;
                // Anonymous clients may read the endpoint, so the reason is only logged.
                tracing::warn!(check = check.name, reason, "{name} check failed");
                let _ = writeln!(lines, "[-]{} failed: reason withheld", check.name);
            }
        }
    }
    let is_unknown = |wanted: &&&str| !checks.of(endpoint).any(|check| check.name == **wanted);
    let unknown: Vec<String> =
        excluded.iter().filter(is_unknown).map(|wanted| format!("{wanted:?}")).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        let _ = writeln!(lines, "warn: some health checks cannot be excluded: no matches for {unknown}");
    }
    if failed {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{name} check failed\n"));
    }
    let text = if is_verbose { format!("{lines}{name} check passed\n") } else { "ok".to_owned() };
    plain(StatusCode::OK, text)
}

async fn answer_one(checks: &Checks, endpoint: Endpoint, name: &str) -> Response {
    let Some(check) = checks.of(endpoint).find(|check| check.name == name) else {
        return Status::no_such_path().into_response();
    };
    match check.look().await {
        Ok(()) => plain(StatusCode::OK, "ok".to_owned()),
        Err(reason) => {
            tracing::warn!(check = name, reason, "{} check failed", endpoint.name());
            let text = format!("internal server error: check {name} failed: reason withheld\n");
            plain(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

fn plain(code: StatusCode, text: String) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (code, headers, text).into_response()
}

#[cfg(test)]
mod tests {
    //! Tests of slow checks and of checks that never end.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use axum::body::{Body, to_bytes};
    use http::Request;
    use tower::ServiceExt as _;

    use super::*;

    async fn ready(checks: Checks) -> (u16, String) {
        let request = Request::get("/readyz?verbose").body(Body::empty()).unwrap();
        let response = router(&Arc::new(checks)).oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        (code, String::from_utf8(to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn store_health_check_times_out() {
        let slow = Checks::new().ready_when("etcd", || async {
            tokio::time::timeout(CHECK_TIMEOUT / 2, std::future::pending::<()>()).await.unwrap_err();
            Ok(())
        });
        assert_eq!(
            ready(slow).await,
            (200, "[+]ping ok\n[+]log ok\n[+]etcd ok\nreadyz check passed\n".to_owned())
        );
        let hung = Checks::new().ready_when("etcd", std::future::pending);
        let expected = "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\nreadyz check failed\n";
        assert_eq!(ready(hung).await, (500, expected.to_owned()));
    }
}
