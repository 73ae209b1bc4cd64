//! Selects the HTTP headers that the proxy forwards between a client and the backend, in both directions. Pure.
//!
//! A backend must not get the credentials that the client sends to the master. It must not use the trust that a
//! browser has in the master's origin either.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The kind of backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A kubelet. It does not use cookies.
    Node,
    /// A pod or service. It may have sessions, so its cookies are forwarded, as in the stock API server.
    Workload,
}

/// Hop-by-hop headers. The headers that `Connection` names are hop-by-hop too.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
const MASTER_ONLY: [HeaderName; 4] = [header::HOST, header::AUTHORIZATION, header::EXPECT, header::FORWARDED];
/// Prefixes of headers that assert an identity or origin. Clients could forge them.
const IDENTITY_PREFIXES: [&str; 3] = ["impersonate-", "x-remote-", "x-forwarded-"];
/// Prefix of a WebSocket subprotocol that contains a bearer token. Browsers cannot send the token in another way.
const BEARER: &str = "base64url.bearer.authorization.k8s.io.";
/// Response headers that would affect the whole origin of the master in a browser.
const ORIGIN_HEADERS: [HeaderName; 11] = [
    header::STRICT_TRANSPORT_SECURITY,
    header::PUBLIC_KEY_PINS,
    header::PUBLIC_KEY_PINS_REPORT_ONLY,
    header::ALT_SVC,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("reporting-endpoints"),
    HeaderName::from_static("accept-ch"),
    HeaderName::from_static("critical-ch"),
];
/// Prefix of CORS headers. The master sets them itself, and allows no other origin.
const CORS_PREFIX: &str = "access-control-";
/// A `Content-Security-Policy` with which a browser isolates the page and runs no scripts.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const UPGRADE: HeaderValue = HeaderValue::from_static("Upgrade");

/// The client's headers that are sent to the backend. The caller sets `Host`.
pub fn request_headers(side: Side, headers: &HeaderMap) -> HeaderMap {
    let upgrade = upgrade(headers);
    let mut sent = end_to_end(headers);
    MASTER_ONLY.iter().for_each(|name| drop(sent.remove(name)));
    if side == Side::Node {
        sent.remove(header::COOKIE);
    }
    let claims: Vec<_> = sent.keys().filter(|name| begins(name, &IDENTITY_PREFIXES)).cloned().collect();
    claims.iter().for_each(|name| drop(sent.remove(name)));
    strip_bearer_protocol(&mut sent);
    if let Some(protocol) = upgrade {
        // A request body before an upgrade would have no end.
        sent.remove(header::CONTENT_LENGTH);
        sent.insert(header::CONNECTION, UPGRADE);
        sent.insert(header::UPGRADE, protocol.clone());
    }
    sent
}

/// The backend's headers that are sent to the client. `switched` is true if the response switches protocols.
pub fn response_headers(side: Side, headers: &HeaderMap, switched: bool) -> HeaderMap {
    let upgrade = upgrade(headers).filter(|_| switched);
    let mut got = end_to_end(headers);
    ORIGIN_HEADERS.iter().for_each(|name| drop(got.remove(name)));
    let sharing: Vec<_> = got.keys().filter(|name| begins(name, &[CORS_PREFIX])).cloned().collect();
    sharing.iter().for_each(|name| drop(got.remove(name)));
    if side == Side::Node {
        [header::SET_COOKIE, header::WWW_AUTHENTICATE].iter().for_each(|name| drop(got.remove(name)));
        got.append(header::CONTENT_SECURITY_POLICY, SANDBOX);
        got.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    }
    if let Some(protocol) = upgrade {
        got.insert(header::CONNECTION, UPGRADE);
        got.insert(header::UPGRADE, protocol.clone());
    }
    got
}

/// The protocol of a requested upgrade.
pub fn upgrade(headers: &HeaderMap) -> Option<&HeaderValue> {
    words(headers).any(|word| word.eq_ignore_ascii_case("upgrade")).then(|| headers.get(header::UPGRADE))?
}

/// Returns all headers except hop-by-hop headers.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut end_to_end = headers.clone();
    words(headers).for_each(|word| drop(end_to_end.remove(word)));
    HOP_BY_HOP.iter().for_each(|name| drop(end_to_end.remove(name)));
    end_to_end
}

/// The elements of the `Connection` header.
fn words(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

fn begins(name: &HeaderName, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| name.as_str().starts_with(beginning))
}

/// Removes bearer tokens from the offered WebSocket subprotocols.
fn strip_bearer_protocol(headers: &mut HeaderMap) {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    if !offered.iter().any(|value| String::from_utf8_lossy(value.as_bytes()).contains(BEARER)) {
        return;
    }
    let offered: Vec<String> = offered
        .iter()
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .map(|protocol| protocol.trim().to_owned())
        .filter(|protocol| !protocol.is_empty() && !protocol.starts_with(BEARER))
        .collect();
    headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
    let left = HeaderValue::try_from(offered.join(", ")).ok();
    if let Some(left) = left.filter(|left| !left.is_empty()) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, left);
    }
}

#[cfg(test)]
mod tests {
    //! Tests of all relevant headers, in both directions.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn headers(text: &str) -> HeaderMap {
        let lines = text.lines().map(|line| line.trim().split_once(": ").unwrap());
        let lines = lines.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        lines.collect()
    }

    /// The remaining headers, sorted.
    fn left(headers: &HeaderMap) -> Vec<String> {
        let line =
            |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        let mut left: Vec<String> = headers.iter().map(line).collect();
        left.sort();
        left
    }

    #[test]
    fn credentials_and_identity_headers_are_not_forwarded() {
        let sent = headers(
            "host: master
             accept: */*
             authorization: Bearer secret
             cookie: session=secret
             impersonate-user: root
             impersonate-group: system:masters
             impersonate-extra-scopes: all
             x-remote-user: root
             x-remote-group: system:masters
             x-remote-extra-a: b
             x-forwarded-for: 10.0.0.1
             x-forwarded-uri: /
             forwarded: for=10.0.0.1
             expect: 100-continue
             connection: close, X-Hop
             connection: x-hop-too
             keep-alive: timeout=5
             proxy-connection: close
             proxy-authorization: Basic secret
             te: trailers
             trailer: x
             transfer-encoding: chunked
             upgrade: nothing
             x-hop: 1
             x-hop-too: 1
             x-own: 1
             x-own: 2",
        );
        assert_eq!(left(&request_headers(Side::Node, &sent)), ["accept: */*", "x-own: 1", "x-own: 2"]);
        let workload = left(&request_headers(Side::Workload, &sent));
        assert_eq!(workload, ["accept: */*", "cookie: session=secret", "x-own: 1", "x-own: 2"]);
    }

    #[test]
    fn proxy_removes_only_the_token_from_websocket_subprotocols() {
        let token = format!("{BEARER}c2VjcmV0");
        for (offered, expected) in [
            (format!("sec-websocket-protocol: {token}, v4.channel.k8s.io,chat"), "v4.channel.k8s.io, chat"),
            (format!("sec-websocket-protocol: chat\nsec-websocket-protocol: {token}"), "chat"),
            (format!("sec-websocket-protocol: {token}"), ""),
            ("sec-websocket-protocol: v5.channel.k8s.io,chat".to_owned(), "v5.channel.k8s.io,chat"),
        ] {
            let sent = request_headers(Side::Node, &headers(&offered));
            let sent = sent.get(header::SEC_WEBSOCKET_PROTOCOL).map(|value| value.to_str().unwrap());
            assert_eq!(sent.unwrap_or_default(), expected, "{offered}");
        }
    }

    #[test]
    fn proxy_forwards_only_the_upgrade_of_the_connection_headers() {
        let sent =
            headers("connection: keep-alive, Upgrade\nupgrade: websocket\ncontent-length: 0\nkeep-alive: 1");
        let upgraded = ["connection: Upgrade", "upgrade: websocket"];
        assert_eq!(left(&request_headers(Side::Workload, &sent)), upgraded);
        let got = headers("connection: Upgrade\nupgrade: websocket\nkeep-alive: 1");
        assert_eq!(left(&response_headers(Side::Workload, &got, true)), upgraded);
        assert!(left(&response_headers(Side::Workload, &got, false)).is_empty(), "nothing was switched");
    }

    #[test]
    fn proxy_drops_response_headers_that_affect_the_master() {
        let got = headers(
            "content-type: text/html
             location: /x
             set-cookie: session=theirs
             www-authenticate: Basic
             access-control-allow-origin: *
             access-control-allow-credentials: true
             access-control-expose-headers: a
             strict-transport-security: max-age=1
             public-key-pins: a
             alt-svc: h2=\"evil:443\"
             clear-site-data: *
             service-worker-allowed: /
             content-security-policy: default-src *
             connection: close, x-hop
             keep-alive: timeout=5
             proxy-authenticate: Basic
             transfer-encoding: chunked
             upgrade: h2c
             x-hop: 1",
        );
        assert_eq!(
            left(&response_headers(Side::Node, &got, false)),
            [
                "content-security-policy: default-src *",
                "content-security-policy: sandbox",
                "content-type: text/html",
                "location: /x",
                "x-content-type-options: nosniff",
            ]
        );
        assert_eq!(
            left(&response_headers(Side::Workload, &got, false)),
            [
                "content-security-policy: default-src *",
                "content-type: text/html",
                "location: /x",
                "set-cookie: session=theirs",
                "www-authenticate: Basic",
            ]
        );
    }
}
