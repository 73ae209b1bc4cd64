//! List requests: pages of a snapshot at one revision.

use std::sync::Arc;

use api::protobuf::encode;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::list_body::{EncodeItem, EncodedListBody, ListBody};
use crate::represent::{self, As, Format, Table};
use crate::request::{Include, ListOptions};
use crate::resource::Resource;
use crate::status::{CONTINUE, EXPIRED, Status};
use crate::watch_cache::{Object, Scope, WatchCache};

/// The revision in a continue token that resumes on the current state. No object has this revision.
const CURRENT_STATE: u64 = 0;

/// Maximum bytes of objects in a page, regardless of `limit`. Kubelets read lists of up to 16 MiB, so a page that
/// ends with a very large object still fits.
pub(crate) const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects of the page.
    pub objects: Vec<Object>,
    /// Revision of the snapshot.
    pub revision: u64,
    /// Start of the next page, or `None` at the end.
    next: Option<Place>,
}

/// The position that a continue token encodes: a revision and the last object of the previous page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    revision: u64,
    /// Number of remaining objects, if known.
    left: Option<usize>,
    namespace: String,
    name: String,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// 400 for an invalid token, 504 for a future revision, 410 for an expired token. The 410 contains a token that
    /// continues on the current state.
    pub fn read(
        store: &WatchCache,
        resource: &str,
        scope: &Scope,
        options: &ListOptions,
    ) -> Result<Self, Status> {
        let place = options.continue_from.as_deref().map(Place::decode).transpose()?;
        let snapshot = match (&place, options.revision) {
            (Some(place), _) if place.revision == CURRENT_STATE => store.snapshot(resource),
            (Some(place), _) => {
                refuse_future(store, place.revision)?;
                store.snapshot_at(resource, place.revision).map_err(|_| place.expired())?
            }
            (None, Some(revision)) if options.exact => {
                refuse_future(store, revision)?;
                store.snapshot_at(resource, revision)?
            }
            (None, revision) => {
                refuse_future(store, revision.unwrap_or_default())?;
                store.snapshot(resource)
            }
        };
        let after = place.as_ref().map(|place| (place.namespace.as_str(), place.name.as_str()));
        let matches = |object: &&Object| options.labels.matches(object) && options.fields.matches(object);
        let there: Box<dyn Iterator<Item = &Object>> = match options.fields.node() {
            Some(node) => Box::new(snapshot.of_node(node, scope, after)),
            None => Box::new(snapshot.after(scope, after)),
        };
        let mut found = there.filter(matches);
        // A client without a limit does not request further pages.
        let (limit, max_bytes) = options.limit.map_or((usize::MAX, usize::MAX), |limit| (limit, PAGE_BYTES));
        let (mut objects, mut bytes, mut is_whole) = (Vec::new(), 0, true);
        for object in found.by_ref() {
            bytes += object.json().len();
            if objects.len() >= limit || (bytes > max_bytes && !objects.is_empty()) {
                is_whole = false;
                break;
            }
            objects.push(object.clone());
        }
        let revision = snapshot.revision;
        let Some(last) = objects.last().filter(|_| !is_whole) else {
            return Ok(Self { objects, revision, next: None });
        };
        let left = (options.labels.is_empty() && options.fields.is_empty()).then(|| match &place {
            Some(Place { left: Some(left), .. }) => left.saturating_sub(objects.len()),
            Some(_) => 1 + found.count(),
            None => snapshot.count(scope) - objects.len(),
        });
        let next = Some(Place::of(revision, last, left));
        // Further pages use this snapshot.
        store.keep(resource, &snapshot);
        Ok(Self { objects, revision, next })
    }

    /// The stored bytes of all objects.
    pub(crate) fn bytes(&self) -> usize {
        self.objects.iter().map(|object| object.json().len()).sum()
    }

    /// The list metadata. `remainingItemCount` is set only without selectors, as in kube-apiserver.
    pub fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(place) = &self.next {
            metadata["continue"] = place.encode().into();
            if let Some(left) = place.left {
                metadata["remainingItemCount"] = left.into();
            }
        }
        metadata
    }

    /// Returns the list as a JSON body. Objects are encoded while it is sent, unless the resource converts them.
    pub fn into_body(self, resource: &Resource) -> Body {
        if resource.conversion.is_some() {
            return Body::from([&*self.json(resource), b"\n"].concat());
        }
        let head = self.head(&resource.list_kind, resource.api_version());
        Body::new(ListBody::new(head.into_bytes(), self.objects, resource.schema.is_some()))
    }

    /// The list as a protobuf body. Large lists are encoded while they are sent.
    ///
    /// # Errors
    /// 500 if an object cannot be encoded, 406 if the kind has no protobuf message.
    pub(crate) fn into_protobuf(
        self,
        resource: &Arc<Resource>,
        shape: As,
    ) -> Result<EncodedListBody, Status> {
        let (metadata, resource) = (self.metadata().to_string(), resource.clone());
        let (api_version, kind, encode): (_, _, EncodeItem) = match shape {
            As::Metadata(version) => {
                let encode = move |object: &Object, chunk: &mut Vec<u8>| {
                    let json = resource.json(object);
                    let metadata = represent::metadata_of(&json).as_bytes();
                    encode::list_item(chunk, &encode::partial_metadata(metadata).map_err(Status::internal)?);
                    Ok(())
                };
                (version.api_version().to_owned(), "PartialObjectMetadataList".to_owned(), Box::new(encode))
            }
            As::Object | As::Table(_) => {
                let names = (resource.api_version().to_owned(), resource.list_kind.to_string());
                let encode = move |object: &Object, chunk: &mut Vec<u8>| {
                    let json = resource.json(object);
                    let message = encode::message(resource.api_version(), &resource.kind, &json);
                    let message = message.map_err(Status::internal)?.ok_or_else(Status::not_acceptable)?;
                    encode::list_item(chunk, &message);
                    Ok(())
                };
                (names.0, names.1, Box::new(encode))
            }
        };
        let head = |items_bytes| {
            let head = encode::list_head(&api_version, &kind, metadata.as_bytes(), items_bytes);
            head.map_err(Status::internal)
        };
        EncodedListBody::protobuf(head, self.objects, encode)
    }

    /// The list as a YAML body of unknown size, for large lists. Objects are encoded while it is sent.
    ///
    /// # Errors
    /// 500 if the metadata cannot be encoded.
    pub(crate) fn into_yaml(self, resource: &Arc<Resource>, shape: As) -> Result<EncodedListBody, Status> {
        let (kind, api_version) = match shape {
            As::Metadata(version) => ("PartialObjectMetadataList", version.api_version()),
            As::Object | As::Table(_) => (&*resource.list_kind, resource.api_version()),
        };
        let metadata = self.metadata();
        let head = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        let mut head = serde_yaml::to_string(&head).map_err(Status::internal)?.into_bytes();
        head.extend_from_slice(if self.objects.is_empty() { b"items: []\n" } else { b"items:\n" });
        let resource = resource.clone();
        let encode = move |object: &Object, chunk: &mut Vec<u8>| {
            let item = match shape {
                As::Metadata(version) => represent::metadata_json(&resource.json(object), version).into(),
                As::Object | As::Table(_) => resource.item_json(object),
            };
            let item: Value = serde_json::from_slice(&item).map_err(Status::internal)?;
            serde_yaml::to_io_writer(chunk, &[item]).map_err(Status::internal)
        };
        Ok(EncodedListBody::unmeasured(head, self.objects, Box::new(encode)))
    }

    /// Encodes the whole list: a table, or partial metadata as JSON.
    ///
    /// # Errors
    /// 500 if an object cannot be encoded.
    pub fn encoded(&self, resource: &Resource, format: Format, include: Include) -> Result<Vec<u8>, Status> {
        let json = match format.shape {
            As::Object => self.json(resource),
            As::Metadata(version) => {
                let items = self
                    .objects
                    .iter()
                    .map(|object| represent::metadata_json(&resource.json(object), version));
                self.joined("PartialObjectMetadataList", version.api_version(), items)
            }
            As::Table(version) => {
                let table = Table { version, include, with_columns: true, now: Timestamp::now() };
                let objects = self.objects.iter().map(|object| resource.tree(object));
                table.of(resource.columns.as_ref(), objects, self.metadata()).to_string().into_bytes()
            }
        };
        represent::encoded(format.encoding, &json)
    }

    /// Returns the list as JSON, concatenated from the stored bytes of the objects.
    pub fn json(&self, resource: &Resource) -> Vec<u8> {
        let items = self.objects.iter().map(|object| resource.item_json(object));
        self.joined(&resource.list_kind, resource.api_version(), items)
    }

    fn joined<I: AsRef<[u8]>>(
        &self,
        kind: &str,
        api_version: &str,
        items: impl Iterator<Item = I>,
    ) -> Vec<u8> {
        let head = self.head(kind, api_version);
        let bytes: usize = self.objects.iter().map(|object| object.json().len() + 1).sum();
        let mut json = Vec::with_capacity(head.len() + bytes + 3);
        json.extend_from_slice(head.as_bytes());
        for (at, item) in items.enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend_from_slice(item.as_ref());
        }
        json.extend_from_slice(b"]}");
        json
    }

    /// The JSON of the list before its items.
    fn head(&self, kind: &str, api_version: &str) -> String {
        format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{},"items":["#, self.metadata())
    }
}

/// Rejects a future revision.
///
/// # Errors
/// 504 with the cause that clients look for.
pub fn refuse_future(store: &WatchCache, revision: u64) -> Result<(), Status> {
    let current = store.revision();
    if revision > current { Err(Status::from_the_future(revision, current)) } else { Ok(()) }
}

impl Place {
    fn of(revision: u64, object: &Object, left: Option<usize>) -> Self {
        Self { revision, left, namespace: object.namespace().to_owned(), name: object.name().to_owned() }
    }

    fn encode(&self) -> String {
        let left = self.left.map(|left| left.to_string()).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(format!("{}/{left}/{}/{}", self.revision, self.namespace, self.name))
    }

    /// The error for an expired token. It contains a token that continues at the same position on the current
    /// state.
    fn expired(&self) -> Status {
        let message = "The provided continue parameter is too old to display a consistent list result. Start a new \
                       list without the continue parameter, or use the token in this response to continue on the \
                       current state, which includes all changes since the first page.";
        let token = Self { revision: CURRENT_STATE, left: None, ..self.clone() }.encode();
        Status { details: Some(json!({CONTINUE: token})), ..Status::new(StatusCode::GONE, EXPIRED, message) }
    }

    fn decode(token: &str) -> Result<Self, Status> {
        let read = || {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let mut parts = text.splitn(4, '/');
            let (revision, left) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok());
            Some(Self { revision, left, namespace: parts.next()?.to_owned(), name: parts.next()?.to_owned() })
        };
        read().ok_or_else(|| Status::bad_request("continue key is not valid: list again without it"))
    }
}
