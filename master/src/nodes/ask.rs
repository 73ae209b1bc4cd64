//! What a request for a part of a pod asks of the pod's node: a path and a query of the kubelet's. Pure.

use apiserver::Status;
use axum::extract::Query;
use http::Uri;

use super::pass::Errand;

/// A part of a pod that its node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What a container wrote.
    Log,
    /// A command.
    Exec,
    /// A container's own streams.
    Attach,
    /// Its ports.
    PortForward,
}

impl Part {
    /// How the kubelet calls it.
    fn path(self) -> &'static str {
        match self {
            Self::Log => "containerLogs",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portForward",
        }
    }

    /// The parameters that are passed on, by their names here and there.
    fn parameters(self) -> &'static [(&'static str, &'static str)] {
        const STREAMS: [(&str, &str); 5] = [
            ("stdin", "input"),
            ("stdout", "output"),
            ("stderr", "error"),
            ("tty", "tty"),
            ("command", "command"),
        ];
        match self {
            Self::Log => &[
                ("follow", "follow"),
                ("previous", "previous"),
                ("timestamps", "timestamps"),
                ("sinceSeconds", "sinceSeconds"),
                ("sinceTime", "sinceTime"),
                ("tailLines", "tailLines"),
                ("limitBytes", "limitBytes"),
                ("stream", "stream"),
            ],
            Self::Exec => &STREAMS,
            Self::Attach => STREAMS.split_at(4).0,
            Self::PortForward => &[("ports", "port")],
        }
    }
}

/// Where a kubelet answers what is asked, with what of the query is for it, to the letter.
pub fn target(part: Part, namespace: &str, pod: &str, container: Option<&str>, query: &str) -> String {
    let mut target = format!("/{}/{namespace}/{pod}", part.path());
    if let Some(container) = container {
        target.push('/');
        target.push_str(container);
    }
    let mut separator = '?';
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let Some((_, theirs)) = part.parameters().iter().find(|(ours, _)| *ours == name) {
            target.push(separator);
            target.push_str(theirs);
            target.push('=');
            target.push_str(value);
            separator = '&';
        }
    }
    target
}

/// The container that a query names.
pub fn container(query: &str) -> Option<String> {
    parameter(query, "container")
}

/// Whether whoever asks for a log takes it from anybody, whatever certificate he shows.
pub fn is_insecure(query: &str) -> bool {
    parameter(query, "insecureSkipTLSVerifyBackend").is_some_and(|value| value == "true" || value == "1")
}

/// A parameter of a query; of several of one name the first, as the stock server takes it.
fn parameter(query: &str, wanted: &str) -> Option<String> {
    let uri = Uri::builder().path_and_query(format!("/?{query}")).build().ok()?;
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&uri).ok()?.0;
    pairs.into_iter().find(|(name, _)| name == wanted).map(|(_, value)| value)
}

/// What is asked below a path that ends with `/proxy`, which has so many parts.
///
/// # Errors
/// Where a client is sent that asks for no path at all, as the stock server does: what is relative would lead astray.
pub fn below(uri: &Uri, parts: usize, is_read: bool) -> Result<Errand, String> {
    let path = uri.path();
    let end = path.match_indices('/').nth(parts).map_or(path.len(), |(at, _)| at);
    let (prefix, rest) = path.split_at(end);
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    match rest {
        "" if is_read => Err(format!("{prefix}/{query}")),
        "" => Ok(Errand { target: format!("/{query}"), prefix: Some(prefix.to_owned()) }),
        rest => Ok(Errand { target: format!("{rest}{query}"), prefix: Some(prefix.to_owned()) }),
    }
}

/// The node in `name`, `name:port` or `https:name:port`, and the port.
///
/// # Errors
/// 400 when it is none of them.
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
    //! Requests of clients, and what a kubelet is asked for them.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_a_kubelet_is_asked() {
        for (part, container, query, expected) in [
            (Part::Log, Some("c"), "", "/containerLogs/shop/web/c"),
            (
                Part::Log,
                Some("c"),
                "container=c&follow=true&tailLines=3&insecureSkipTLSVerifyBackend=true&x=y&sinceTime=2026-01-01T00%3A00%3A00Z",
                "/containerLogs/shop/web/c?follow=true&tailLines=3&sinceTime=2026-01-01T00%3A00%3A00Z",
            ),
            (
                Part::Exec,
                Some("c"),
                "command=sh&command=-c&command=echo+a%26b&container=c&stdin=true&stdout=true&stderr=false&tty=true",
                "/exec/shop/web/c?command=sh&command=-c&command=echo+a%26b&input=true&output=true&error=false&tty=true",
            ),
            (Part::Attach, Some("c"), "command=sh&stdout=1", "/attach/shop/web/c?output=1"),
            (Part::PortForward, None, "ports=80&ports=81,82&x", "/portForward/shop/web?port=80&port=81,82"),
        ] {
            assert_eq!(target(part, "shop", "web", container, query), expected);
        }
    }

    #[test]
    fn parameters_are_read_as_clients_mean_them() {
        assert_eq!(container("a=b&container=c%2Dd&container=e").as_deref(), Some("c-d"));
        assert_eq!((container(""), container("container%")), (None, None));
        assert!(is_insecure("insecureSkipTLSVerifyBackend=true"));
        assert!(!is_insecure("insecureSkipTLSVerifyBackend=false") && !is_insecure(""));
    }

    #[test]
    fn what_is_asked_of_a_node_itself() {
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
            let found =
                found.as_ref().map(|errand| (errand.target.as_str(), errand.prefix.as_deref().unwrap()));
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
