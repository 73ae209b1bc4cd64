//! What a request counts as, told by its method and path, and by who sends it.

use http::{Method, Uri};

use crate::auth::nodes::NODES;
use crate::auth::nodes::ask::LEASES;
use crate::auth::{Attributes, On, ResourceAttributes};
use crate::identity::Identity;

/// Paths that tell how the server is.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// Parts of objects that are connections or streams; the stock server's.
const STREAMS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Who leads by a lease beside a master.
const LEADERS: [&str; 2] = ["system:kube-scheduler", "system:kube-controller-manager"];

/// What a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It changes nothing.
    Reading,
    /// It may change something.
    Writing,
    /// It says that somebody is alive on whom others go by: of a node, or of who leads.
    Heartbeat,
    /// It goes on for as long as somebody listens.
    Lasting,
    /// It asks how the server is.
    Health,
}

impl Kind {
    pub(super) fn of(method: &Method, uri: &Uri, who: Option<&Identity>) -> Self {
        let path = uri.path();
        if HEALTH.iter().any(|health| {
            path.strip_prefix(health).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }) {
            return Self::Health;
        }
        let by_method = match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => Self::Reading,
            _ => Self::Writing,
        };
        match Attributes::of(method, uri) {
            Ok(Attributes { verb, on: On::Resource(on) })
                if verb == "watch" || STREAMS.contains(&on.subresource.as_str()) =>
            {
                Self::Lasting
            }
            Ok(Attributes { verb, on: On::Resource(on) })
                if who.is_some_and(|who| is_heartbeat(who, &verb, &on)) =>
            {
                Self::Heartbeat
            }
            // What cannot be read is refused at once.
            Ok(_) | Err(_) => by_method,
        }
    }
}

/// Whether somebody on whom others go by reads or writes what says that he is alive: a node its Node or its lease, and who leads the lease
/// for that. To read it belongs to it, as it is read before it is written. The stock server sets places apart for the same.
fn is_heartbeat(who: &Identity, verb: &str, on: &ResourceAttributes) -> bool {
    let is_of_one = verb == "create" || !on.name.is_empty();
    match (on.group.as_str(), on.resource.as_str(), on.namespace.as_str()) {
        ("", "nodes", _) | ("coordination.k8s.io", "leases", LEASES) => is_of_one && who.is_in(NODES),
        ("coordination.k8s.io", "leases", "kube-system") => is_of_one && LEADERS.contains(&who.user.as_str()),
        _ => false,
    }
}
