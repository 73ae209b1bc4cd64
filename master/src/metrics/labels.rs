//! Metric labels of a request. Their number of values is bounded: unknown resources get empty labels.

use apiserver::catalog::Rows;
use apiserver::request::{Objects, Target};
use apiserver::resource::Text;
use http::{Method, Uri};
use prometheus_client::encoding::EncodeLabelSet;

/// Known subresources.
const SUBRESOURCES: [&str; 14] = [
    "approval",
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "finalize",
    "log",
    "portforward",
    "proxy",
    "resize",
    "scale",
    "status",
    "token",
];
/// Subresources with long-running requests.
const CONNECTIONS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// Labels of the request metrics, such as `apiserver_request_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct What {
    pub(super) verb: &'static str,
    pub(super) group: Text,
    pub(super) version: Text,
    pub(super) resource: Text,
    pub(super) subresource: &'static str,
    pub(super) scope: &'static str,
    pub(super) component: &'static str,
}

/// Labels of watch events.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Resource {
    pub(super) group: Text,
    pub(super) version: Text,
    pub(super) resource: Text,
}

impl What {
    /// True for long-running requests.
    pub(super) fn is_long(&self) -> bool {
        matches!(self.verb, "WATCH" | "CONNECT")
    }

    /// True for requests that may change objects.
    pub(super) fn is_mutating(&self) -> bool {
        !matches!(self.verb, "GET" | "LIST" | "WATCH" | "HEAD" | "OPTIONS")
    }

    /// The resource labels.
    pub(super) fn resource(&self) -> Resource {
        let (group, version) = (self.group.clone(), self.version.clone());
        Resource { group, version, resource: self.resource.clone() }
    }
}

/// The labels of a request, and its `dryRun` label.
pub(super) fn of(method: &Method, uri: &Uri, content_type: &str, rows: &Rows) -> (What, &'static str) {
    let query = uri.query().unwrap_or_default();
    let has = |name: &str, values: &[&str]| {
        query.split('&').any(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            key == name && values.contains(&value)
        })
    };
    let nothing = What {
        verb: plain_verb(method),
        group: "".into(),
        version: "".into(),
        resource: "".into(),
        subresource: "",
        scope: "",
        component: "apiserver",
    };
    let dry_run = if has("dryRun", &["All"]) { "All" } else { "" };
    let Some(Target::Objects(objects)) = Target::parse(uri.path()) else { return (nothing, dry_run) };
    let Some(row) = rows.find(&objects.group, &objects.version, &objects.plural) else {
        return (nothing, dry_run);
    };
    let subresource = objects.subresource.as_deref().unwrap_or_default();
    let subresource = SUBRESOURCES.into_iter().find(|known| *known == subresource).unwrap_or_default();
    let is_watch = objects.is_watch || has("watch", &["true", "1", "t", "T", "True", "TRUE", ""]);
    let what = What {
        verb: verb(method, &objects, subresource, is_watch, content_type),
        group: row.group.clone(),
        version: row.version.clone(),
        resource: row.plural.clone(),
        subresource,
        scope: scope(&objects),
        ..nothing
    };
    (what, dry_run)
}

/// Group and resource of a storage key. They are empty if the resource is not served.
pub(super) fn of_key(key: &str, rows: &Rows) -> (String, String) {
    let stored = key.trim_start_matches("/registry/").split('/').next().unwrap_or_default();
    if !rows.holds(stored) {
        return (String::new(), String::new());
    }
    let (plural, group) = stored.split_once('.').unwrap_or((stored, ""));
    (group.to_owned(), plural.to_owned())
}

fn verb(
    method: &Method,
    objects: &Objects,
    subresource: &str,
    is_watch: bool,
    content_type: &str,
) -> &'static str {
    if CONNECTIONS.contains(&subresource) {
        return "CONNECT";
    }
    let has_name = objects.name.is_some();
    match plain_verb(method) {
        "GET" if is_watch => "WATCH",
        "GET" if !has_name => "LIST",
        "DELETE" if !has_name => "DELETECOLLECTION",
        "PATCH" if content_type.starts_with("application/apply-patch") => "APPLY",
        plain => plain,
    }
}

fn plain_verb(method: &Method) -> &'static str {
    const VERBS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    VERBS.into_iter().find(|verb| *verb == method.as_str()).unwrap_or("OTHER")
}

fn scope(objects: &Objects) -> &'static str {
    match (&objects.name, &objects.namespace) {
        (Some(_), _) => "resource",
        (None, Some(_)) => "namespace",
        (None, None) => "cluster",
    }
}
