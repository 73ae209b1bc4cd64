//! `/livez`, `/readyz` and `/healthz`: named checks, told as a stock server tells them.

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

/// How long a look may take: whoever asks for health waits for seconds, not for more.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// What a look finds: nothing, or what is wrong.
type Look = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// One thing that must hold: its name, and what is wrong when it does not.
struct Check {
    name: &'static str,
    look: Box<dyn Fn() -> Look + Send + Sync>,
}

impl Check {
    fn at_once(name: &'static str, look: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, look: Box::new(move || Box::pin(std::future::ready(look()))) }
    }

    async fn look(&self) -> Result<(), String> {
        let looked = tokio::time::timeout(LOOK_TIMEOUT, (self.look)()).await;
        looked.unwrap_or_else(|_| Err(format!("no answer within {} s", LOOK_TIMEOUT.as_secs())))
    }
}

/// What must hold for a server to live, and to be ready besides.
#[derive(Default)]
pub struct Checks {
    live: Vec<Check>,
    ready: Vec<Check>,
}

impl std::fmt::Debug for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |checks: &[Check]| checks.iter().map(|check| check.name).collect::<Vec<_>>();
        f.debug_struct("Checks")
            .field("live", &names(&self.live))
            .field("ready", &names(&self.ready))
            .finish()
    }
}

impl Checks {
    /// The one that holds whenever anybody is there to answer.
    pub fn new() -> Self {
        Self::default().live("ping", || Ok(()))
    }

    /// One more without which a restart is due.
    pub fn live(
        mut self,
        name: &'static str,
        look: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.live.push(Check::at_once(name, look));
        self
    }

    /// One more without which no requests should come.
    pub fn ready(
        mut self,
        name: &'static str,
        look: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.ready.push(Check::at_once(name, look));
        self
    }

    /// The same, of something that takes a while to look at.
    pub fn ready_when<F>(mut self, name: &'static str, look: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.ready.push(Check { name, look: Box::new(move || Box::pin(look())) });
        self
    }

    fn of(&self, endpoint: Endpoint) -> impl Iterator<Item = &Check> {
        let ready = match endpoint {
            Endpoint::Livez | Endpoint::Healthz => [].as_slice(),
            Endpoint::Readyz => &self.ready,
        };
        self.live.iter().chain(ready)
    }
}

#[derive(Clone, Copy, Debug)]
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

/// The three endpoints, each with its checks below it.
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
                    &format!("/{name}/{{check}}"),
                    get(async move |Path(check): Path<String>| answer_one(&one, endpoint, &check).await),
                )
        },
    )
}

async fn answer(checks: &Checks, endpoint: Endpoint, query: &[(String, String)]) -> Response {
    let is_excluded =
        |check: &Check| query.iter().any(|(name, value)| name == "exclude" && value == check.name);
    let name = endpoint.name();
    let (mut lines, mut failed) = (String::new(), false);
    for check in checks.of(endpoint) {
        if is_excluded(check) {
            let _ = writeln!(lines, "[+]{} excluded: ok", check.name);
            continue;
        }
        match check.look().await {
            Ok(()) => drop(writeln!(lines, "[+]{} ok", check.name)),
            Err(reason) => {
                failed = true;
                // Anybody may ask, so the reason is for the log.
                tracing::warn!(check = check.name, reason, "{name} check failed");
                let _ = writeln!(lines, "[-]{} failed: reason withheld", check.name);
            }
        }
    }
    if failed {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{name} check failed\n"));
    }
    let is_verbose = query.iter().any(|(name, _)| name == "verbose");
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
mod tests;
