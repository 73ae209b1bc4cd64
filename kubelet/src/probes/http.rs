//! httpGet: it is healthy when it answers with a status from 200 to 399.

use std::net::IpAddr;
use std::time::Duration;

use http::header::{ACCEPT, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction};
use reqwest::Url;

use super::address::Address;
use super::check::Outcome;
use super::tls::{self, Inside};
use super::wire::{self, Answer};

/// Redirects followed before giving up; Go's limit and so the stock kubelet's.
const REDIRECT_LIMIT: usize = 10;

/// One GET, prepared.
pub(super) struct Get {
    /// As messages name it.
    url: String,
    address: Address,
    scheme: Scheme,
    target: Uri,
    headers: HeaderMap,
    custom_host: bool,
}

/// What is spoken to the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    /// HTTP/2 in plain text.
    H2c,
}

impl Get {
    /// Prepares what the manifest asks for.
    ///
    /// # Errors
    /// When it cannot be asked: an unknown port name, a header that HTTP does not allow.
    pub fn new(
        action: &HTTPGetAction,
        ports: &[ContainerPort],
        pod_ip: Option<IpAddr>,
        user_agent: &'static str,
    ) -> Result<Self, String> {
        let address = Address::new(action.host.as_deref(), pod_ip, &action.port, ports)?;
        let scheme = match (action.scheme.as_deref(), action.protocol.as_deref()) {
            (Some("HTTPS"), _) => Scheme::Https,
            (_, Some("HTTP2")) => Scheme::H2c,
            _ => Scheme::Http,
        };
        let path = target(action.path.as_deref().unwrap_or_default());
        let headers = headers(action, user_agent)?;
        let custom_host = headers.contains_key(HOST);
        Self::at(address, scheme, &path, headers, custom_host)
    }

    fn at(
        address: Address,
        scheme: Scheme,
        path: &str,
        mut headers: HeaderMap,
        custom_host: bool,
    ) -> Result<Self, String> {
        let name = if scheme == Scheme::Https { "https" } else { "http" };
        let url = format!("{name}://{address}{path}");
        let bad = |error: &dyn std::fmt::Display| format!("{url:?} cannot be asked for: {error}");
        if !custom_host {
            let host = HeaderValue::try_from(address.to_string()).map_err(|error| bad(&error))?;
            headers.insert(HOST, host);
        }
        let target = match headers.get(HOST).and_then(|host| host.to_str().ok()) {
            Some(host) if scheme == Scheme::H2c => format!("http://{host}{path}").parse::<Uri>(),
            _ => path.parse(),
        };
        let target = target.map_err(|error| bad(&error))?;
        Ok(Self { url, address, scheme, target, headers, custom_host })
    }

    /// Asks, following redirects to the same host.
    ///
    /// # Errors
    /// No answer, in the words of the stock kubelet.
    pub async fn run(&self, timeout: Duration) -> Result<Answer, String> {
        tokio::time::timeout(timeout, self.follow()).await.unwrap_or_else(|_| {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            Err(format!("Get {:?}: {why}", self.url))
        })
    }

    async fn follow(&self) -> Result<Answer, String> {
        let mut answer = self.ask().await?;
        let Some(mut next) = self.redirected(&answer)? else { return Ok(answer) };
        for _ in 1..REDIRECT_LIMIT {
            answer = Box::pin(next.ask()).await?;
            match next.redirected(&answer)? {
                Some(further) => next = further,
                None => return Ok(answer),
            }
        }
        Err(format!("Get {:?}: stopped after {REDIRECT_LIMIT} redirects", next.url))
    }

    async fn ask(&self) -> Result<Answer, String> {
        let asked = async {
            let stream = self.address.connect().await?;
            match self.scheme {
                Scheme::Http => wire::http1(stream, self.request(Empty::new())).await,
                Scheme::H2c => Box::pin(wire::http2(stream, self.request(()), None)).await,
                Scheme::Https => {
                    let secure = async {
                        let stream = tls::wrap(stream, &self.address, Inside::Http1).await?;
                        wire::http1(stream, self.request(Empty::new())).await
                    };
                    Box::pin(secure).await
                }
            }
        };
        asked.await.map_err(|error| format!("Get {:?}: {error}", self.url))
    }

    fn request<B>(&self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::GET;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        if self.scheme == Scheme::H2c {
            // HTTP/2 has no such header, and :authority stands for the other.
            request.headers_mut().remove(CONNECTION);
            request.headers_mut().remove(HOST);
        }
        request
    }

    /// The GET that follows a redirect; `None` when there is none or it leaves this host.
    fn redirected(&self, answer: &Answer) -> Result<Option<Self>, String> {
        let redirects = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(location) = answer.location().filter(|_| redirects) else { return Ok(None) };
        let bad = |error: &dyn std::fmt::Display| {
            format!("Get {:?}: failed to parse Location header {location:?}: {error}", self.url)
        };
        let from = Url::parse(&self.url).map_err(|error| bad(&error))?;
        let to = from.join(location).map_err(|error| bad(&error))?;
        let (Some(host), Some(port)) = (to.host_str(), to.port_or_known_default()) else { return Ok(None) };
        if Some(host) != from.host_str() {
            return Ok(None);
        }
        let scheme = match to.scheme() {
            "https" => Scheme::Https,
            "http" if self.scheme == Scheme::H2c => Scheme::H2c,
            _ => Scheme::Http,
        };
        // A host that was asked for by header stays through a redirect that names none.
        let custom_host = self.custom_host && Url::parse(location).is_err();
        let mut headers = self.headers.clone();
        if !custom_host {
            headers.remove(HOST);
        }
        let path = to.query().map_or_else(|| to.path().to_owned(), |query| format!("{}?{query}", to.path()));
        Self::at(Address::of(host, port), scheme, &path, headers, custom_host).map(Some)
    }
}

/// Whether the answer is a healthy one.
pub(super) fn judge(answer: Result<Answer, String>) -> Outcome {
    match answer {
        Err(said) => Outcome::Failure(said),
        Ok(answer) if answer.status.is_success() => Outcome::Success,
        Ok(answer) if answer.status.is_redirection() => Outcome::Warning(format!(
            "Probe terminated redirects, Response body: {}",
            String::from_utf8_lossy(&answer.body)
        )),
        Ok(Answer { status, .. }) => Outcome::Failure(refusal(status)),
    }
}

/// A refusal by status alone: bodies may hold what must not get into events.
fn refusal(status: StatusCode) -> String {
    format!("HTTP probe failed with statuscode: {}", status.as_u16())
}

/// The request's headers: those of the manifest, and what it leaves open.
fn headers(action: &HTTPGetAction, user_agent: &'static str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for header in action.http_headers.iter().flatten() {
        let name: HeaderName = header
            .name
            .parse()
            .map_err(|_| format!("{:?} is not the name of an HTTP header", header.name))?;
        let value = header.value.parse().map_err(|_| {
            format!(
                "the value of the HTTP header {:?} holds characters that HTTP does not allow",
                header.name
            )
        })?;
        headers.append(name, value);
    }
    for (name, default) in [(USER_AGENT, user_agent), (ACCEPT, "*/*")] {
        match headers.get(&name) {
            None => drop(headers.insert(name, HeaderValue::from_static(default))),
            Some(value) if value.is_empty() => drop(headers.remove(name)),
            Some(_) => {}
        }
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(headers)
}

/// Path and query as a request line may hold them: begun with a slash, without fragment, all else escaped.
fn target(path: &str) -> String {
    let path = path.split_once('#').map_or(path, |(before, _)| before);
    let mut target = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        target.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte) {
            target.push(char::from(byte));
        } else {
            target.push_str(&format!("%{byte:02X}"));
        }
    }
    target
}
