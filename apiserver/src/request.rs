//! Parses the path and query of a request.

use std::time::Duration;

use api::strategy::Cause;
use axum::extract::Query;
use http::header::HeaderName;
use http::{HeaderMap, Uri};
use jiff::SignedDuration;

use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/v1` or `/apis/{group}/{version}`.
    GroupVersion(String, String),
    /// `/version`.
    Version,
    /// Objects of a resource.
    Objects(Objects),
}

/// The objects of a request: a collection, the collection of a namespace, or one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// API group, empty for the core group.
    pub group: String,
    /// API version of the group.
    pub version: String,
    /// Plural name.
    pub plural: String,
    /// Namespace in the path.
    pub namespace: Option<String>,
    /// Object name in the path.
    pub name: Option<String>,
    /// Subresource in the path.
    pub subresource: Option<String>,
    /// True for a legacy watch path, such as `/api/v1/watch/pods`.
    pub is_watch: bool,
}

impl Target {
    /// Parses a path. Returns `None` if it is none of these.
    pub fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> =
            path.trim_matches('/').split('/').map(decode_percent).collect::<Option<_>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let objects = |group: &str, version: &str, rest: &[&str]| {
            Objects::parse(group, version, rest).map(Self::Objects)
        };
        match parts[..] {
            ["version"] => Some(Self::Version),
            ["api"] => Some(Self::CoreVersions),
            ["apis"] => Some(Self::Groups),
            ["api", version] => Some(Self::GroupVersion(String::new(), version.to_owned())),
            ["apis", group] => Some(Self::Group(group.to_owned())),
            ["apis", group, version] => Some(Self::GroupVersion(group.to_owned(), version.to_owned())),
            ["api", version, ref rest @ ..] => objects("", version, rest),
            ["apis", group, version, ref rest @ ..] => objects(group, version, rest),
            _ => None,
        }
    }
}

impl Objects {
    fn parse(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        if let ["watch", rest @ ..] = rest {
            let watched = Self::parse(group, version, rest)?;
            let is_whole = watched.subresource.is_none() && !watched.is_watch;
            return is_whole.then_some(Self { is_watch: true, ..watched });
        }
        let own = |text: &str| Some(text.to_owned());
        let base = Self { group: group.to_owned(), version: version.to_owned(), ..Self::default() };
        let (namespace, rest) = match rest {
            // The Namespace object and its subresources, not a namespaced resource.
            ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (own(namespace), rest),
            rest => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, own(name), None),
            [plural, name, subresource] => (plural, own(name), own(subresource)),
            _ => return None,
        };
        Some(Self { plural: (*plural).to_owned(), namespace, name, subresource, ..base })
    }
}

/// Decodes a part of a path. Returns `None` if the encoding is invalid or the bytes are not UTF-8.
pub(crate) fn decode_percent(text: &str) -> Option<String> {
    api::percent::decode(text).and_then(|bytes| String::from_utf8(bytes).ok())
}

/// Options of list and watch.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Label selector.
    pub labels: LabelSelector,
    /// Field selector.
    pub fields: FieldSelector,
    /// Page size.
    pub limit: Option<usize>,
    /// Continue token.
    pub continue_from: Option<String>,
    /// `resourceVersion`, `None` when absent or empty.
    pub revision: Option<u64>,
    /// True if the list must have exactly that revision: with `resourceVersionMatch=Exact`, or for pages with a
    /// revision.
    pub exact: bool,
    /// True for a watch, false for a list.
    pub watch: bool,
    /// Watch timeout.
    pub timeout: Option<Duration>,
    /// True if the watch may send bookmarks.
    pub bookmarks: bool,
    /// True if the watch starts with the current objects and then a bookmark.
    pub initial_events: bool,
    /// The part of the object that table rows contain.
    pub include: Include,
}

/// The part of the object that a table row contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// No part of the object.
    None,
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl ListOptions {
    /// Parses the query. `is_watch` is true for legacy watch paths.
    ///
    /// # Errors
    /// 400 that names the invalid parameter.
    pub fn parse(uri: &Uri, is_watch: bool) -> Result<Self, Status> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Status::bad_request(format!("cannot read the query: {error}")))?;
        let mut options = Self::default();
        let mut resource_match = String::new();
        let mut initial_events = None;
        for (name, value) in pairs.0 {
            match name.as_str() {
                "labelSelector" => options.labels = LabelSelector::parse(&value)?,
                "fieldSelector" => options.fields = FieldSelector::parse(&value)?,
                "limit" => options.limit = Some(number(&name, &value)?).filter(|limit| *limit > 0),
                "continue" => options.continue_from = Some(value).filter(|token| !token.is_empty()),
                "resourceVersion" if value.is_empty() => {}
                "resourceVersion" => options.revision = Some(number(&name, &value)?),
                "resourceVersionMatch" => resource_match = value,
                "watch" => options.watch = query_switch(&value),
                "timeoutSeconds" => {
                    let seconds: u32 = number(&name, &value)?;
                    options.timeout = Some(Duration::from_secs(seconds.into())).filter(|t| !t.is_zero());
                }
                "allowWatchBookmarks" => options.bookmarks = query_switch(&value),
                "sendInitialEvents" => initial_events = Some(query_switch(&value)),
                "includeObject" => options.include = include(&value)?,
                _ => {}
            }
        }
        options.watch |= is_watch;
        options.exact = options.means_exactly(&resource_match, initial_events)?;
        if options.revision == Some(0) && options.continue_from.is_none() {
            // Revision 0 accepts any state, and the cache can return all of it.
            options.limit = None;
        }
        options.initial_events = initial_events == Some(true);
        Ok(options)
    }

    /// Parses `includeObject`, which also applies to writes that are answered with a table.
    ///
    /// # Errors
    /// 400 for values other than `None`, `Metadata` and `Object`.
    pub fn include(uri: &Uri) -> Result<Include, Status> {
        let pairs = uri.query().unwrap_or_default().split('&');
        let value = pairs.filter_map(|pair| pair.strip_prefix("includeObject=")).next();
        include(value.unwrap_or_default())
    }

    /// Whether the list must have exactly the requested revision.
    ///
    /// # Errors
    /// 400 or 422 for invalid combinations, with the message of kube-apiserver.
    fn means_exactly(&self, resource_match: &str, initial_events: Option<bool>) -> Result<bool, Status> {
        const FIELD: &str = "resourceVersionMatch";
        let mut causes = Vec::new();
        let mut forbid = |field: &str, why: &str| causes.push(Cause::forbidden(field, why));
        if !resource_match.is_empty() && self.continue_from.is_some() {
            forbid(FIELD, "resourceVersionMatch is forbidden when continue is provided");
        }
        if self.watch {
            match (resource_match, initial_events) {
                ("", None) | ("NotOlderThan", Some(_)) => {}
                (_, None) => forbid(
                    FIELD,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
                (_, Some(_)) => {
                    forbid(FIELD, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
                }
            }
            if !matches!(resource_match, "" | "NotOlderThan") {
                causes.push(Cause::not_supported(FIELD, resource_match, &["NotOlderThan"]));
            }
        } else {
            if !resource_match.is_empty() && self.revision.is_none() {
                forbid(FIELD, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if resource_match == "Exact" && self.revision == Some(0) {
                forbid(FIELD, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if initial_events.is_some() {
                forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
            }
            if !matches!(resource_match, "" | "Exact" | "NotOlderThan") {
                causes.push(Cause::not_supported(FIELD, resource_match, &["Exact", "NotOlderThan", ""]));
            }
        }
        if !causes.is_empty() {
            return Err(Status::invalid_kind("meta.k8s.io", "ListOptions", "", &causes));
        }
        let has_revision = self.revision.is_some_and(|revision| revision > 0);
        if has_revision && self.continue_from.is_some() && !self.watch {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        // A paged list with a revision has always been exact.
        Ok(resource_match == "Exact" || (resource_match.is_empty() && has_revision && self.limit.is_some()))
    }
}

/// The `timeout` query parameter, or `None` if absent or zero.
///
/// # Errors
/// 400 for an invalid duration.
pub(crate) fn timeout(uri: &Uri) -> Result<Option<Duration>, Status> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let value = pairs.filter_map(|pair| pair.strip_prefix("timeout=")).next().unwrap_or_default();
    if matches!(value, "" | "0") {
        return Ok(None);
    }
    let read = value.parse::<SignedDuration>().ok().and_then(|read| Duration::try_from(read).ok());
    let read = read.ok_or_else(|| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - \"{value}\" is not a duration such as 30s"
        ))
    })?;
    Ok(Some(read).filter(|read| !read.is_zero()))
}

/// The comma-separated values of a header.
pub fn header_values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Status> {
    value.parse().map_err(|_| Status::bad_request(format!("{name}: \"{value}\" is not a valid number")))
}

/// Parses a boolean query parameter that is present. It is true unless it is `0` or `false`, as in
/// `Convert_Slice_string_To_bool` of apimachinery.
pub fn query_switch(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

fn include(value: &str) -> Result<Include, Status> {
    match value {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        _ => Err(Status::bad_request(format!("includeObject: \"{value}\" must be None, Metadata or Object"))),
    }
}

#[cfg(test)]
mod tests;
