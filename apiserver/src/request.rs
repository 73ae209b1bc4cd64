//! What a request asks for, read from its path and query alone.

use std::time::Duration;

use api::strategy::Cause;
use axum::extract::Query;
use http::header::HeaderName;
use http::{HeaderMap, Uri};
use jiff::SignedDuration;

use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;

/// What a path names.
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

/// Objects of one resource: all of them, a namespace's, or one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// API group, empty for the core one.
    pub group: String,
    /// Version.
    pub version: String,
    /// Name of the resource in paths.
    pub plural: String,
    /// Namespace, where the path names one.
    pub namespace: Option<String>,
    /// Name, where the path names one object.
    pub name: Option<String>,
    /// Part of the object, where the path names one.
    pub subresource: Option<String>,
}

impl Target {
    /// Reads a path; `None` when it is none of ours.
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
        let own = |text: &str| Some(text.to_owned());
        let base = Self { group: group.to_owned(), version: version.to_owned(), ..Self::default() };
        let (namespace, rest) = match rest {
            // The namespace itself and its parts, not what lies in it.
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

/// The text that a part of a path stands for; `None` when it is none.
pub(crate) fn decode_percent(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// How a list or a watch is wanted.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Which labels.
    pub labels: LabelSelector,
    /// Which fields.
    pub fields: FieldSelector,
    /// At most so many objects in one answer.
    pub limit: Option<usize>,
    /// Where the last answer ended.
    pub continue_from: Option<String>,
    /// `resourceVersion`, `None` when absent or empty.
    pub revision: Option<u64>,
    /// The list is to be of just that revision: `resourceVersionMatch=Exact`, or pieces from there on.
    pub exact: bool,
    /// Send what changes rather than what is.
    pub watch: bool,
    /// End the watch after so long.
    pub timeout: Option<Duration>,
    /// Send bookmarks.
    pub bookmarks: bool,
    /// Begin the watch with everything there is, and say where that ends.
    pub initial_events: bool,
    /// What of the object goes into a table's row.
    pub include: Include,
}

/// How objects are to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// Whole.
    Json,
    /// As rows of a `Table`.
    Table,
    /// Without anything but their metadata.
    Metadata,
}

/// What of the object goes into a table's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl ListOptions {
    /// Reads the query.
    ///
    /// # Errors
    /// 400 that names the parameter and what is wrong with it.
    pub fn parse(uri: &Uri) -> Result<Self, Status> {
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
                "watch" => options.watch = boolean(&value),
                "timeoutSeconds" => {
                    let seconds: u32 = number(&name, &value)?;
                    options.timeout = Some(Duration::from_secs(seconds.into())).filter(|t| !t.is_zero());
                }
                "allowWatchBookmarks" => options.bookmarks = boolean(&value),
                "sendInitialEvents" => initial_events = Some(boolean(&value)),
                "includeObject" => options.include = include(&value)?,
                _ => {}
            }
        }
        options.exact = options.means_exactly(&resource_match, initial_events)?;
        if options.revision == Some(0) && options.continue_from.is_none() {
            // Any state will do: all of it is at hand.
            options.limit = None;
        }
        options.initial_events = initial_events == Some(true);
        Ok(options)
    }

    /// Whether the list is to be of just that revision, by what the revision is to be matched with.
    ///
    /// # Errors
    /// 400 or 422, in the words of the stock server, for parameters that do not go together.
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
        // What comes in pieces comes from one revision, so that it always meant this one.
        Ok(resource_match == "Exact" || (resource_match.is_empty() && has_revision && self.limit.is_some()))
    }
}

/// How long a client allows its request to take (`timeout=30s`); `None` when it does not say, or allows any time.
///
/// # Errors
/// 400 for what is no duration.
pub(crate) fn timeout(uri: &Uri) -> Result<Option<Duration>, Status> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let value = pairs.filter_map(|pair| pair.strip_prefix("timeout=")).next().unwrap_or_default();
    if matches!(value, "" | "0") {
        return Ok(None);
    }
    let read = value.parse::<SignedDuration>().ok().and_then(|read| Duration::try_from(read).ok());
    let read = read.ok_or_else(|| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - \"{value}\" is no duration such as 30s"
        ))
    })?;
    Ok(Some(read).filter(|read| !read.is_zero()))
}

/// What a header lists, of which there may be several.
pub(crate) fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Status> {
    value.parse().map_err(|_| Status::bad_request(format!("{name}: \"{value}\" is not a number it can take")))
}

/// What a switch in a query says, as the stock server reads it: Python's `True` is one, and so is the name alone.
pub(crate) fn boolean(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

fn include(value: &str) -> Result<Include, Status> {
    match value {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        _ => {
            Err(Status::bad_request(format!("includeObject: \"{value}\" is none of None, Metadata, Object")))
        }
    }
}

#[cfg(test)]
mod tests;
