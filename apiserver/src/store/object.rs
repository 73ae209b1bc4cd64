//! An object as it is kept and sent: its JSON, encoded once, with its revision spliced in.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::resource::Fields;

/// What is written: an object, and beside it who owns what of it (`metadata.managedFields`, as JSON), which may also stand
/// in the object itself.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The object.
    pub object: &'a Map<String, Value>,
    /// Empty when it stands in the object, or nobody owns anything.
    pub record: &'a [u8],
}

impl<'a> From<&'a Map<String, Value>> for Content<'a> {
    fn from(object: &'a Map<String, Value>) -> Self {
        Self { object, record: &[] }
    }
}

/// What selectors ask about an object, taken out when it is written so that a list decodes nothing.
#[derive(Debug, PartialEq, Eq)]
struct Index {
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    is_doomed: bool,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Fields,
    /// The value of each of the fields.
    values: Box<[Box<str>]>,
    /// Where in its JSON the record of its owners stands, with its name and the comma after it.
    record: (u32, u32),
}

/// What stands before the record.
const RECORD: &[u8] = br#""managedFields":"#;

/// An object about to be written: encoded, but for the revision it will get.
#[derive(Clone, Debug)]
pub struct Draft {
    head: Vec<u8>,
    tail: Vec<u8>,
    index: Arc<Index>,
}

impl Draft {
    /// Encodes an object; `fields` are the paths that field selectors may ask for (`status.phase`).
    ///
    /// Whatever `metadata.resourceVersion` it bears is dropped: the store gives it one.
    pub fn new<'a>(content: impl Into<Content<'a>>, fields: &Fields) -> Self {
        let Content { object, record } = content.into();
        let metadata = object.get("metadata").and_then(Value::as_object);
        let mut head = Vec::with_capacity(1024);
        let mut tail = Vec::with_capacity(1024);
        // The type comes first and the metadata second, whatever the order of the map: clients that read a prefix count on it.
        head.push(b'{');
        for name in ["apiVersion", "kind"] {
            if let Some(value) = object.get(name) {
                member(&mut head, name, value);
                head.push(b',');
            }
        }
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
        let values = fields.iter().map(|path| field(object, path)).collect();
        let text =
            |name| metadata.and_then(|m| m.get(name)).and_then(Value::as_str).unwrap_or_default().into();
        let index = Index {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            is_doomed: metadata.is_some_and(|metadata| metadata.contains_key("deletionTimestamp")),
            labels,
            fields: fields.clone(),
            values,
            record,
        };
        Self { head, tail, index: Arc::new(index) }
    }

    /// `metadata.namespace`, empty when it has none.
    pub fn namespace(&self) -> &str {
        &self.index.namespace
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.index.name
    }

    /// What field selectors may ask of it.
    pub(crate) fn fields(&self) -> &Fields {
        &self.index.fields
    }

    /// What a durable store keeps: the object in JSON, without a revision.
    pub fn stored(&self) -> Vec<u8> {
        let empty = br#""resourceVersion":""#.len();
        let head = &self.head[..self.head.len() - empty];
        let head = head.strip_suffix(b",").unwrap_or(head);
        // The tail begins with the quote that ends the revision.
        [head, &self.tail[1..]].concat()
    }

    /// The object at that revision.
    pub(crate) fn at(&self, revision: u64) -> Object {
        let digits = revision.to_string();
        let mut json = Vec::with_capacity(self.head.len() + digits.len() + self.tail.len());
        json.extend_from_slice(&self.head);
        json.extend_from_slice(digits.as_bytes());
        json.extend_from_slice(&self.tail);
        Object { json: json.into(), revision, splice: self.head.len(), index: self.index.clone() }
    }
}

/// An object at one revision. Cloning shares its bytes.
#[derive(Clone, Debug)]
pub struct Object {
    json: Bytes,
    revision: u64,
    /// Where the digits of the revision begin in `json`.
    splice: usize,
    index: Arc<Index>,
}

impl Object {
    /// The object in JSON, `metadata.resourceVersion` included.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The revision that wrote it.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// `metadata.namespace`, empty when it has none.
    pub fn namespace(&self) -> &str {
        &self.index.namespace
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.index.name
    }

    /// `metadata.uid`, empty when it has none.
    pub fn uid(&self) -> &str {
        &self.index.uid
    }

    /// True when it is being deleted.
    pub fn is_doomed(&self) -> bool {
        self.index.is_doomed
    }

    /// The object as a tree.
    pub fn decode(&self) -> Map<String, Value> {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The same without the record of its owners, which is most of many an object: see [`Self::record`].
    pub fn decode_bare(&self) -> Map<String, Value> {
        let (begins, ends) = self.record_place();
        match (self.json.get(..begins), self.json.get(ends..)) {
            (Some(before), Some(after)) if begins < ends => {
                serde_json::from_slice(&[before, after].concat()).unwrap_or_default()
            }
            _ => self.decode(),
        }
    }

    /// Who owns what of it, `metadata.managedFields` as JSON; empty when nobody owns anything.
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

    /// The value of a field that selectors may ask for, empty when it is not set; `None` when it may not be asked for.
    pub fn field(&self, path: &str) -> Option<&str> {
        let at = self.index.fields.iter().position(|known| known == path)?;
        self.index.values.get(at).map(|value| &**value)
    }

    /// What a field selector compares: the name, the namespace, or one of those fields, empty where it is not set.
    pub fn value(&self, path: &str) -> &str {
        match path {
            "metadata.name" => self.name(),
            "metadata.namespace" => self.namespace(),
            path => self.field(path).unwrap_or_default(),
        }
    }

    /// True when writing the draft would change nothing.
    pub(crate) fn is(&self, draft: &Draft) -> bool {
        let (head, tail) = self.around();
        head == draft.head && tail == draft.tail
    }

    /// The same object with another revision, as watchers see one that was deleted.
    pub(crate) fn at(&self, revision: u64) -> Self {
        let (head, tail) = self.around();
        Draft { head: head.to_vec(), tail: tail.to_vec(), index: self.index.clone() }.at(revision)
    }

    fn around(&self) -> (&[u8], &[u8]) {
        let digits = self.revision.checked_ilog10().unwrap_or(0) as usize + 1;
        (&self.json[..self.splice], &self.json[self.splice + digits..])
    }
}

fn member(into: &mut Vec<u8>, name: &str, value: &Value) {
    serde_json::to_writer(&mut *into, name).expect("a string in memory can be written");
    into.push(b':');
    serde_json::to_writer(into, value).expect("a tree in memory can be written");
}

fn field(object: &Map<String, Value>, path: &str) -> Box<str> {
    let mut steps = path.split('.');
    let first = steps.next().and_then(|name| step(object, name));
    match steps.try_fold(first, |value, name| value.map(|v| v.as_object().and_then(|v| step(v, name)))) {
        Some(Some(Value::String(text))) => text.as_str().into(),
        Some(Some(value @ (Value::Bool(_) | Value::Number(_)))) => value.to_string().into(),
        _ => "".into(),
    }
}

/// One step of a path: a field, or with `[0]` behind it the first element of the list that it is.
fn step<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    match name.strip_suffix("[0]") {
        Some(list) => fields.get(list)?.as_array()?.first(),
        None => fields.get(name),
    }
}
