//! Who may ask a node over the network: the cluster's masters everything, everybody whether it is healthy, nobody else anything.
//!
//! A stock kubelet asks the API server about everybody else; here the answer is no. Refusals are in its words.

use apiserver::Identity;
use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use http::{Method, Request, StatusCode};

/// What a master calls itself towards nodes, where it is not in the group of those who may everything.
const MASTER: &str = "kube-apiserver-kubelet-client";
/// What tells of the node's health and nothing else.
const OPEN: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// Parts of a node that have a name of their own in roles, by how their paths begin; a second name is the older one that
/// goes for all of them.
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

/// The router for those who may.
pub fn guarded(router: Router) -> Router {
    router.layer(from_fn(async |request: Request<Body>, next: Next| match refusal(&request) {
        None => next.run(request).await,
        Some((code, why)) => (code, why).into_response(),
    }))
}

/// Why the request is not answered, if it is not.
fn refusal(request: &Request<Body>) -> Option<(StatusCode, String)> {
    let path = request.uri().path();
    if OPEN.contains(&path) {
        return None;
    }
    match request.extensions().get::<Identity>().filter(|who| !who.is_anonymous()) {
        None => Some((StatusCode::UNAUTHORIZED, "Unauthorized".to_owned())),
        Some(who) if may(who) => None,
        Some(who) => {
            let (user, verb, parts) = (&who.user, verb(request.method()), parts(path).join(" "));
            let why =
                format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{parts}])");
            Some((StatusCode::FORBIDDEN, why))
        }
    }
}

fn may(who: &Identity) -> bool {
    who.is_master() || who.user == MASTER
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
    //! Who may, and what the others are told.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn masters_may_and_nobody_else() {
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
            let said = refusal(&request).map(|(code, why)| (code.as_u16(), why));
            assert_eq!(said, expected, "{method} {path}");
        }
    }
}
