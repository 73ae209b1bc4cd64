//! httpGet: it is healthy when it answers with a status from 200 to 399.

use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Uri};
use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction};
use reqwest::Url;
use tokio::net::TcpStream;

use super::address::{Address, io_text};
use super::check::Outcome;
use super::http1::{self, Answer};
use super::tls::{self, Inside};

/// Redirects followed before giving up; Go's limit and so the stock kubelet's.
const REDIRECT_LIMIT: usize = 10;

/// One GET, prepared.
pub(super) struct Get {
    /// As messages name it.
    url: String,
    address: Address,
    asked: Asked,
    headers: Headers,
}

/// The request in the form its protocol wants it.
enum Asked {
    Http(Vec<u8>),
    Https(Vec<u8>),
    /// HTTP/2 in plain text.
    H2c(Box<Request<()>>),
}

/// What is spoken to the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
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
        let asked = match scheme {
            Scheme::Http => Asked::Http(headers.request(&host, path)),
            Scheme::Https => Asked::Https(headers.request(&host, path)),
            Scheme::H2c => Asked::H2c(Box::new(headers.http2_request(&host, path)?)),
        };
        Ok(Self { url, address, asked, headers })
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
            let stream = TcpStream::from_std(stream).map_err(|error| io_text(&error))?;
            match &self.asked {
                Asked::Http(request) => http1::ask(stream, request).await,
                // Rare and large: kept out of the size of every probe.
                Asked::Https(request) => {
                    Box::pin(async {
                        let stream = tls::wrap(stream, &self.address, Inside::Http1).await?;
                        http1::ask(stream, request).await
                    })
                    .await
                }
                Asked::H2c(request) => Box::pin(ask_http2(stream, request)).await,
            }
        };
        asked.await.map_err(|error| format!("Get {:?}: {error}", self.url))
    }

    /// The GET that follows a redirect; `None` when there is none or it leaves this host.
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
        let scheme = match (to.scheme(), &self.asked) {
            ("https", _) => Scheme::Https,
            (_, Asked::H2c(_)) => Scheme::H2c,
            (_, Asked::Http(_) | Asked::Https(_)) => Scheme::Http,
        };
        let mut headers = self.headers.clone();
        // A host that was asked for by header stays through a redirect that names none.
        if Url::parse(location).is_ok() {
            headers.host = None;
        }
        let path = to.query().map_or_else(|| to.path().to_owned(), |query| format!("{}?{query}", to.path()));
        Self::at(Address::of(host, port), scheme, &path, headers).map(Some)
    }
}

/// Whether the answer is a healthy one. A refusal tells the status alone: bodies may hold what must not get into
/// events.
pub(super) fn judge(answer: Result<Answer, String>) -> Outcome {
    match answer {
        Err(said) => Outcome::Failure(said),
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

async fn ask_http2(stream: TcpStream, request: &Request<()>) -> Result<Answer, String> {
    let answer = super::http2::ask(stream, request.clone(), None).await?;
    let location = answer.headers.get("location").and_then(|location| location.to_str().ok());
    Ok(Answer {
        status: answer.status.as_u16(),
        location: location.map(str::to_owned),
        body: answer.body.to_vec(),
    })
}

/// A request's headers but for those of the connection: those of the manifest, and what it leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Headers {
    /// Asked for instead of the address.
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
                format!("the value of the HTTP header {name:?} holds characters that HTTP does not allow")
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
            // Given but empty, it is not sent at all.
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
        let bad = |error: &dyn std::fmt::Display| format!("http://{host}{path} cannot be asked for: {error}");
        let uri: Uri = format!("http://{host}{path}").parse().map_err(|error| bad(&error))?;
        let mut request = Request::builder().method(Method::GET).uri(uri);
        for (name, value) in &self.rest {
            request = request.header(name, value.as_bytes());
        }
        request.body(()).map_err(|error| bad(&error))
    }
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
