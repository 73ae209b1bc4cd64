//! Authorization of HTTPS requests to the node. API servers and administrators have full access, health endpoints are
//! public like the files of the page, monitoring clients read metrics, and viewers read what is not secret.
//!
//! For other users, a stock kubelet sends a SubjectAccessReview. This kubelet rejects them, with the same error
//! texts.

use std::sync::Arc;

use apiserver::auth::{AccessPolicy, Attributes, Decision, On, Rule, answer_own_review};
use apiserver::identity::MONITORING;
use apiserver::{Identity, Status};
use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::{Method, Request, StatusCode, header};
use jiff::Timestamp;

use crate::local_ca::ViewerTokens;
use crate::options::VIEWERS;

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
/// Group, resource and subresources that viewers may read, as with the stock ClusterRole `view`. Secrets are not among
/// them.
const VIEWED: [(&str, &str, &[&str]); 10] = [
    ("", "configmaps", &[""]),
    ("", "events", &[""]),
    ("", "namespaces", &[""]),
    ("", "nodes", &["", "status"]),
    ("", "pods", &["", "log", "status"]),
    ("", "services", &["", "status"]),
    ("discovery.k8s.io", "endpointslices", &[""]),
    ("events.k8s.io", "events", &[""]),
    ("metrics.k8s.io", "nodes", &[""]),
    ("metrics.k8s.io", "pods", &[""]),
];
/// Paths outside resources that viewers may read: discovery, OpenAPI and usage. Paths below them are included.
const VIEWED_PATHS: [&str; 7] =
    ["/api", "/apis", "/openapi", "/version", "/metrics", "/stats", "/runningpods"];

/// Adds authentication by token and authorization to a router. The connection has authenticated certificates.
pub fn with_authorization(router: Router, tokens: Arc<ViewerTokens>) -> Router {
    router.layer(from_fn(move |mut request: Request<Body>, next: Next| {
        authenticate(&mut request, &tokens, Timestamp::now());
        async move {
            // Every user may ask for their own identity and access.
            let request = match answer_review(request).await {
                Ok(answer) => return answer,
                Err(request) => request,
            };
            match deny_reason(&request) {
                None => next.run(request).await,
                Some(denial) => denial.into_response(),
            }
        }
    }))
}

/// Answers a review of the sender's own identity and access. Returns other requests.
async fn answer_review(request: Request<Body>) -> Result<Response, Request<Body>> {
    let who = request.extensions().get::<Identity>().filter(|who| !who.is_anonymous()).cloned();
    match (who, Attributes::of(request.method(), request.uri())) {
        (Some(who), Ok(attributes)) => answer_own_review(&NodePolicy, &who, &attributes, request).await,
        _ => Err(request),
    }
}

/// What users may do on this node, for access reviews.
struct NodePolicy;

impl AccessPolicy for NodePolicy {
    fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        let is_allowed = is_api_server(who)
            || who.is_in(VIEWERS) && can_view(attributes)
            || self.rules(who, "").iter().any(|rule| rule.allows(attributes));
        if is_allowed { Decision::Allowed(String::new()) } else { Decision::Denied(String::new()) }
    }

    fn rules(&self, who: &Identity, _: &str) -> Vec<Rule> {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let on = |verbs: &[&str], group: &str, resources: Vec<String>| Rule {
            verbs: texts(verbs),
            groups: texts(&[group]),
            resources,
            ..Rule::default()
        };
        let paths = |verbs: &[&str], paths: &[&str]| Rule {
            verbs: texts(verbs),
            paths: texts(paths),
            ..Rule::default()
        };
        if is_api_server(who) {
            return vec![on(&["*"], "*", texts(&["*"])), paths(&["*"], &["*"])];
        }
        let mut rules = vec![
            on(
                &["create"],
                "authorization.k8s.io",
                texts(&["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            ),
            on(&["create"], "authentication.k8s.io", texts(&["selfsubjectreviews"])),
            paths(&["get"], &OPEN),
        ];
        if who.is_in(MONITORING) {
            rules.push(paths(&["get"], &["/metrics", "/metrics/*"]));
        }
        if who.is_in(VIEWERS) {
            rules.extend(VIEWED.iter().map(|(group, resource, parts)| {
                let names = parts.iter().map(|part| match *part {
                    "" => (*resource).to_owned(),
                    part => format!("{resource}/{part}"),
                });
                on(&["get", "list", "watch"], group, names.collect())
            }));
            let below = VIEWED_PATHS.iter().flat_map(|path| [(*path).to_owned(), format!("{path}/*")]);
            rules.push(Rule { paths: below.collect(), ..paths(&["get"], &[]) });
        }
        rules
    }
}

/// Sets the identity of a client without certificate by its bearer token. Removes the token, so that handlers do not see it.
fn authenticate(request: &mut Request<Body>, tokens: &ViewerTokens, now: Timestamp) {
    let Some(header) = request.headers_mut().remove(header::AUTHORIZATION) else { return };
    let connection = request.extensions().get::<Identity>();
    if connection.is_some_and(|who| !who.is_anonymous()) {
        return;
    }
    let peer = connection.and_then(|who| who.peer);
    let token = header.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
    });
    if let Some(user) = token.and_then(|token| tokens.authenticate(token, now)) {
        let mut who = Identity::authenticated(user, [VIEWERS.to_owned()]);
        who.peer = peer;
        request.extensions_mut().insert(who);
    }
}

/// The response to a rejected request.
enum Denial {
    /// Plain text, as the stock kubelet answers.
    Text(StatusCode, String),
    /// An API error, for paths of the Kubernetes API.
    Api(Status),
}

impl Denial {
    fn into_response(self) -> Response {
        match self {
            Self::Text(code, why) => (code, why).into_response(),
            Self::Api(status) => status.into_response(),
        }
    }
}

/// Why a request is rejected. `None` if it is allowed.
fn deny_reason(request: &Request<Body>) -> Option<Denial> {
    let (method, path) = (request.method(), request.uri().path());
    if OPEN.contains(&path) || apiserver::ui::is_public(path) {
        return None;
    }
    let Some(who) = request.extensions().get::<Identity>().filter(|who| !who.is_anonymous()) else {
        return Some(Denial::Text(StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()));
    };
    if is_api_server(who) || can_read_metrics(who, method, path) {
        return None;
    }
    let attributes = match Attributes::of(method, request.uri()) {
        Ok(attributes) => attributes,
        Err(status) => return Some(Denial::Api(status)),
    };
    if who.is_in(VIEWERS) && can_view(&attributes) {
        return None;
    }
    if matches!(attributes.on, On::Resource(_)) {
        return Some(Denial::Api(attributes.refused(who, "")));
    }
    let (user, verb, parts) = (&who.user, verb(method), parts(path).join(" "));
    let why = format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{parts}])");
    Some(Denial::Text(StatusCode::FORBIDDEN, why))
}

/// Whether viewers may do this.
fn can_view(attributes: &Attributes) -> bool {
    match &attributes.on {
        On::Resource(on) => {
            matches!(&*attributes.verb, "get" | "list" | "watch")
                && VIEWED.iter().any(|(group, resource, subresources)| {
                    on.group == *group
                        && on.resource == *resource
                        && subresources.contains(&on.subresource.as_str())
                })
        }
        On::Path(path) => attributes.verb == "get" && VIEWED_PATHS.iter().any(|above| is_below(path, above)),
    }
}

/// Whether the user has full access. The groups of restricted users take precedence over the user name.
fn is_api_server(who: &Identity) -> bool {
    let is_restricted = who.is_in(VIEWERS) || who.is_in(MONITORING);
    who.is_master() || who.user == MASTER && !is_restricted
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
    PARTS.iter().find(|(above, _)| is_below(path, above)).map_or(&[PROXY], |(_, parts)| parts)
}

/// Whether `path` is `above` or a path below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    //! Tests of allowed and rejected requests.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use jiff::SignedDuration;
    use jiff::civil::Date;

    use super::*;
    use crate::local_ca::{Files, LocalCa};

    #[test]
    fn a_bearer_token_makes_a_viewer_unless_the_connection_has_a_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let ca = LocalCa::open_or_create(&Files::of(folder.path()), Date::constant(2026, 2, 28)).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let token = ca.sign_viewer_token(now, SignedDuration::from_hours(1)).unwrap();
        let tokens = ViewerTokens::default();
        tokens.set(Some(&ca));
        let user = |header: &str, who: Identity| {
            let request = Request::get("/api/v1/pods").header(header::AUTHORIZATION, header);
            let mut request = request.extension(who).body(Body::empty()).unwrap();
            authenticate(&mut request, &tokens, now);
            assert_eq!(request.headers().get(header::AUTHORIZATION), None);
            (request.extensions().get::<Identity>().unwrap().user.clone(), deny_reason(&request).is_none())
        };
        let viewer = ("node-viewer".to_owned(), true);
        assert_eq!(user(&format!("Bearer {token}"), Identity::anonymous()), viewer);
        assert_eq!(user(&format!("bearer  {token}"), Identity::anonymous()), viewer);
        for header in [&*token, &format!("Basic {token}"), "Bearer", "Bearer x"] {
            let (who, is_allowed) = user(header, Identity::anonymous());
            assert!(!is_allowed && who == Identity::anonymous().user, "{header}");
        }
        let jane = Identity::authenticated("jane", []);
        assert_eq!(user(&format!("Bearer {token}"), jane), ("jane".to_owned(), false));
    }

    #[test]
    fn only_api_servers_are_authorized() {
        let of = |user: &str, groups: &[&str]| {
            Some(Identity::authenticated(user, groups.iter().map(|group| (*group).to_owned())))
        };
        let forbidden = |text: &str| Some((403, format!("Forbidden ({text})")));
        for (who, method, path, expected) in [
            (None, "GET", "/healthz", None),
            (None, "GET", "/ui/main.js", None),
            (None, "GET", "/ui/other", Some((401, "Unauthorized".to_owned()))),
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
                of("kube-apiserver-kubelet-client", &[VIEWERS]),
                "GET",
                "/containerLogs/a/b/c",
                forbidden(
                    "user=kube-apiserver-kubelet-client, verb=get, resource=nodes, subresource(s)=[proxy]",
                ),
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
            let denial = deny_reason(&request).map(|denial| match denial {
                Denial::Text(code, why) => (code.as_u16(), why),
                Denial::Api(status) => (status.code, status.message),
            });
            assert_eq!(denial, expected, "{method} {path}");
        }
    }

    #[test]
    fn viewers_read_what_is_not_secret() {
        let code = |method: &str, path: &str| {
            let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            request.extensions_mut().insert(Identity::authenticated("ann", [VIEWERS.to_owned()]));
            deny_reason(&request).map(|denial| denial.into_response().status().as_u16())
        };
        let pod = "/api/v1/namespaces/default/pods/web";
        for path in [
            "/api",
            "/api/v1",
            "/apis",
            "/apis/events.k8s.io/v1",
            "/openapi/v3",
            "/version",
            "/metrics",
            "/metrics/resource",
            "/stats/summary",
            "/api/v1/nodes",
            "/api/v1/pods?watch=true",
            "/api/v1/watch/pods",
            "/api/v1/namespaces/secrets/pods",
            "/api/v1/namespaces/default/configmaps/a",
            "/apis/events.k8s.io/v1/namespaces/default/events",
            pod,
            &format!("{pod}/log?follow=true"),
        ] {
            assert_eq!(code("GET", path), None, "{path}");
        }
        for (method, path) in [
            ("GET", "/api/v1/secrets".to_owned()),
            ("GET", "/api/v1/namespaces/default/%73ecrets".to_owned()),
            ("GET", "/api/v1/namespaces/default/secrets/a".to_owned()),
            ("GET", "/api/v1/watch/secrets".to_owned()),
            ("GET", "/api//v1/namespaces/default/secrets/a".to_owned()),
            ("GET", "//api/v1/secrets".to_owned()),
            ("GET", format!("{pod}/exec?command=id")),
            ("GET", format!("{pod}/attach")),
            ("GET", format!("{pod}/portforward")),
            ("POST", format!("{pod}/exec")),
            ("POST", "/api/v1/namespaces/default/pods".to_owned()),
            ("DELETE", pod.to_owned()),
            ("PATCH", pod.to_owned()),
            ("GET", "/exec/default/web/c".to_owned()),
            ("POST", "/run/default/web/c".to_owned()),
            ("GET", "/containerLogs/default/web/c".to_owned()),
            ("DELETE", "/localVolumes/a".to_owned()),
            ("POST", "/metrics".to_owned()),
        ] {
            assert_eq!(code(method, &path), Some(403), "{method} {path}");
        }
    }
}
