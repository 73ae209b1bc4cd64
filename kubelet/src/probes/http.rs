//! HTTP probe: succeeds if the response status is 200 to 399.

use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Uri};
use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction};
use reqwest::Url;
use tokio::net::TcpStream;

use super::address::{Address, io_text};
use super::check::Outcome;
use super::http1::{self, Answer};
use super::tls::{self, Protocol};

/// Maximum number of redirects, as in Go's client and the stock kubelet.
const REDIRECT_LIMIT: usize = 10;

/// A prepared GET request.
pub(super) struct Get {
    /// The URL, for messages.
    url: String,
    address: Address,
    request: PreparedRequest,
    headers: Headers,
}

/// The request, encoded for its protocol.
enum PreparedRequest {
    Http(Vec<u8>),
    Https(Vec<u8>),
    /// An HTTP/2 request in plain text.
    H2c(Box<Request<()>>),
}

/// Protocol of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    H2c,
}

impl Get {
    /// Prepares the request of an action in the manifest.
    ///
    /// # Errors
    /// If the action is invalid, for example because of an unknown port name or an invalid header.
    pub fn new(
        action: &HTTPGetAction,
        ports: &[ContainerPort],
        pod_ip: Option<IpAddr>,
        user_agent: &str,
    ) -> Result<Self, String> {
        let address = Address::new(action.host.as_deref(), pod_ip, &action.port, ports)?;
        let scheme = match (action.scheme.as_deref(), action.protocol.as_deref()) {
            (Some("HTTPS"), _) => Scheme::Https,
            (_, Some("HTTP2")) => Scheme::H2c,
            _ => Scheme::Http,
        };
        let path = target(action.path.as_deref().unwrap_or_default());
        Self::at(address, scheme, &path, Headers::of(action, user_agent)?)
    }

    fn at(address: Address, scheme: Scheme, path: &str, headers: Headers) -> Result<Self, String> {
        let name = if scheme == Scheme::Https { "https" } else { "http" };
        let url = format!("{name}://{address}{path}");
        let host = headers.host.clone().unwrap_or_else(|| address.to_string());
        let request = match scheme {
            Scheme::Http => PreparedRequest::Http(headers.request(&host, path)),
            Scheme::Https => PreparedRequest::Https(headers.request(&host, path)),
            Scheme::H2c => PreparedRequest::H2c(Box::new(headers.http2_request(&host, path)?)),
        };
        Ok(Self { url, address, request, headers })
    }

    /// Sends the request and follows redirects to the same host.
    ///
    /// # Errors
    /// If there is no response. The text is that of the stock kubelet.
    pub async fn run(&self, timeout: Duration) -> Result<Answer, String> {
        tokio::time::timeout(timeout, self.follow()).await.unwrap_or_else(|_| {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            Err(format!("Get {:?}: {why}", self.url))
        })
    }

    async fn follow(&self) -> Result<Answer, String> {
        let mut answer = self.send().await?;
        let Some(mut next) = self.redirected(&answer)? else { return Ok(answer) };
        for _ in 1..REDIRECT_LIMIT {
            answer = Box::pin(next.send()).await?;
            match next.redirected(&answer)? {
                Some(further) => next = further,
                None => return Ok(answer),
            }
        }
        Err(format!("Get {:?}: stopped after {REDIRECT_LIMIT} redirects", next.url))
    }

    async fn send(&self) -> Result<Answer, String> {
        let request = async {
            let stream = self.address.connect().await?;
            let stream = TcpStream::from_std(stream).map_err(|error| io_text(&error))?;
            match &self.request {
                PreparedRequest::Http(request) => http1::send(stream, request).await,
                // Rare and large: boxed to keep the future of every probe small.
                PreparedRequest::Https(request) => {
                    Box::pin(async {
                        let stream = tls::wrap(stream, &self.address, Protocol::Http1).await?;
                        http1::send(stream, request).await
                    })
                    .await
                }
                PreparedRequest::H2c(request) => Box::pin(send_http2(stream, request)).await,
            }
        };
        request.await.map_err(|error| format!("Get {:?}: {error}", self.url))
    }

    /// The request that follows a redirect, or `None` if there is none or it leads to another host.
    fn redirected(&self, answer: &Answer) -> Result<Option<Self>, String> {
        let redirects = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
        let Some(location) = answer.location.as_deref().filter(|_| redirects) else { return Ok(None) };
        let bad = |error: &dyn std::fmt::Display| {
            format!("Get {:?}: failed to parse Location header {location:?}: {error}", self.url)
        };
        let from = Url::parse(&self.url).map_err(|error| bad(&error))?;
        let to = from.join(location).map_err(|error| bad(&error))?;
        let (Some(host), Some(port)) = (to.host_str(), to.port_or_known_default()) else { return Ok(None) };
        if Some(host) != from.host_str() {
            return Ok(None);
        }
        let scheme = match (to.scheme(), &self.request) {
            ("https", _) => Scheme::Https,
            (_, PreparedRequest::H2c(_)) => Scheme::H2c,
            (_, PreparedRequest::Http(_) | PreparedRequest::Https(_)) => Scheme::Http,
        };
        let mut headers = self.headers.clone();
        // A host given by header is kept if the redirect is relative.
        if Url::parse(location).is_ok() {
            headers.host = None;
        }
        let path = to.query().map_or_else(|| to.path().to_owned(), |query| format!("{}?{query}", to.path()));
        Self::at(Address::of(host, port), scheme, &path, headers).map(Some)
    }
}

/// Converts a response to a probe outcome. A failure contains only the status, because the body may be confidential
/// and events are not.
pub(super) fn judge(answer: Result<Answer, String>) -> Outcome {
    match answer {
        Err(message) => Outcome::Failure(message),
        Ok(answer) => match answer.status {
            200..300 => Outcome::Success,
            300..400 => {
                let body = String::from_utf8_lossy(&answer.body);
                Outcome::Warning(format!("Probe terminated redirects, Response body: {body}"))
            }
            status => Outcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
        },
    }
}

async fn send_http2(stream: TcpStream, request: &Request<()>) -> Result<Answer, String> {
    let answer = super::http2::send(stream, request.clone(), None).await?;
    let location = answer.headers.get("location").and_then(|location| location.to_str().ok());
    Ok(Answer {
        status: answer.status.as_u16(),
        location: location.map(str::to_owned),
        body: answer.body.to_vec(),
    })
}

/// The headers of the request except connection headers: those of the manifest, and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Headers {
    /// Value of the `Host` header, instead of the address.
    host: Option<String>,
    rest: Vec<(String, String)>,
}

impl Headers {
    fn of(action: &HTTPGetAction, user_agent: &str) -> Result<Self, String> {
        let mut headers = Self { host: None, rest: Vec::new() };
        for header in action.http_headers.iter().flatten() {
            let (name, value) = (&header.name, &header.value);
            name.parse::<HeaderName>().map_err(|_| format!("{name:?} is not the name of an HTTP header"))?;
            HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
                format!("the value of the HTTP header {name:?} contains characters that HTTP does not allow")
            })?;
            if name.eq_ignore_ascii_case("host") {
                headers.host.get_or_insert_with(|| value.clone());
            } else if !name.eq_ignore_ascii_case("connection") {
                headers.rest.push((name.clone(), value.clone()));
            }
        }
        headers.host = headers.host.filter(|host| !host.is_empty());
        for (name, default) in [("User-Agent", user_agent), ("Accept", "*/*")] {
            let given = |(other, _): &(String, String)| other.eq_ignore_ascii_case(name);
            if !headers.rest.iter().any(given) {
                headers.rest.push((name.to_owned(), default.to_owned()));
            }
            // A default header that the manifest sets to an empty value is not sent.
            headers.rest.retain(|header| !given(header) || !header.1.is_empty());
        }
        Ok(headers)
    }

    fn request(&self, host: &str, path: &str) -> Vec<u8> {
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in &self.rest {
            request.extend([name, ": ", value, "\r\n"]);
        }
        request.push_str("Connection: close\r\n\r\n");
        request.into_bytes()
    }

    fn http2_request(&self, host: &str, path: &str) -> Result<Request<()>, String> {
        let bad = |error: &dyn std::fmt::Display| {
            format!("cannot build a request for http://{host}{path}: {error}")
        };
        let uri: Uri = format!("http://{host}{path}").parse().map_err(|error| bad(&error))?;
        let mut request = Request::builder().method(Method::GET).uri(uri);
        for (name, value) in &self.rest {
            request = request.header(name, value.as_bytes());
        }
        request.body(()).map_err(|error| bad(&error))
    }
}

/// Path and query in a form that is valid in a request line. They get a leading slash, lose the fragment, and have
/// other characters escaped.
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
