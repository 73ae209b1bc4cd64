//! Random transactions compared with a map.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use crate::storage::{Expected, Memory, Outcome, Store, Transaction};

/// A write to one of few keys, with a correct or wrong expectation.
#[derive(Clone, Debug)]
pub(in crate::storage) struct Step {
    key: u8,
    value: Option<u8>,
    expects: bool,
    late: bool,
}

pub(in crate::storage) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u8..4, prop::option::of(any::<u8>()), any::<bool>(), any::<bool>());
    let step = step.prop_map(|(key, value, expects, late)| Step { key, value, expects, late });
    prop::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn memory_is_a_map_with_a_counter(steps in steps()) {
        is_a_map_with_a_counter(&Memory::default(), &steps)?;
    }
}

/// Applies the steps to a new store and to a map.
pub(in crate::storage) fn is_a_map_with_a_counter(
    store: &dyn Store,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut model: BTreeMap<String, (u8, u64)> = BTreeMap::new();
    let mut revision = 1;
    for step in steps {
        let key = format!("/{}", step.key);
        let found = model.get(&key).map(|(_, modified)| *modified);
        // A future revision, wrong on purpose.
        let expected = match (step.expects, found) {
            (true, Some(modified)) => Expected::Modified(modified),
            (true, None) => Expected::Absent,
            (false, _) => Expected::Modified(revision + 1),
        };
        let transaction = match step.value {
            Some(value) => Transaction::put(&key, expected, Bytes::from(vec![value])),
            None => Transaction::delete(&key, expected),
        };
        let commit = if step.late { store.commit_deferred(transaction) } else { store.commit(transaction) };
        let outcome = runtime.block_on(commit).unwrap();
        if !step.expects {
            let conflict = matches!(outcome, Outcome::Conflict { .. });
            prop_assert!(conflict);
            continue;
        }
        match step.value {
            Some(value) => {
                revision += 1;
                model.insert(key, (value, revision));
            }
            None => revision += u64::from(model.remove(&key).is_some()),
        }
        prop_assert_eq!(outcome, Outcome::Committed { revision });
    }
    let page = runtime.block_on(store.range("/", None, 100)).unwrap();
    let held: BTreeMap<String, (u8, u64)> =
        page.entries.iter().map(|entry| (entry.key.to_string(), (entry.value[0], entry.modified))).collect();
    prop_assert_eq!(held, model);
    Ok(())
}
