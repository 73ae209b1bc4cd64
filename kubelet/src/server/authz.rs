//! Authorization of HTTPS requests to the node. API servers have full access, health endpoints are public, and
//! monitoring clients read metrics.
//!
//! For other users, a stock kubelet sends a SubjectAccessReview. This kubelet rejects them, with the same error
//! texts.

use apiserver::Identity;
use apiserver::identity::MONITORING;
use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use http::{Method, Request, StatusCode};

/// User name of an API server's kubelet client, if it is not in `system:masters`.
const MASTER: &str = "kube-apiserver-kubelet-client";
/// Public health endpoints.
const OPEN: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// Subresources of nodes in RBAC, by path prefix. If there are two names, the second one is older and covers all
/// paths.
const PARTS: [(&str, &[&str]); 8] = [
    ("/stats", &["stats"]),
    ("/metrics", &["metrics"]),
    ("/logs", &["log"]),
    ("/checkpoint", &["checkpoint"]),
    ("/pods", &["pods", PROXY]),
    ("/runningpods", &["pods", PROXY]),
    ("/healthz", &["healthz", PROXY]),
    ("/configz", &["configz", PROXY]),
];
const PROXY: &str = "proxy";

/// Adds authorization to a router.
pub fn with_authorization(router: Router) -> Router {
    router.layer(from_fn(async |request: Request<Body>, next: Next| match deny_reason(&request) {
        None => next.run(request).await,
        Some((code, why)) => (code, why).into_response(),
    }))
}

/// The response for a rejected request. `None` if the request is allowed.
fn deny_reason(request: &Request<Body>) -> Option<(StatusCode, String)> {
    let path = request.uri().path();
    if OPEN.contains(&path) {
        return None;
    }
    match request.extensions().get::<Identity>().filter(|who| !who.is_anonymous()) {
        None => Some((StatusCode::UNAUTHORIZED, "Unauthorized".to_owned())),
        Some(who) if is_api_server(who) || can_read_metrics(who, request.method(), path) => None,
        Some(who) => {
            let (user, verb, parts) = (&who.user, verb(request.method()), parts(path).join(" "));
            let why =
                format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{parts}])");
            Some((StatusCode::FORBIDDEN, why))
        }
    }
}

fn is_api_server(who: &Identity) -> bool {
    who.is_master() || who.user == MASTER
}

/// Whether the user may read metrics: the group of the stock ClusterRole for monitoring may, but nothing else.
fn can_read_metrics(who: &Identity, method: &Method, path: &str) -> bool {
    *method == Method::GET && parts(path) == ["metrics"] && who.groups.iter().any(|group| group == MONITORING)
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

fn parts(path: &str) -> &'static [&'static str] {
    let is_below =
        |begin: &str| path.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    PARTS.iter().find(|(begin, _)| is_below(begin)).map_or(&[PROXY], |(_, parts)| parts)
}

#[cfg(test)]
mod tests {
    //! Tests of allowed and rejected requests.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_api_servers_are_authorized() {
        let of = |user: &str, groups: &[&str]| {
            Some(Identity::authenticated(user, groups.iter().map(|group| (*group).to_owned())))
        };
        let forbidden = |text: &str| Some((403, format!("Forbidden ({text})")));
        for (who, method, path, expected) in [
            (None, "GET", "/healthz", None),
            (None, "GET", "/healthz/log", Some((401, "Unauthorized".to_owned()))),
            (None, "GET", "/pods", Some((401, "Unauthorized".to_owned()))),
            (Some(Identity::anonymous()), "GET", "/metrics", Some((401, "Unauthorized".to_owned()))),
            (of("kube-apiserver-kubelet-client", &["system:masters"]), "POST", "/exec/a/b/c", None),
            (of("kube-apiserver-kubelet-client", &[]), "GET", "/containerLogs/a/b/c", None),
            (of("admin", &["system:masters"]), "GET", "/pods", None),
            (
                of("kubelet:n1", &["system:nodes"]),
                "GET",
                "/containerLogs/a/b/c",
                forbidden("user=kubelet:n1, verb=get, resource=nodes, subresource(s)=[proxy]"),
            ),
            (
                of("jane", &[]),
                "POST",
                "/configz",
                forbidden("user=jane, verb=create, resource=nodes, subresource(s)=[configz proxy]"),
            ),
            (
                of("jane", &[]),
                "GET",
                "/metrics/cadvisor",
                forbidden("user=jane, verb=get, resource=nodes, subresource(s)=[metrics]"),
            ),
            (of("prometheus", &[MONITORING]), "GET", "/metrics", None),
            (of("prometheus", &[MONITORING]), "GET", "/metrics/resource", None),
            (
                of("prometheus", &[MONITORING]),
                "GET",
                "/pods",
                forbidden("user=prometheus, verb=get, resource=nodes, subresource(s)=[pods proxy]"),
            ),
            (
                of("prometheus", &[MONITORING]),
                "POST",
                "/metrics",
                forbidden("user=prometheus, verb=create, resource=nodes, subresource(s)=[metrics]"),
            ),
            (
                of("jane", &[]),
                "GET",
                "/metricsx",
                forbidden("user=jane, verb=get, resource=nodes, subresource(s)=[proxy]"),
            ),
        ] {
            let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            if let Some(who) = who {
                request.extensions_mut().insert(who);
            }
            let denial = deny_reason(&request).map(|(code, why)| (code.as_u16(), why));
            assert_eq!(denial, expected, "{method} {path}");
        }
    }
}
