//! Authorization attributes of a request. Pure.
//!
//! Paths are split as in [`crate::request::Target`], so that authorization and routing agree.

use axum::extract::Query;
use http::{Method, StatusCode, Uri};
use serde_json::json;

use crate::identity::Identity;
use crate::request::{decode_percent, query_switch};
use crate::selector::FieldSelector;
use crate::status::Status;

/// Pod subresources that open a connection. The permission to read must not suffice for them.
const CONNECTED: [&str; 3] = ["exec", "attach", "portforward"];

/// The attributes of a request that authorization decides by: verb, and resource or path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `watch`, `create` and so on; the lower-case HTTP method for non-resource paths.
    pub verb: String,
    /// The target of the verb.
    pub on: On,
}

/// Target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// A resource.
    Resource(ResourceAttributes),
    /// A non-resource path, such as `/healthz`.
    Path(String),
}

/// A resource and the names in the path; absent parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// API group, empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource name, such as `pods`.
    pub resource: String,
    /// Subresource, such as `log`.
    pub subresource: String,
    /// The object's name.
    pub name: String,
    /// The namespace. A request for a Namespace object has the name of that namespace here, so that roles in it
    /// apply.
    pub namespace: String,
    /// Field selector of a list, watch or deletecollection; empty for other verbs.
    pub fields: FieldSelector,
}

impl Attributes {
    /// Attributes of an HTTP request.
    ///
    /// # Errors
    /// 400 for a path that cannot be decoded.
    pub fn of(method: &Method, uri: &Uri) -> Result<Self, Status> {
        let path = uri.path();
        let parts = path.trim_matches('/').split('/').map(decode_percent).collect::<Option<Vec<_>>>();
        let parts = parts.ok_or_else(|| {
            Status::bad_request(format!(
                "the path {path} cannot be decoded: it contains an invalid percent-encoding"
            ))
        })?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts[..] {
            ["api", version, ref rest @ ..] if !rest.is_empty() => ("", version, rest),
            ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (group, version, rest),
            _ => return Ok(Self::on_path(&method.as_str().to_lowercase(), path)),
        };
        // `/api/v1/watch/pods`, whatever the method.
        let (is_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace] | ["namespaces", namespace, "status" | "finalize"] => {
                (*namespace, rest)
            }
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        let mut on = ResourceAttributes {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: part(0),
            subresource: part(2),
            name: part(1),
            namespace: namespace.to_owned(),
            fields: FieldSelector::default(),
        };
        let query = ListParameters::of(uri);
        let verb = match *method {
            _ if is_watch => "watch",
            Method::GET | Method::HEAD if !on.subresource.is_empty() => "get",
            Method::GET | Method::HEAD if query.watch => "watch",
            Method::GET | Method::HEAD if on.name.is_empty() => "list",
            Method::GET | Method::HEAD => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if on.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => &method.as_str().to_lowercase(),
        };
        if matches!(verb, "list" | "watch" | "deletecollection") {
            // A list narrowed to one name is allowed by a role for that name.
            if on.name.is_empty() {
                on.name = query.fields.name().unwrap_or_default().to_owned();
            }
            on.fields = query.fields;
        }
        Ok(Self { verb: verb.to_owned(), on: On::Resource(on) })
    }

    /// Creates the attributes of a verb on a resource.
    pub fn on(verb: &str, on: ResourceAttributes) -> Self {
        Self { verb: verb.to_owned(), on: On::Resource(on) }
    }

    /// Creates the attributes of a verb on a non-resource path.
    pub fn on_path(verb: &str, path: &str) -> Self {
        Self { verb: verb.to_owned(), on: On::Path(path.to_owned()) }
    }

    /// Returns a second permission that the request needs. A WebSocket exec is a GET, but also requires `create`.
    pub fn also_required(&self) -> Option<Self> {
        match &self.on {
            On::Resource(on)
                if self.verb == "get"
                    && on.group.is_empty()
                    && on.resource == "pods"
                    && CONNECTED.contains(&on.subresource.as_str()) =>
            {
                Some(Self { verb: "create".to_owned(), on: self.on.clone() })
            }
            _ => None,
        }
    }

    /// The namespace, empty if there is none.
    pub fn namespace(&self) -> &str {
        match &self.on {
            On::Resource(on) => &on.namespace,
            On::Path(_) => "",
        }
    }

    /// The Forbidden error in the words of kube-apiserver. `why` is appended if it is not empty.
    pub fn refused(&self, who: &Identity, why: &str) -> Status {
        let colon = if why.is_empty() { "" } else { ": " };
        let (user, verb) = (&who.user, &self.verb);
        let (message, details) = match &self.on {
            On::Path(path) => {
                (format!("forbidden: User {user:?} cannot {verb} path {path:?}{colon}{why}"), json!({}))
            }
            On::Resource(on) => {
                let place = match on.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let part = if on.subresource.is_empty() { "" } else { "/" };
                let what = format!(
                    "User {user:?} cannot {verb} resource \"{}{part}{}\" in API group {:?} {place}",
                    on.resource, on.subresource, on.group
                );
                let mut details = json!({"kind": on.resource});
                let mut subject = on.resource.clone();
                if !on.group.is_empty() {
                    subject = format!("{subject}.{}", on.group);
                    details["group"] = on.group.as_str().into();
                }
                if !on.name.is_empty() {
                    subject = format!("{subject} {:?}", on.name);
                    details["name"] = on.name.as_str().into();
                }
                (format!("{subject} is forbidden: {what}{colon}{why}"), details)
            }
        };
        let refused = Status::new(StatusCode::FORBIDDEN, "Forbidden", message);
        Status { details: Some(details), ..refused }
    }
}

/// Query parameters that affect authorization. If a parameter occurs twice, the last one wins.
#[derive(Debug, Default)]
struct ListParameters {
    watch: bool,
    fields: FieldSelector,
}

impl ListParameters {
    fn of(uri: &Uri) -> Self {
        let mut options = Self::default();
        // The handler rejects an invalid query later; here it has no effect.
        let Ok(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri) else { return options };
        for (name, value) in pairs.0 {
            match name.as_str() {
                // Parsed exactly as the handler does, so that a list permission cannot open a watch.
                "watch" => options.watch = query_switch(&value),
                "fieldSelector" => options.fields = FieldSelector::parse(&value).unwrap_or_default(),
                _ => {}
            }
        }
        options
    }
}

#[cfg(test)]
mod tests;
