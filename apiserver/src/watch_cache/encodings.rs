//! Encodings of watch events, which all watchers share: an event is encoded once per representation.
//!
//! Stored JSON is shared in any case. This cache contains all other representations: other versions, partial
//! metadata, other media types.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::Change;
use crate::object::Text;
use crate::represent::Format;
use crate::request::Include;

/// Maximum bytes of cached encodings of all resources.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// Representation of an object in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Representation {
    /// Served API version.
    pub version: Text,
    /// Encoding and shape.
    pub form: Form,
    /// True for the previous object, which is sent as DELETED if the selector no longer matches.
    pub is_before: bool,
}

/// Encoding and shape of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Encoding and shape.
    pub format: Format,
    /// The part of the object that table rows contain.
    pub include: Include,
    /// Whether the table includes the column definitions.
    pub with_columns: bool,
}

/// Cached encodings of one change.
#[derive(Debug, Default)]
pub struct Encodings(Mutex<Vec<(Representation, Bytes)>>);

/// Changes with cached encodings, oldest first.
#[derive(Debug, Default)]
pub(super) struct Encoded(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    changes: VecDeque<(Weak<Change>, usize)>,
    bytes: usize,
}

impl Encodings {
    fn lock(&self) -> MutexGuard<'_, Vec<(Representation, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Encoded {
    /// Returns the encoding of a change. The first watcher that needs it creates it.
    pub fn get(
        &self,
        change: &Arc<Change>,
        representation: Representation,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        let mut encodings = change.encodings.lock();
        if let Some((_, bytes)) = encodings.iter().find(|(known, _)| *known == representation) {
            return bytes.clone();
        }
        let bytes = encode();
        encodings.push((representation, bytes.clone()));
        drop(encodings);
        self.keep(change, bytes.len());
        bytes
    }

    fn keep(&self, change: &Arc<Change>, bytes: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += bytes;
        kept.changes.push_back((Arc::downgrade(change), bytes));
        let mut forgotten = Vec::new();
        while kept.bytes > KEPT_BYTES
            && let Some((change, bytes)) = kept.changes.pop_front()
        {
            kept.bytes -= bytes;
            forgotten.extend(change.upgrade());
        }
        drop(kept);
        forgotten.iter().for_each(|change| change.encodings.lock().clear());
    }
}

#[cfg(test)]
mod tests {
    //! Tests of sharing and eviction of encodings.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::object::Fields;
    use crate::represent::{As, Encoding, MetaVersion};
    use crate::watch_cache::{Before, ChangeKind, Draft};

    fn change(revision: u64) -> Arc<Change> {
        let object = json!({"metadata": {"name": "a"}});
        let object = Draft::new(object.as_object().unwrap(), &Fields::from([])).at(revision);
        Arc::new(Change::new(ChangeKind::Put, object, Before::Nothing))
    }

    fn metadata(version: &'static str) -> Representation {
        let format = Format { encoding: Encoding::Json, shape: As::Metadata(MetaVersion::V1) };
        let form = Form { format, include: Include::None, with_columns: false };
        Representation { version: version.into(), form, is_before: false }
    }

    #[test]
    fn watchers_of_one_representation_share_one_encoding() {
        let (encoded, change) = (Encoded::default(), change(1));
        let first = encoded.get(&change, metadata("v1"), || Bytes::from(vec![1]));
        let second = encoded.get(&change, metadata("v1"), || unreachable!("it is encoded already"));
        assert_eq!(first.as_ptr(), second.as_ptr());
        let before = Representation { is_before: true, ..metadata("v1") };
        for other in [metadata("v1beta1"), before] {
            assert_eq!(encoded.get(&change, other, || Bytes::from(vec![2])), [2].as_slice());
        }
    }

    #[test]
    fn encodings_beyond_the_limit_are_dropped_oldest_first() {
        let encoded = Encoded::default();
        let changes: Vec<_> = (1..=5).map(change).collect();
        for change in &changes {
            encoded.get(change, metadata("v1"), || Bytes::from(vec![0; KEPT_BYTES / 4]));
        }
        let kept: Vec<bool> = changes.iter().map(|change| !change.encodings.lock().is_empty()).collect();
        assert_eq!(kept, [false, true, true, true, true]);
    }
}
