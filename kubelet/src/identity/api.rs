//! Requests to a cluster's API: whichever of its servers answers, within bounds of time and size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Method, RequestBuilder, Response, redirect};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::access::{Known, Shows};
use super::certificate;
use super::tls::{self, Trust};
use super::trouble::Trouble;
use super::watching::Watching;

/// How long a connection may take to come about; a server that is away costs that much before the next is asked.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(15);
/// How long a watch is held before everything is looked at again.
const WATCH: Duration = Duration::from_secs(30);
/// Largest answer that is one object and has no pod in it: a request with its certificate, or a bootstrap document, is a few KiB.
const LARGEST_BYTES: usize = 1 << 20;
/// Largest piece of a list, or what has been written: a hundred Nodes, or pods, of a hundred KiB each.
const LARGEST_LIST_BYTES: usize = 16 << 20;
/// A connection that is asked whether anybody is there, and after how long without an answer it is given up: a server whose machine
/// has lost its power says nothing.
const ASK_ALIVE: Duration = Duration::from_secs(30);
const ALIVE: Duration = Duration::from_secs(15);

/// A client of one cluster.
#[derive(Debug)]
pub struct Api {
    client: Client,
    servers: Vec<String>,
    shows: Shows,
    /// The server that answered last.
    first: AtomicUsize,
}

impl Api {
    /// A client of a known cluster.
    ///
    /// # Errors
    /// When its authorities or what is to be shown cannot be used.
    pub fn new(known: &Known) -> Result<Self, Trouble> {
        let authorities = certificate::certificates(&known.authority)
            .map_err(|why| Trouble::damaged("the certificate-authority of the kubeconfig", why))?;
        Self::of(known.servers.clone(), &Trust::Authorities(authorities), known.shows.clone())
    }

    /// A client of these servers that believes that.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(servers: Vec<String>, trust: &Trust, shows: Shows) -> Result<Self, Trouble> {
        let shown = match &shows {
            Shows::Certificate(own) => Some(own.certified.clone()),
            Shows::Nothing | Shows::Token(_) => None,
        };
        let unusable = |why: String| Trouble::damaged("TLS", format!("cannot be spoken: {why}"));
        let config = tls::config(trust, shown).map_err(|error| unusable(error.to_string()))?;
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(ASK_ALIVE)
            .http2_keep_alive_timeout(ALIVE)
            .tcp_keepalive(ASK_ALIVE)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("kubelet/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(config)
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self { client, servers, shows, first: AtomicUsize::new(0) })
    }

    /// The server that answered last.
    pub fn server(&self) -> &str {
        self.servers.get(self.first.load(Ordering::Relaxed)).map_or("nobody", String::as_str)
    }

    /// Gets something.
    ///
    /// # Errors
    /// When nobody answers, or not with it.
    pub async fn get(&self, path: &str) -> Result<Value, Trouble> {
        read(self.send(Method::GET, path, None, Some(ANSWER)).await?).await
    }

    /// Gets a list or a piece of one, of which only what that type has is kept.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        read_as(self.send(Method::GET, path, None, Some(ANSWER)).await?, LARGEST_LIST_BYTES).await
    }

    /// Changes something by a strategic merge.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value, Trouble> {
        read_as(self.send(Method::PATCH, path, Some(patch), Some(ANSWER)).await?, LARGEST_LIST_BYTES).await
    }

    /// Removes something, as its `DeleteOptions` say.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn delete(&self, path: &str, options: &Value) -> Result<(), Trouble> {
        let answer = self.send(Method::DELETE, path, Some(options), Some(ANSWER)).await?;
        read_as::<IgnoredAny>(answer, LARGEST_LIST_BYTES).await.map(drop)
    }

    /// Hears of every change from now on, until the server ends it; the path says of what and since when.
    ///
    /// # Errors
    /// When it may not be watched, or nobody answers.
    pub async fn watch(&self, path: &str) -> Result<Watching, Trouble> {
        // It goes on for as long as there is something to hear; whether somebody answers at all is known soon.
        let answer = tokio::time::timeout(ANSWER, self.send(Method::GET, path, None, None)).await;
        let Answer { response, server } = answer.map_err(|_| self.silent())??;
        Ok(Watching::new(response, server))
    }

    /// Makes something.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value, Trouble> {
        read(self.send(Method::POST, path, Some(object), Some(ANSWER)).await?).await
    }

    /// Makes something that may be as large as a pod.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn create(&self, path: &str, object: &Value) -> Result<(), Trouble> {
        let answer = self.send(Method::POST, path, Some(object), Some(ANSWER)).await?;
        read_as::<IgnoredAny>(answer, LARGEST_LIST_BYTES).await.map(drop)
    }

    /// Waits until something happens to that object after that version; false when nothing did for a while.
    ///
    /// # Errors
    /// When it may not be watched, or nobody answers.
    pub async fn happens(&self, path: &str, name: &str, version: &str) -> Result<bool, Trouble> {
        let seconds = WATCH.as_secs();
        let path = format!(
            "{path}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}&timeoutSeconds={seconds}"
        );
        let Answer { mut response, server, .. } =
            self.send(Method::GET, &path, None, Some(WATCH + ANSWER)).await?;
        let piece = response.chunk().await.map_err(|error| Trouble::of(&server, error, Timestamp::now()))?;
        // A version that is too old is told as an event, which is no news of the request. It begins with its type.
        let is_news = |piece: &[u8]| !piece.is_empty() && !piece.starts_with(br#"{"type":"ERROR""#);
        Ok(piece.is_some_and(|piece| is_news(&piece)))
    }

    /// Sends to the servers in turn, beginning with the one that answered last, until one answers.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Option<Duration>,
    ) -> Result<Answer, Trouble> {
        let first = self.first.load(Ordering::Relaxed);
        let mut trouble = Trouble::damaged("the kubeconfig", "names no server");
        for index in (0..self.servers.len()).map(|turn| (first + turn) % self.servers.len()) {
            let Some(server) = self.servers.get(index) else { continue };
            let request = self.client.request(method.clone(), format!("{server}{path}"));
            let request = within.into_iter().fold(request, RequestBuilder::timeout);
            match self.dressed(request, &method, body).send().await {
                Ok(response) => {
                    self.first.store(index, Ordering::Relaxed);
                    return accepted(response, server, &self.shows).await;
                }
                Err(error) => {
                    let found = Trouble::of(server, error, Timestamp::now());
                    // Somebody who is not who he should be says more than somebody who is away.
                    if index == first || !matches!(found, Trouble::Unreachable { .. }) {
                        trouble = found;
                    }
                }
            }
        }
        Err(trouble)
    }

    fn silent(&self) -> Trouble {
        let why = format!("nothing comes within {} s", ANSWER.as_secs());
        Trouble::Unreachable { server: self.server().to_owned(), why }
    }

    fn dressed(&self, request: RequestBuilder, method: &Method, body: Option<&Value>) -> RequestBuilder {
        let request = request.header("accept", "application/json");
        let request = match &self.shows {
            Shows::Token(token) => request.bearer_auth(token),
            Shows::Nothing | Shows::Certificate(_) => request,
        };
        let kind = match method {
            &Method::PATCH => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        match body {
            Some(body) => request.header("content-type", kind).body(body.to_string()),
            None => request,
        }
    }
}

/// An answer that is not a refusal.
struct Answer {
    response: Response,
    server: Arc<str>,
}

async fn accepted(response: Response, server: &str, shows: &Shows) -> Result<Answer, Trouble> {
    let status = response.status();
    let answer = Answer { response, server: server.into() };
    if status.is_success() {
        return Ok(answer);
    }
    let code = status.as_u16();
    let retry_after = answer.response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|text| text.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    let said = read(answer).await.ok();
    let message = said.as_ref().and_then(|status| status["message"].as_str());
    let message = message.or(status.canonical_reason()).unwrap_or("no reason is given").to_owned();
    Err(Trouble::Refused {
        server: server.to_owned(),
        code,
        remedy: shows.remedy(code, &message),
        message,
        retry_after,
    })
}

/// The whole of an answer.
async fn read(answer: Answer) -> Result<Value, Trouble> {
    read_as(answer, LARGEST_BYTES).await
}

async fn read_as<T: DeserializeOwned>(answer: Answer, largest_bytes: usize) -> Result<T, Trouble> {
    let Answer { mut response, server } = answer;
    let mut body = Vec::new();
    while let Some(piece) =
        response.chunk().await.map_err(|error| Trouble::of(&server, error, Timestamp::now()))?
    {
        if body.len() + piece.len() > largest_bytes {
            let why = format!("is longer than {largest_bytes} bytes: that is no API server");
            return Err(Trouble::damaged(format!("the answer of {server}"), why));
        }
        body.extend_from_slice(&piece);
    }
    serde_json::from_slice(&body)
        .map_err(|error| Trouble::damaged(format!("the answer of {server}"), format!("is no JSON: {error}")))
}
