//! The in-memory history: bounded and complete.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use crate::storage::history::{History, READ_BATCHES, READ_BYTES};
use crate::storage::{Batch, Change, Event, Limits};

fn batch(revision: u64, bytes: usize) -> Arc<Batch> {
    let change = Change::Put { value: Bytes::from(vec![0; bytes]), created: revision };
    Arc::new(Batch { revision, events: vec![Event { key: "/a".into(), change, previous: None }] })
}

fn revisions(history: &History, seen: u64) -> Option<Vec<u64>> {
    history.after(seen).ok().map(|batches| batches.iter().map(|batch| batch.revision).collect())
}

#[test]
fn history_read_is_bounded() {
    let mut history = History::new(1, Limits::default());
    for revision in 2..=1000 {
        history.push(batch(revision, 0));
    }
    assert_eq!(revisions(&history, 1).unwrap().len(), READ_BATCHES);
    for revision in 1001..=1010 {
        history.push(batch(revision, READ_BYTES / 2));
    }
    assert_eq!(revisions(&history, 1000).unwrap(), [1001, 1002]);
    assert_eq!(revisions(&history, 1009).unwrap(), [1010]);
}

proptest! {
    #[test]
    fn history_retains_a_contiguous_suffix(
        sizes in prop::collection::vec(0_usize..5000, 0..60),
        most in 1_usize..20,
        bytes in 0_usize..20_000,
        compact in prop::option::of(0_u64..70),
    ) {
        let mut history = History::new(1, Limits { revisions: most, bytes });
        let newest = 1 + sizes.len() as u64;
        for (revision, size) in (2..).zip(&sizes) {
            history.push(batch(revision, *size));
        }
        if let Some(revision) = compact {
            history.compact(revision.min(newest));
        }
        let kept: Vec<u64> = (1..=newest).filter(|seen| history.after(*seen).is_ok()).collect();
        let oldest = *kept.first().unwrap();
        prop_assert_eq!(&kept, &(oldest..=newest).collect::<Vec<_>>(), "a suffix is readable from every later revision");
        prop_assert!((newest - oldest) as usize <= most);
        for seen in kept {
            prop_assert_eq!(revisions(&history, seen).unwrap(), (seen + 1..=newest).collect::<Vec<_>>());
        }
    }
}
