//! Translates a request for a pod or node subresource into the path and query of the kubelet's API. Pure.

use apiserver::Status;
use apiserver::request::query_switch;
use axum::extract::Query;
use http::Uri;

use super::forward::ProxyRequest;

/// A pod subresource that the kubelet serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSubresource {
    /// The subresource `pods/log`.
    Log,
    /// The subresource `pods/exec`.
    Exec,
    /// The subresource `pods/attach`.
    Attach,
    /// The subresource `pods/portforward`.
    PortForward,
}

/// Boolean parameters of `PodExecOptions` and `PodAttachOptions`, and their names in the kubelet's API. The stock
/// kubelet accepts `1` as true and any other value as false.
const STREAM_SWITCHES: [(&str, &str); 4] =
    [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];
/// Boolean parameters of `PodLogOptions`.
const LOG_SWITCHES: [&str; 3] = ["follow", "previous", "timestamps"];
/// Other parameters of `PodLogOptions`.
const LOG_VALUES: [&str; 5] = ["sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream"];

impl PodSubresource {
    /// The first path segment in the kubelet's API.
    fn path(self) -> &'static str {
        match self {
            Self::Log => "containerLogs",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portForward",
        }
    }

    /// The kubelet's query parameters, as the stock API server sends them. Values keep the client's
    /// percent-encoding.
    fn parameters(self, query: &str) -> Vec<String> {
        let pairs = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let first = |wanted: &str| pairs().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let is_on = |name: &str| first(name).is_some_and(query_switch);
        let streams = || STREAM_SWITCHES.iter().filter(|(name, _)| is_on(name));
        let streams = || streams().map(|(_, kubelet_name)| format!("{kubelet_name}=1"));
        match self {
            Self::Log => {
                let switches = LOG_SWITCHES.iter().filter(|name| is_on(name));
                let values = LOG_VALUES.iter().filter_map(|name| Some((name, first(name)?)));
                let values = values.filter(|(_, value)| !value.is_empty());
                let values = values.map(|(name, value)| format!("{name}={value}"));
                switches.map(|name| format!("{name}=true")).chain(values).collect()
            }
            Self::Exec => {
                let words = pairs().filter(|(name, _)| *name == "command");
                streams().chain(words.map(|(_, word)| format!("command={word}"))).collect()
            }
            Self::Attach => streams().collect(),
            Self::PortForward => {
                let ports: Vec<&str> =
                    pairs().filter(|(name, _)| *name == "ports").map(|(_, ports)| ports).collect();
                if ports.is_empty() { Vec::new() } else { vec![format!("port={}", ports.join(","))] }
            }
        }
    }
}

/// Path and query of a pod subresource in the kubelet's API.
pub fn target(
    subresource: PodSubresource,
    namespace: &str,
    pod: &str,
    container: Option<&str>,
    query: &str,
) -> String {
    let mut target = format!("/{}/{namespace}/{pod}", subresource.path());
    if let Some(container) = container {
        target.push('/');
        target.push_str(container);
    }
    let parameters = subresource.parameters(query).join("&");
    if !parameters.is_empty() {
        target.push('?');
        target.push_str(&parameters);
    }
    target
}

/// The `container` query parameter.
pub fn container(query: &str) -> Option<String> {
    parameter(query, "container")
}

/// Whether the client set `insecureSkipTLSVerifyBackend`. It then accepts a log from a node whose serving
/// certificate cannot be verified.
pub fn is_insecure(query: &str) -> bool {
    parameter(query, "insecureSkipTLSVerifyBackend").is_some_and(|value| query_switch(&value))
}

/// The first query parameter with this name, as in the stock API server.
fn parameter(query: &str, wanted: &str) -> Option<String> {
    let uri = Uri::builder().path_and_query(format!("/?{query}")).build().ok()?;
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&uri).ok()?.0;
    pairs.into_iter().find(|(name, _)| name == wanted).map(|(_, value)| value)
}

/// The path below `/proxy` and the query. The path up to `/proxy` has `parts` segments.
///
/// # Errors
/// If a GET or HEAD request has no path. The error is the redirect target with a trailing slash, as in the stock
/// API server. Without a redirect, clients would resolve relative links wrongly.
pub fn below(uri: &Uri, parts: usize, is_read: bool) -> Result<ProxyRequest, String> {
    let path = uri.path();
    let end = path.match_indices('/').nth(parts).map_or(path.len(), |(at, _)| at);
    let (prefix, rest) = path.split_at(end);
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let proxied = |target| ProxyRequest { target, prefix: Some(prefix.to_owned()), tunnel: None };
    match rest {
        "" if is_read => Err(format!("{prefix}/{query}")),
        "" => Ok(proxied(format!("/{query}"))),
        rest => Ok(proxied(format!("{rest}{query}"))),
    }
}

/// Parses node name and port from `name`, `name:port` or `https:name:port`.
///
/// # Errors
/// 400 if the text has another form.
pub fn node_and_port(text: &str) -> Result<(&str, Option<u16>), Status> {
    let wrong = || Status::bad_request(format!("invalid node request {text:?}"));
    let parts: Vec<&str> = text.split(':').collect();
    let (name, port) = match parts[..] {
        [name] => (name, ""),
        [name, port] | ["https" | "", name, port] => (name, port),
        _ => return Err(wrong()),
    };
    let port = if port.is_empty() { None } else { Some(port.parse().map_err(|_| wrong())?) };
    if name.is_empty() { Err(wrong()) } else { Ok((name, port)) }
}

#[cfg(test)]
mod tests {
    //! Tests of kubelet paths and queries.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn proxy_sends_the_stock_query_parameters_to_the_kubelet() {
        for (subresource, container, query, expected) in [
            (PodSubresource::Log, Some("c"), "", "/containerLogs/shop/web/c"),
            (
                PodSubresource::Log,
                Some("c"),
                "container=c&follow=true&tailLines=3&insecureSkipTLSVerifyBackend=true&x=y&sinceTime=2026-01-01T00%3A00%3A00Z",
                "/containerLogs/shop/web/c?follow=true&sinceTime=2026-01-01T00%3A00%3A00Z&tailLines=3",
            ),
            (
                PodSubresource::Exec,
                Some("c"),
                "command=sh&command=-c&command=echo+a%26b&container=c&stdin=true&stdout=true&stderr=false&tty=true",
                "/exec/shop/web/c?input=1&output=1&tty=1&command=sh&command=-c&command=echo+a%26b",
            ),
            // Client libraries write booleans in several ways. The first of several values is used.
            (
                PodSubresource::Exec,
                Some("c"),
                "stdin=True&stdout&stderr=1&tty=0&tty=1&command=",
                "/exec/shop/web/c?input=1&output=1&error=1&command=",
            ),
            (
                PodSubresource::Attach,
                Some("c"),
                "command=sh&stdout=1&stdin=FALSE",
                "/attach/shop/web/c?output=1",
            ),
            (
                PodSubresource::Log,
                Some("c"),
                "follow=1&previous=0&tailLines=",
                "/containerLogs/shop/web/c?follow=true",
            ),
            (
                PodSubresource::PortForward,
                None,
                "ports=80&ports=81,82&x",
                "/portForward/shop/web?port=80,81,82",
            ),
            (PodSubresource::PortForward, None, "", "/portForward/shop/web"),
        ] {
            assert_eq!(target(subresource, "shop", "web", container, query), expected);
        }
    }

    #[test]
    fn query_parameters_are_percent_decoded() {
        assert_eq!(container("a=b&container=c%2Dd&container=e").as_deref(), Some("c-d"));
        assert_eq!((container(""), container("container%")), (None, None));
        assert!(is_insecure("insecureSkipTLSVerifyBackend=true"));
        assert!(!is_insecure("insecureSkipTLSVerifyBackend=false") && !is_insecure(""));
    }

    #[test]
    fn node_proxy_paths_are_translated_for_the_kubelet() {
        for (path, is_read, expected) in [
            ("/api/v1/nodes/n1/proxy", true, Err("/api/v1/nodes/n1/proxy/")),
            ("/api/v1/nodes/n1/proxy?x=%20y", true, Err("/api/v1/nodes/n1/proxy/?x=%20y")),
            ("/api/v1/nodes/n1/proxy?x", false, Ok(("/?x", "/api/v1/nodes/n1/proxy"))),
            ("/api/v1/nodes/n1/proxy/", true, Ok(("/", "/api/v1/nodes/n1/proxy"))),
            ("/api/v1/nodes/n1:10250/proxy/metrics", true, Ok(("/metrics", "/api/v1/nodes/n1:10250/proxy"))),
            (
                "/api/v1/nodes/https%3An1%3A1/proxy/a%2Fb/c//?x=%20y",
                true,
                Ok(("/a%2Fb/c//?x=%20y", "/api/v1/nodes/https%3An1%3A1/proxy")),
            ),
        ] {
            let found = below(&path.parse().unwrap(), 5, is_read);
            let found = found.as_ref().map(|proxied_request| {
                (proxied_request.target.as_str(), proxied_request.prefix.as_deref().unwrap())
            });
            assert_eq!(found.map_err(String::as_str), expected, "{path}");
        }
        for (text, expected) in [
            ("n1", Some(("n1", None))),
            ("n1:", Some(("n1", None))),
            ("n1:10250", Some(("n1", Some(10250)))),
            ("https:n1:10250", Some(("n1", Some(10250)))),
            ("https:n1:", Some(("n1", None))),
            ("http:n1:80", None),
            ("n1:x", None),
            ("", None),
            (":1", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(node_and_port(text).ok(), expected, "{text}");
        }
    }
}
