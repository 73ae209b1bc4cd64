//! What a request counts as, told by its method and path alone.

use http::{Method, Uri};

use crate::auth::nodes::ask::LEASES;
use crate::auth::{Attributes, On, ResourceAttributes};

/// Paths that tell how the server is.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// Parts of objects that are connections or streams; the stock server's.
const STREAMS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// What a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It changes nothing.
    Reading,
    /// It may change something.
    Writing,
    /// It says of a node that it is alive, if it comes from one.
    Heartbeat,
    /// It goes on for as long as somebody listens.
    Lasting,
    /// It asks how the server is.
    Health,
}

impl Kind {
    pub(super) fn of(method: &Method, uri: &Uri) -> Self {
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
            Ok(Attributes { on: On::Resource(on), .. })
                if by_method == Self::Writing && is_of_a_node(&on) =>
            {
                Self::Heartbeat
            }
            // What cannot be read is refused at once.
            Ok(_) | Err(_) => by_method,
        }
    }
}

/// Whether that is a Node, or its lease.
fn is_of_a_node(on: &ResourceAttributes) -> bool {
    match (on.group.as_str(), on.resource.as_str()) {
        ("", "nodes") => on.subresource.is_empty() || on.subresource == "status",
        ("coordination.k8s.io", "leases") => on.namespace == LEASES,
        _ => false,
    }
}
