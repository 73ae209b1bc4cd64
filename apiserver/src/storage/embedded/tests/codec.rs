//! Rows round-trip, and invalid rows are rejected.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::codec::{self, Kind};
use crate::storage::{Change, Event};

fn event() -> impl Strategy<Value = Event> {
    let value = prop::collection::vec(any::<u8>(), 0..50);
    let change = prop_oneof![
        (value.clone(), any::<u64>())
            .prop_map(|(value, created)| Change::Put { value: Bytes::from(value), created }),
        value.prop_map(|last| Change::Delete { last: Bytes::from(last) }),
    ];
    ("\\PC{0,20}", change, prop::option::of(1_u64..)).prop_map(|(key, change, previous)| Event {
        key: key.into(),
        change,
        previous,
    })
}

proptest! {
    #[test]
    fn batch_round_trips(revision in any::<u64>(), events in prop::collection::vec(event(), 0..5)) {
        for kind in [Kind::Durable, Kind::Deferred] {
            let batch = codec::batch(revision, &codec::batch_row(&events, kind)).unwrap();
            prop_assert_eq!((batch.revision, &batch.events), (revision, &events));
        }
    }

    #[test]
    fn entry_round_trips(created in any::<u64>(), modified in any::<u64>(), value in prop::collection::vec(any::<u8>(), 0..50)) {
        let entry = codec::entry("/a", &codec::entry_row(created, modified, &value)).unwrap();
        prop_assert_eq!((entry.created, entry.modified, &*entry.value), (created, modified, value.as_slice()));
    }

    #[test]
    fn decoder_accepts_any_bytes_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = codec::batch(1, &bytes);
        prop_assert_eq!(codec::entry("/a", &bytes).is_some(), bytes.len() >= 16);
    }

    #[test]
    fn damaged_batch_decodes_within_its_size(
        events in prop::collection::vec(event(), 1..4),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let mut row = codec::batch_row(&events, Kind::Durable);
        let at = at.index(row.len());
        row[at] = byte;
        if let Some(batch) = codec::batch(1, &row) {
            prop_assert_eq!(codec::batch_row(&batch.events, Kind::Durable).len(), row.len());
        }
    }

    #[test]
    fn truncated_batch_is_rejected(events in prop::collection::vec(event(), 1..2), cut in 1_usize..20) {
        let row = codec::batch_row(&events, Kind::Durable);
        prop_assert!(codec::batch(1, &row[..row.len() - cut.min(row.len() - 1)]).is_none());
    }
}
