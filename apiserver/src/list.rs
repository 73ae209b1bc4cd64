//! Lists: a picture of the store at one revision, handed out whole or in pieces.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Value, json};

use crate::request::ListOptions;
use crate::resource::Resource;
use crate::status::{CONTINUE, EXPIRED, Status};
use crate::store::{Memory, Object, Scope};

/// The revision of a token that goes on with whatever is there: no object was ever written at it.
const NOW: u64 = 0;

/// One piece of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects.
    pub objects: Vec<Object>,
    /// The revision of the picture.
    pub revision: u64,
    /// Where the next piece begins; `None` at the end.
    next: Option<Place>,
}

/// A place in a picture: its revision and the last object handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    revision: u64,
    /// How many objects are left, where that is known.
    left: Option<usize>,
    namespace: String,
    name: String,
}

impl Page {
    /// Reads the piece of a list that the options ask for.
    ///
    /// # Errors
    /// 400 for a token that is none of ours, 410 for one too old (with another one that goes on), 504 for a revision that is still to come.
    pub fn read(
        store: &Memory,
        resource: &str,
        scope: &Scope,
        options: &ListOptions,
    ) -> Result<Self, Status> {
        let place = options.continue_from.as_deref().map(Place::decode).transpose()?;
        let picture = match (&place, options.revision) {
            (Some(place), _) if place.revision == NOW => store.picture(resource),
            (Some(place), _) => {
                refuse_future(store, place.revision)?;
                store.picture_at(resource, place.revision).map_err(|_| place.expired())?
            }
            (None, Some(revision)) if options.exact => {
                refuse_future(store, revision)?;
                store.picture_at(resource, revision)?
            }
            (None, revision) => {
                refuse_future(store, revision.unwrap_or_default())?;
                store.picture(resource)
            }
        };
        let after = place.as_ref().map(|place| (place.namespace.as_str(), place.name.as_str()));
        let matches = |object: &&Object| options.labels.matches(object) && options.fields.matches(object);
        let there: Box<dyn Iterator<Item = &Object>> = match options.fields.node() {
            Some(node) => Box::new(picture.of_node(node, scope, after)),
            None => Box::new(picture.after(scope, after)),
        };
        let mut found = there.filter(matches);
        let limit = options.limit.unwrap_or(usize::MAX);
        let objects: Vec<_> = found.by_ref().take(limit).cloned().collect();
        let is_whole = objects.len() < limit || found.next().is_none();
        let revision = picture.revision;
        let Some(last) = objects.last().filter(|_| !is_whole) else {
            return Ok(Self { objects, revision, next: None });
        };
        let left = (options.labels.is_empty() && options.fields.is_empty()).then(|| match &place {
            Some(Place { left: Some(left), .. }) => left.saturating_sub(objects.len()),
            Some(_) => 1 + found.count(),
            None => picture.count(scope) - objects.len(),
        });
        let next = Some(Place::of(revision, last, left));
        // Whoever goes on does so with this picture, whatever is written meanwhile.
        store.keep(resource, &picture);
        Ok(Self { objects, revision, next })
    }

    /// The list's `metadata`. The number of objects left is told only where no selector makes it a guess.
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

    /// The list in JSON: the objects' own bytes, one after another.
    pub fn json(&self, resource: &Resource) -> Vec<u8> {
        let head = format!(
            r#"{{"kind":"{}","apiVersion":"{}","metadata":{},"items":["#,
            resource.list_kind,
            resource.api_version(),
            self.metadata()
        );
        let bytes: usize = self.objects.iter().map(|object| object.json().len() + 1).sum();
        let mut json = Vec::with_capacity(head.len() + bytes + 2);
        json.extend_from_slice(head.as_bytes());
        for (at, object) in self.objects.iter().enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend_from_slice(&resource.json(object));
        }
        json.extend_from_slice(b"]}");
        json
    }
}

/// Refuses a revision that the store has not reached.
///
/// # Errors
/// 504, with the cause clients look for.
pub fn refuse_future(store: &Memory, revision: u64) -> Result<(), Status> {
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

    /// The revision is no longer known; the token in the answer goes on from the same place with what is there now.
    fn expired(&self) -> Status {
        let message = "The provided continue parameter is too old to display a consistent list result. Start a new \
                       list without the continue parameter, or go on with the token in this response: the rest is \
                       then as it is now, with what was made, changed and deleted since the first piece.";
        let token = Self { revision: NOW, left: None, ..self.clone() }.encode();
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
