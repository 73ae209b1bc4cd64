//! Batches from fragmented responses.

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::storage::Error;
use crate::storage::etcd::messages::{EVENT_DELETE, Event, KeyValue, WatchResponse};
use crate::storage::etcd::watcher::Reader;

fn event(revision: i64, key: &str) -> Event {
    let kv = KeyValue {
        key: key.to_owned().into(),
        mod_revision: revision,
        create_revision: revision,
        version: 1,
        ..KeyValue::default()
    };
    Event { kv: Some(kv), ..Event::default() }
}

fn reader(from: u64) -> Reader {
    Reader { seen: from, delivered: from, open: None, ready: VecDeque::new() }
}

fn take_all(reader: &mut Reader) -> Vec<(u64, usize)> {
    std::iter::from_fn(|| reader.take()).map(|batch| (batch.revision, batch.events.len())).collect()
}

proptest! {
    #[test]
    fn watch_revisions_are_complete_for_any_event_batches(sizes in prop::collection::vec(1_usize..5, 1..12), part in 1_usize..7) {
        let events: Vec<Event> = sizes
            .iter()
            .enumerate()
            .flat_map(|(n, size)| (0..*size).map(move |key| event(n as i64 + 2, &format!("/{key}"))))
            .collect();
        let mut reader = reader(1);
        let mut delivered = Vec::new();
        let parts: Vec<&[Event]> = events.chunks(part).collect();
        for (n, events) in parts.iter().enumerate() {
            let fragment = n + 1 < parts.len();
            let answer = WatchResponse { events: events.to_vec(), fragment, ..WatchResponse::default() };
            reader.read(answer, "here").unwrap();
            delivered.extend(take_all(&mut reader));
        }
        let expected: Vec<(u64, usize)> = sizes.iter().enumerate().map(|(n, size)| (n as u64 + 2, *size)).collect();
        prop_assert_eq!(delivered, expected);
    }
}

#[test]
fn events_are_not_delivered_twice() {
    let mut reader = reader(4);
    let events = (3..7).map(|revision| event(revision, "/a")).collect();
    reader.read(WatchResponse { events, ..WatchResponse::default() }, "here").unwrap();
    assert_eq!(take_all(&mut reader), [(5, 1), (6, 1)]);
    let events = vec![event(6, "/a"), event(7, "/a")];
    reader.read(WatchResponse { events, ..WatchResponse::default() }, "here").unwrap();
    assert_eq!(take_all(&mut reader), [(7, 1)]);
}

#[test]
fn revision_with_non_utf8_keys_is_counted() {
    let mut foreign = event(5, "");
    foreign.kv.as_mut().unwrap().key = vec![0xff].into();
    let mut reader = reader(4);
    reader.read(WatchResponse { events: vec![foreign], ..WatchResponse::default() }, "here").unwrap();
    assert_eq!(take_all(&mut reader), [(5, 0)]);
}

#[test]
fn watch_error_contains_how_to_continue() {
    let compacted = WatchResponse { compact_revision: 9, canceled: true, ..WatchResponse::default() };
    let error = reader(4).read(compacted, "here").unwrap_err();
    assert!(matches!(error, Error::Compacted { requested: 4, oldest: 9 }), "{error}");
    let denied = WatchResponse {
        canceled: true,
        cancel_reason: "permission denied".to_owned(),
        ..WatchResponse::default()
    };
    let error = reader(4).read(denied, "here").unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");
    let mut deletion = event(5, "/a");
    deletion.kind = EVENT_DELETE;
    let forgotten = WatchResponse { events: vec![deletion], ..WatchResponse::default() };
    let error = reader(4).read(forgotten, "here").unwrap_err();
    assert!(matches!(error, Error::Compacted { .. }), "what stood before is forgotten: {error}");
}
