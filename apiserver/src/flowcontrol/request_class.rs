//! Classifies requests by method, path and user.

use http::{Method, Uri};

use crate::auth::nodes::NODES;
use crate::auth::nodes::authorize::LEASES;
use crate::auth::{Attributes, On, ResourceAttributes};
use crate::identity::Identity;

/// Health endpoints.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// Subresources that open connections or streams, as in kube-apiserver.
const STREAMS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Users that external leader-elected components have.
const LEADERS: [&str; 2] = ["system:kube-scheduler", "system:kube-controller-manager"];

/// Request class, which selects the concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestClass {
    /// Read-only requests.
    ReadOnly,
    /// Mutating requests.
    Mutating,
    /// Heartbeats of nodes, and lease renewals of leader-elected components.
    Heartbeat,
    /// Long-running requests: watches, logs, exec, attach, port-forward and proxy.
    LongRunning,
    /// Health endpoints, which are exempt.
    Health,
}

impl RequestClass {
    pub(super) fn of(method: &Method, uri: &Uri, who: Option<&Identity>) -> Self {
        let path = uri.path();
        if HEALTH.iter().any(|health| {
            path.strip_prefix(health).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }) {
            return Self::Health;
        }
        let by_method = match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => Self::ReadOnly,
            _ => Self::Mutating,
        };
        match Attributes::of(method, uri) {
            Ok(Attributes { verb, on: On::Resource(on) })
                if verb == "watch" || STREAMS.contains(&on.subresource.as_str()) =>
            {
                Self::LongRunning
            }
            Ok(Attributes { verb, on: On::Resource(on) })
                if who.is_some_and(|who| is_heartbeat(who, &verb, &on)) =>
            {
                Self::Heartbeat
            }
            // An invalid request is rejected at once, so any class will do.
            Ok(_) | Err(_) => by_method,
        }
    }
}

/// Whether a node accesses its Node or Lease, or a leader-elected component its Lease. Reads count too, because a
/// heartbeat reads before it writes. kube-apiserver has priority levels for the same purpose.
fn is_heartbeat(who: &Identity, verb: &str, on: &ResourceAttributes) -> bool {
    let is_of_one = verb == "create" || !on.name.is_empty();
    match (on.group.as_str(), on.resource.as_str(), on.namespace.as_str()) {
        ("", "nodes", _) | ("coordination.k8s.io", "leases", LEASES) => is_of_one && who.is_in(NODES),
        ("coordination.k8s.io", "leases", "kube-system") => is_of_one && LEADERS.contains(&who.user.as_str()),
        _ => false,
    }
}
