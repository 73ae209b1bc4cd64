//! Damaged paths and queries: selectors, continue tokens, revisions and other parameters.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::sample::select;

use crate::damage::{damaged, edits};
use crate::fuzz;
use crate::server::{Server, admin};

/// Valid parameters that are damaged. The continue tokens decode to `2/default/a` and to a key without a revision.
const PARAMETERS: [(&str, &str); 22] = [
    ("labelSelector", "app=web,tier in (a,b),!x,c notin (d)"),
    ("labelSelector", "example.com/app!=web"),
    ("fieldSelector", "metadata.name=a,metadata.namespace!=b"),
    ("fieldSelector", "status.phase=Running,spec.nodeName="),
    ("continue", "Mi9kZWZhdWx0L2E"),
    ("continue", "MC8v"),
    ("limit", "1"),
    ("resourceVersion", "2"),
    ("resourceVersion", "0"),
    ("resourceVersionMatch", "Exact"),
    ("resourceVersionMatch", "NotOlderThan"),
    ("watch", "true"),
    ("timeoutSeconds", "1"),
    ("allowWatchBookmarks", "true"),
    ("sendInitialEvents", "true"),
    ("includeObject", "Object"),
    ("timeout", "5s"),
    ("dryRun", "All"),
    ("fieldValidation", "Strict"),
    ("fieldManager", "kubectl"),
    ("gracePeriodSeconds", "30"),
    ("propagationPolicy", "Foreground"),
];
const PATHS: [&str; 12] = [
    "/api/v1/pods",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/pods/web/status",
    "/apis/apps/v1/namespaces/default/deployments/web/scale",
    "/apis/events.k8s.io/v1/events",
    "/apis/example.com/v1/crontabs",
    "/api/v1beta3/namespaces/default/pods",
    "/openapi/v3/apis/apps/v1?hash=x",
    "/apis/apps",
    "/readyz/ping",
    "/.well-known/openid-configuration",
];
const ACCEPT: [&str; 5] = [
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
];

/// The percent-encoded text.
fn encoded(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[test]
fn damaged_queries_get_an_error_with_the_cause() {
    let server = Server::new();
    let parameters = prop::collection::vec((select(&PARAMETERS[..]), edits()), 0..4);
    let method = select(&["GET", "GET", "GET", "DELETE", "HEAD", "OPTIONS", "FROB"][..]);
    let cases = (method, select(&PATHS[..]), edits(), parameters, select(&ACCEPT[..]), edits());
    fuzz(3000, &cases, |(method, path, path_edits, parameters, accept, accept_edits)| {
        let mut uri = String::new();
        for (at, part) in path.split('/').enumerate() {
            uri.push_str(if at > 0 { "/" } else { "" });
            // Damages one path segment in three, so that most paths are still served.
            let edits = if at % 3 == 2 { path_edits.as_slice() } else { &[] };
            uri.push_str(
                if edits.is_empty() { part.to_owned() } else { encoded(&damaged(part.as_bytes(), edits)) }
                    .as_str(),
            );
        }
        let query: Vec<String> = parameters
            .iter()
            .map(|((name, value), edits)| format!("{name}={}", encoded(&damaged(value.as_bytes(), edits))))
            .collect();
        uri.push(if uri.contains('?') { '&' } else { '?' });
        uri.push_str(&query.join("&"));
        let accept = damaged(accept.as_bytes(), &accept_edits);
        // The HTTP parser rejects bytes that a header must not contain.
        let Ok(accept) = http::HeaderValue::from_bytes(&accept) else { return Ok(()) };
        if uri.len() > u16::MAX.into() {
            return Ok(());
        }
        if method == "HEAD" {
            return Ok(());
        }
        server.send_request(admin(method, &uri).header("accept", accept), b"").map(drop)
    });
}
