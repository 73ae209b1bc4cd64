//! Headers of forwarded requests and responses: hop-by-hop headers, `X-Forwarded-*`, and the host. Pure.

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};

/// Headers that concern one connection only, beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];
/// Headers with which clients could pretend to have another address. Only the proxy sets them.
const SPOOFED: [HeaderName; 6] = [
    FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// How a client reached the proxy.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The address of the client.
    pub peer: IpAddr,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// The port to which the client connected.
    pub port: u16,
}

/// The authority of a request: of its URI, or else its only `Host` header. `None` if the request is invalid.
pub fn authority(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return None;
    }
    match uri.authority() {
        Some(authority) => Some(authority.clone()),
        None => Authority::try_from(host?.as_bytes()).ok(),
    }
    .filter(|authority| !authority.as_str().contains('@'))
}

/// The protocol of an HTTP/1.1 upgrade, such as `websocket`.
pub fn upgrade(version: Version, headers: &HeaderMap) -> Option<HeaderValue> {
    let is_upgrade = version == Version::HTTP_11
        && tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| is_upgrade).cloned()
}

/// Removes headers that concern one connection only.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> =
        tokens(headers, &CONNECTION).filter_map(|token| HeaderName::try_from(token).ok()).collect();
    if headers.contains_key(TRANSFER_ENCODING) {
        // A length beside it would be a second opinion about where the body ends.
        headers.remove(CONTENT_LENGTH);
    }
    for name in named.iter().filter(|name| **name != HOST && **name != CONTENT_LENGTH).chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Prepares the headers of a request for an HTTP/1.1 endpoint.
pub fn prepare(headers: &mut HeaderMap, authority: &Authority, client: Client) {
    let accepts_trailers = tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    remove_hop_by_hop(headers);
    headers.remove(EXPECT);
    for name in &SPOOFED {
        headers.remove(name);
    }
    if accepts_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    join_cookies(headers);
    let mut set = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    set(HOST, authority.to_string());
    let [_, forwarded_for, host, port, proto, real_ip] = SPOOFED;
    set(forwarded_for, client.peer.to_string());
    set(real_ip, client.peer.to_string());
    set(host, authority.to_string());
    set(port, client.port.to_string());
    set(proto, if client.is_tls { "https" } else { "http" }.to_owned());
}

/// Joins cookies, which HTTP/2 clients may send in several headers (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::try_from(cookies.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

/// Whether a request can be sent twice without effect on the endpoint (RFC 9110, 9.2.2), and has no body in practice.
pub fn is_repeatable(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    //! Tests of forwarded headers.
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn headers_of_the_connection_are_removed_and_the_client_is_added() {
        let mut given = headers(&[
            ("host", "evil.example"),
            ("connection", "keep-alive, X-Secret, host"),
            ("x-secret", "1"),
            ("te", "trailers, deflate"),
            ("x-forwarded-for", "6.6.6.6"),
            ("forwarded", "for=6.6.6.6"),
            ("accept", "*/*"),
        ]);
        given.append(COOKIE, HeaderValue::from_static("a=1"));
        given.append(COOKIE, HeaderValue::from_static("b=2"));
        let client = Client { peer: "192.0.2.1".parse().unwrap(), is_tls: true, port: 443 };
        prepare(&mut given, &Authority::from_static("a.example:443"), client);
        let expected = headers(&[
            ("host", "a.example:443"),
            ("te", "trailers"),
            ("accept", "*/*"),
            ("cookie", "a=1; b=2"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-real-ip", "192.0.2.1"),
            ("x-forwarded-host", "a.example:443"),
            ("x-forwarded-port", "443"),
            ("x-forwarded-proto", "https"),
        ]);
        assert_eq!(given, expected);
    }

    #[test]
    fn a_length_beside_a_transfer_encoding_is_removed() {
        let mut both = headers(&[("transfer-encoding", "chunked"), ("content-length", "5")]);
        remove_hop_by_hop(&mut both);
        assert!(both.is_empty());
        let mut named = headers(&[("connection", "content-length"), ("content-length", "5")]);
        remove_hop_by_hop(&mut named);
        assert_eq!(named.len(), 1, "a client cannot remove the length");
    }

    #[test]
    fn a_request_has_one_authority() {
        let uri = Uri::from_static("/x");
        let of = |uri: &Uri, all| authority(uri, &headers(all)).map(|found| found.to_string());
        assert_eq!(of(&uri, &[("host", "a:80")]).as_deref(), Some("a:80"));
        assert_eq!(of(&Uri::from_static("http://b/"), &[("host", "a")]).as_deref(), Some("b"));
        assert_eq!(of(&uri, &[]), None);
        assert_eq!(of(&uri, &[("host", "user@a")]), None);
        let mut two = headers(&[("host", "a")]);
        two.append(HOST, HeaderValue::from_static("b"));
        assert_eq!(authority(&uri, &two), None);
    }

    #[test]
    fn only_http_1_1_requests_upgrade() {
        let given = headers(&[("connection", "Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(upgrade(Version::HTTP_11, &given).unwrap(), "websocket");
        assert_eq!(upgrade(Version::HTTP_10, &given), None);
        assert_eq!(upgrade(Version::HTTP_11, &headers(&[("upgrade", "websocket")])), None);
    }
}
