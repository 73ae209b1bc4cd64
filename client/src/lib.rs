//! The API client of both programs: objects, lists and watches, over a connection or in this process.
//!
//! A [`Client`] sends requests through a [`transport::Transport`] to the first of its servers that answers. A
//! [`Reflector`] keeps a copy of a resource current. A [`serde::de::DeserializeSeed`] decodes the objects, so that
//! callers keep only the fields that they use.

pub mod backoff;
mod error;
mod kind;
mod list;
mod objects;
pub mod reflector;
mod request;
pub mod transport;
mod watch;

use std::marker::PhantomData;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

pub use self::error::{Error, root_cause};
pub use self::kind::Kind;
pub use self::objects::{DeleteOptions, Propagation};
pub use self::reflector::{Delta, Reflector, Versioned};
pub use self::request::{Client, Content};
pub use self::watch::{Event, Watch};

/// An object as a JSON map.
pub type Json = Map<String, Value>;

/// A seed that decodes whole objects of a type.
pub type Typed<T> = PhantomData<T>;

/// The media type of JSON.
pub const JSON: &str = "application/json";
/// The media type of a JSON merge patch.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// The media type of a server-side apply. JSON is YAML.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// The media type of a strategic merge patch, which merges keyed lists.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// Characters that are encoded in path segments and query values: all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes a path segment or a query value.
pub fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Limits of a client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Timeout for the headers of a response, and again for its body. It applies to each server separately.
    pub response_timeout: Duration,
    /// Maximum size of a response. A larger page of a list is requested again with half as many objects.
    pub max_response_bytes: usize,
    /// Number of objects per page of a list.
    pub page_size: usize,
}

impl Default for Limits {
    /// The default limits. The timeout is long because writes wait for the disk of the server. The page size is
    /// that of the stock clients, whose pages are far smaller than the limit.
    fn default() -> Self {
        Self {
            response_timeout: Duration::from_secs(30),
            max_response_bytes: 64 * 1024 * 1024,
            page_size: 500,
        }
    }
}

/// The objects that a list or watch covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The namespace; all namespaces if it is empty.
    pub namespace: String,
    /// A field selector, such as `metadata.name=a`; empty for all objects.
    pub fields: String,
    /// A label selector; empty for all objects.
    pub labels: String,
}

impl Scope {
    /// Selects the objects of a namespace, or of all namespaces if it is empty.
    pub fn namespace(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    /// Selects the objects of all namespaces that match a field selector.
    pub fn fields(selector: &str) -> Self {
        Self { fields: selector.to_owned(), ..Self::default() }
    }

    /// Selects one object.
    pub fn object(namespace: &str, name: &str) -> Self {
        Self { fields: format!("metadata.name={name}"), ..Self::namespace(namespace) }
    }

    /// Encodes the selectors as the end of a query.
    pub(crate) fn query(&self) -> String {
        let mut query = String::new();
        for (name, selector) in [("fieldSelector", &self.fields), ("labelSelector", &self.labels)] {
            if !selector.is_empty() {
                query = format!("{query}&{name}={}", percent_encoded(selector));
            }
        }
        query
    }
}

#[cfg(test)]
mod tests;
