//! HTTP client for manifest URLs: conditional GET requests with limits on time and size.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use api::decode::MAX_MANIFEST_BYTES;
use api::problem::Problem;
use client::transport;
use reqwest::header::{
    ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use reqwest::{Response, StatusCode, Url, redirect};

use super::trouble;

/// Timeout of a request, as in the stock kubelet.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of redirects.
const REDIRECT_LIMIT: usize = 10;

/// Header names and values.
pub type Headers = Vec<(String, String)>;

/// The response to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The content has not changed since the last response.
    Unchanged,
    /// New content.
    New(Vec<u8>),
}

/// An HTTP client for one URL, with the validators of the last response.
pub(super) struct Client {
    client: reqwest::Client,
    url: Url,
    last: HeaderMap,
}

impl Client {
    /// Creates a client.
    ///
    /// # Errors
    /// If the URL or a header is invalid.
    pub fn new(url: &str, headers: &Headers) -> Result<Self, Box<Problem>> {
        let remedy = "write http:// or https://, a host and a path";
        let parsed =
            Url::parse(url).map_err(|error| trouble(format!("this is not a URL: {error}"), remedy))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(trouble(format!("the scheme {:?} is not supported", parsed.scheme()), remedy));
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let header = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value.as_bytes()));
            let (Ok(name), Ok(mut value)) = header else {
                let what = format!("{name:?} cannot be sent as an HTTP header");
                return Err(trouble(what, "correct --manifest-url-header, `Name: value`"));
            };
            // The value may be a token.
            value.set_sensitive(true);
            map.append(name, value);
        }
        let client = transport::builder(tls()?)
            .default_headers(map)
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::limited(REDIRECT_LIMIT))
            // Requests are 20 s apart by default, too long to keep a connection open.
            .pool_max_idle_per_host(0)
            .user_agent(concat!("kubelet/", env!("CARGO_PKG_VERSION")));
        let client = client.build().map_err(|error| {
            trouble(format!("cannot make an HTTP client: {}", causes(&error)), "look at the kubelet's log")
        })?;
        Ok(Self { client, url: parsed, last: HeaderMap::new() })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the response is neither 304, nor 200 with a body.
    pub async fn fetch(&mut self) -> Result<Answer, Box<Problem>> {
        let answer = self.fetch_once().await;
        if answer.is_err() {
            // After an error, request the full content.
            self.last.clear();
        }
        answer
    }

    async fn fetch_once(&mut self) -> Result<Answer, Box<Problem>> {
        let check_server = "check the server; the last good content stays in use";
        let request = self.client.get(self.url.clone()).headers(self.last.clone());
        let failed = |error: reqwest::Error| {
            let what = if error.is_timeout() {
                format!("no complete response within {} s", TIMEOUT.as_secs())
            } else {
                format!("it cannot be read: {}", causes(&error.without_url()))
            };
            trouble(what, check_server)
        };
        let mut response = request.send().await.map_err(failed)?;
        match response.status() {
            StatusCode::NOT_MODIFIED if !self.last.is_empty() => return Ok(Answer::Unchanged),
            StatusCode::OK => {}
            status => {
                return Err(trouble(format!("the server answered {status}, not 200 OK"), check_server));
            }
        }
        let too_long = || {
            let what = format!("the answer is longer than {MAX_MANIFEST_BYTES} bytes");
            trouble(what, "serve less, or split it")
        };
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_MANIFEST_BYTES {
                return Err(too_long());
            }
            body.extend_from_slice(&chunk);
        }
        if body.is_empty() {
            let remedy = "serve a manifest; to end all pods serve an empty List";
            return Err(trouble("the answer is empty".to_owned(), remedy));
        }
        self.last = validators(&response);
        Ok(Answer::New(body))
    }
}

/// The headers that make the next request conditional.
fn validators(response: &Response) -> HeaderMap {
    let mut validators = HeaderMap::new();
    for (given, sent) in [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)] {
        if let Some(value) = response.headers().get(given) {
            validators.insert(sent, value.clone());
        }
    }
    validators
}

/// TLS configuration with the CAs of the system. In images without any, it uses the Mozilla CAs.
fn tls() -> Result<rustls::ClientConfig, Box<Problem>> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .map_err(|error| trouble(format!("TLS is not available: {error}"), "look at the kubelet's log"))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The URL with its password masked.
pub(super) fn without_password(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut parsed) if parsed.password().is_some() => {
            // Fails only for URLs without a host, which have no password.
            let _ = parsed.set_password(Some("..."));
            parsed.into()
        }
        _ => url.to_owned(),
    }
}

/// Formats an error with all its distinct causes.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
