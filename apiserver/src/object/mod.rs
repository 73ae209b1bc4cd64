//! Encoded objects: their JSON, with the revision inserted.

mod field;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

pub use self::field::{Field, FieldValue, Fields, NODE_NAME, Source, Text};

/// The content of an object to be written. Managed fields (JSON) are inside the object or separate.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The object as JSON.
    pub object: &'a Map<String, Value>,
    /// Managed fields; empty if they are inside the object or absent.
    pub record: &'a [u8],
}

impl<'a> From<&'a Map<String, Value>> for Content<'a> {
    fn from(object: &'a Map<String, Value>) -> Self {
        Self { object, record: &[] }
    }
}

/// Data that is extracted when an object is written, so that lists and watches need not decode it.
#[derive(Debug, PartialEq, Eq)]
struct Index {
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    is_terminating: bool,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Fields,
    /// Values of the selectable fields.
    values: Box<[Box<str>]>,
    /// Offset in the JSON after `apiVersion` and `kind`.
    type_ends: u32,
    /// Range of the managed fields in the JSON, including the name and the trailing comma.
    record: (u32, u32),
}

/// JSON name of the managed fields.
const RECORD: &[u8] = br#""managedFields":"#;

/// An encoded object without its revision.
#[derive(Clone, Debug)]
pub struct Draft {
    head: Vec<u8>,
    tail: Vec<u8>,
    index: Arc<Index>,
}

impl Draft {
    /// Encodes an object; `fields` are the selectable fields to index.
    ///
    /// `metadata.resourceVersion` is dropped; the storage assigns it.
    pub fn new<'a>(content: impl Into<Content<'a>>, fields: &Fields) -> Self {
        let Content { object, record } = content.into();
        let metadata = object.get("metadata").and_then(Value::as_object);
        let mut head = Vec::with_capacity(1024);
        let mut tail = Vec::with_capacity(1024);
        // Type first, then metadata: clients that read only a prefix rely on this order.
        head.push(b'{');
        for name in ["apiVersion", "kind"] {
            if let Some(value) = object.get(name) {
                member(&mut head, name, value);
                head.push(b',');
            }
        }
        let type_ends = head.len();
        head.extend_from_slice(br#""metadata":{"#);
        for (name, value) in metadata.into_iter().flatten() {
            if name != "resourceVersion" && name != "managedFields" {
                member(&mut head, name, value);
                head.push(b',');
            }
        }
        let begins = head.len();
        let inside = metadata.and_then(|metadata| metadata.get("managedFields"));
        if let (Some(inside), true) = (inside, record.is_empty()) {
            member(&mut head, "managedFields", inside);
            head.push(b',');
        } else if !record.is_empty() {
            head.extend_from_slice(RECORD);
            head.extend_from_slice(record);
            head.push(b',');
        }
        let at = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let record = (at(begins), at(head.len()));
        head.extend_from_slice(br#""resourceVersion":""#);
        tail.extend_from_slice(br#""}"#);
        for (name, value) in object {
            if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                tail.push(b',');
                member(&mut tail, name, value);
            }
        }
        tail.push(b'}');

        let labels = metadata.and_then(|m| m.get("labels")).and_then(Value::as_object);
        let labels = labels
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())))
            .collect();
        let values = fields.iter().map(|field| field.value_of(object)).collect();
        let text =
            |name| metadata.and_then(|m| m.get(name)).and_then(Value::as_str).unwrap_or_default().into();
        let index = Index {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            is_terminating: metadata.is_some_and(|metadata| metadata.contains_key("deletionTimestamp")),
            labels,
            fields: fields.clone(),
            values,
            type_ends: at(type_ends),
            record,
        };
        Self { head, tail, index: Arc::new(index) }
    }

    /// `metadata.namespace`, empty if absent.
    pub fn namespace(&self) -> &str {
        &self.index.namespace
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.index.name
    }

    /// The indexed fields.
    pub(crate) fn fields(&self) -> &Fields {
        &self.index.fields
    }

    /// Upper bound of the length of [`Self::stored`].
    pub fn size(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// True if the object is terminating.
    pub fn is_terminating(&self) -> bool {
        self.index.is_terminating
    }

    /// The object as it is stored: JSON without a revision.
    pub fn stored(&self) -> Vec<u8> {
        let empty = br#""resourceVersion":""#.len();
        let head = &self.head[..self.head.len() - empty];
        let head = head.strip_suffix(b",").unwrap_or(head);
        // The tail starts with the closing quote of the revision.
        [head, &self.tail[1..]].concat()
    }

    /// Returns the object at this revision.
    pub(crate) fn at(&self, revision: u64) -> Object {
        let digits = revision.to_string();
        let mut json = Vec::with_capacity(self.head.len() + digits.len() + self.tail.len());
        json.extend_from_slice(&self.head);
        json.extend_from_slice(digits.as_bytes());
        json.extend_from_slice(&self.tail);
        Object { json: json.into(), revision, splice: self.head.len(), index: self.index.clone() }
    }
}

/// An object at a revision. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct Object {
    json: Bytes,
    revision: u64,
    /// Offset of the revision in `json`.
    splice: usize,
    index: Arc<Index>,
}

impl Object {
    /// The JSON, including `metadata.resourceVersion`.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The JSON without `apiVersion` and `kind`.
    pub fn json_without_type(&self) -> Vec<u8> {
        [b"{", self.fields_json()].concat()
    }

    /// The JSON after the opening brace, `apiVersion` and `kind`.
    pub(crate) fn fields_json(&self) -> &[u8] {
        self.json.get(self.index.type_ends as usize..).unwrap_or_default()
    }

    /// Revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// `metadata.namespace`, empty if absent.
    pub fn namespace(&self) -> &str {
        &self.index.namespace
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.index.name
    }

    /// `metadata.uid`, empty if absent.
    pub fn uid(&self) -> &str {
        &self.index.uid
    }

    /// True when the object is terminating.
    pub fn is_terminating(&self) -> bool {
        self.index.is_terminating
    }

    /// Decodes the object.
    pub fn decode(&self) -> Map<String, Value> {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Decodes the object without managed fields, which are often its largest part; see [`Self::record`].
    pub fn decode_without_managed_fields(&self) -> Map<String, Value> {
        let (begins, ends) = self.record_place();
        match (self.json.get(..begins), self.json.get(ends..)) {
            (Some(before), Some(after)) if begins < ends => {
                serde_json::from_slice(&[before, after].concat()).unwrap_or_default()
            }
            _ => self.decode(),
        }
    }

    /// `metadata.managedFields` as JSON; empty if absent.
    pub fn record(&self) -> &[u8] {
        let (begins, ends) = self.record_place();
        self.json.get(begins + RECORD.len()..ends.saturating_sub(1)).unwrap_or_default()
    }

    fn record_place(&self) -> (usize, usize) {
        let (begins, ends) = self.index.record;
        (begins as usize, ends as usize)
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.index.labels.iter().find(|(n, _)| &**n == name).map(|(_, value)| &**value)
    }

    /// The value of an indexed field, possibly empty, or `None` if the field is not indexed.
    pub fn field(&self, path: &str) -> Option<&str> {
        let at = self.index.fields.iter().position(|known| known.label == path)?;
        self.index.values.get(at).map(|value| &**value)
    }

    /// The value of a field selector path: name, namespace or an indexed field; empty if absent.
    pub fn value(&self, path: &str) -> &str {
        match path {
            "metadata.name" => self.name(),
            "metadata.namespace" => self.namespace(),
            path => self.field(path).unwrap_or_default(),
        }
    }

    /// True if the draft has the same content.
    pub(crate) fn equals(&self, draft: &Draft) -> bool {
        let (head, tail) = self.split_at_revision();
        head == draft.head && tail == draft.tail
    }

    /// The object at another revision, for deletion events.
    pub(crate) fn at(&self, revision: u64) -> Self {
        let (head, tail) = self.split_at_revision();
        Draft { head: head.to_vec(), tail: tail.to_vec(), index: self.index.clone() }.at(revision)
    }

    fn split_at_revision(&self) -> (&[u8], &[u8]) {
        let digits = self.revision.checked_ilog10().unwrap_or(0) as usize + 1;
        (&self.json[..self.splice], &self.json[self.splice + digits..])
    }
}

fn member(into: &mut Vec<u8>, name: &str, value: &Value) {
    serde_json::to_writer(&mut *into, name).expect("a string in memory can be written");
    into.push(b':');
    serde_json::to_writer(into, value).expect("a tree in memory can be written");
}
