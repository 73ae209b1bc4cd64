//! What a request would do, in the terms that roles are written in. Pure.
//!
//! A path is taken apart just as [`crate::request::Target`] takes it apart: what is asked for and what is answered are one.

use axum::extract::Query;
use http::{Method, StatusCode, Uri};
use serde_json::json;

use crate::identity::Identity;
use crate::request::{boolean, decode_percent};
use crate::selector::FieldSelector;
use crate::status::Status;

/// Parts of pods that a connection is handed over to: whoever may only read must not.
const CONNECTED: [&str; 3] = ["exec", "attach", "portforward"];

/// What somebody would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `watch`, `create` and so on; on a path the method in small letters.
    pub verb: String,
    /// On what.
    pub on: On,
}

/// On what somebody would do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Objects of a resource.
    Resource(ResourceAttributes),
    /// A path that is none of a resource, such as `/healthz`.
    Path(String),
}

/// Objects of a resource; what is not named is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// API group, empty for the core one.
    pub group: String,
    /// Its version.
    pub version: String,
    /// `pods`.
    pub resource: String,
    /// `log`.
    pub subresource: String,
    /// The object's name.
    pub name: String,
    /// The namespace; a Namespace lies in itself, so that roles in it may speak of it.
    pub namespace: String,
    /// Which fields the objects of a list or a watch must have; empty for all else.
    pub fields: FieldSelector,
}

impl Attributes {
    /// What a request would do.
    ///
    /// # Errors
    /// 400 for a path that cannot be read.
    pub fn of(method: &Method, uri: &Uri) -> Result<Self, Status> {
        let path = uri.path();
        let parts = path.trim_matches('/').split('/').map(decode_percent).collect::<Option<Vec<_>>>();
        let parts = parts.ok_or_else(|| {
            Status::bad_request(format!(
                "the path {path} cannot be read: a % in it begins no letter of UTF-8"
            ))
        })?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts[..] {
            ["api", version, ref rest @ ..] if !rest.is_empty() => ("", version, rest),
            ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (group, version, rest),
            _ => return Ok(Self::on_path(&method.as_str().to_lowercase(), path)),
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
        let query = Asked::of(uri);
        let verb = match *method {
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
            // A list of one name is what a role for that name allows.
            if on.name.is_empty() {
                on.name = query.fields.name().unwrap_or_default().to_owned();
            }
            on.fields = query.fields;
        }
        Ok(Self { verb: verb.to_owned(), on: On::Resource(on) })
    }

    /// A verb on a resource.
    pub fn on(verb: &str, on: ResourceAttributes) -> Self {
        Self { verb: verb.to_owned(), on: On::Resource(on) }
    }

    /// A verb on a path.
    pub fn on_path(verb: &str, path: &str) -> Self {
        Self { verb: verb.to_owned(), on: On::Path(path.to_owned()) }
    }

    /// What must be allowed besides: a WebSocket begins with a GET, and yet runs commands.
    pub fn besides(&self) -> Option<Self> {
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

    /// The namespace it happens in, empty for none.
    pub fn namespace(&self) -> &str {
        match &self.on {
            On::Resource(on) => &on.namespace,
            On::Path(_) => "",
        }
    }

    /// That somebody may not do it, in the words of the stock server; `why` adds to them where it is not empty.
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

/// What the query of a list says about the verb and the objects; of several parameters of one name the last counts.
#[derive(Debug, Default)]
struct Asked {
    watch: bool,
    fields: FieldSelector,
}

impl Asked {
    fn of(uri: &Uri) -> Self {
        let mut asked = Self::default();
        // What cannot be read is refused by whoever answers; until then it is nothing special.
        let Ok(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri) else { return asked };
        for (name, value) in pairs.0 {
            match name.as_str() {
                // Read as whoever answers reads it, so that nobody watches who may but list.
                "watch" => asked.watch = boolean(&value),
                "fieldSelector" => asked.fields = FieldSelector::parse(&value).unwrap_or_default(),
                _ => {}
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests;
