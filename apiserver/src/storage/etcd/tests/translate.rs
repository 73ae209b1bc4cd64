//! Transactions and their outcomes, also after a lost response.

use std::sync::Arc;

use bytes::Bytes;

use crate::storage::etcd::messages::{Header, KeyValue, RangeResponse, ResponseOp, TxnResponse};
use crate::storage::etcd::translate::{CommitResult, bounds, is_idempotent, outcome, request};
use crate::storage::{Compare, Expected, Outcome, Transaction, Write};

fn answer(succeeded: bool, revision: i64, current: &[Option<(&'static str, i64)>]) -> TxnResponse {
    let responses = current.iter().map(|current| {
        let kvs = current.iter().map(|(value, revision)| KeyValue {
            key: "/a".into(),
            value: Bytes::from_static(value.as_bytes()),
            create_revision: 2,
            mod_revision: *revision,
            version: 1,
        });
        ResponseOp { range: Some(RangeResponse { kvs: kvs.collect(), ..RangeResponse::default() }) }
    });
    TxnResponse { header: Some(Header { revision }), succeeded, responses: responses.collect() }
}

fn put(key: &str, expected: Expected, value: &'static str) -> Transaction {
    Transaction::put(key, expected, Bytes::from_static(value.as_bytes()))
}

#[test]
fn lost_commit_response_is_resolved_from_the_stored_keys() {
    let update = put("/a", Expected::Modified(5), "mine");
    let both = Transaction {
        compares: ["/a", "/b"]
            .map(|key| Compare { key: key.into(), expected: Expected::Modified(5) })
            .to_vec(),
        writes: ["/a", "/b"].map(|key| Write::Put { key: key.into(), value: "mine".into() }).to_vec(),
    };
    let delete = Transaction::delete("/a", Expected::Modified(5));
    let known = |revision| CommitResult::Known(Outcome::Committed { revision });
    let is_conflict =
        |settled: &CommitResult| matches!(settled, CommitResult::Known(Outcome::Conflict { .. }));
    for (name, transaction, answer, is_retry, expected) in [
        ("it happened now", &update, answer(true, 7, &[]), true, Some(known(7))),
        ("it had happened", &update, answer(false, 9, &[Some(("mine", 7))]), true, Some(known(7))),
        (
            "another client has written",
            &update,
            answer(false, 9, &[Some(("other", 8))]),
            true,
            Some(CommitResult::Unclear),
        ),
        ("it is gone", &update, answer(false, 9, &[None]), true, Some(CommitResult::Unclear)),
        ("a first try is refused", &update, answer(false, 9, &[Some(("mine", 7))]), false, None),
        (
            "all of it had happened",
            &both,
            answer(false, 9, &[Some(("mine", 7)), Some(("mine", 7))]),
            true,
            Some(known(7)),
        ),
        (
            "half of it is another's",
            &both,
            answer(false, 9, &[Some(("mine", 7)), Some(("mine", 8))]),
            true,
            Some(CommitResult::Unclear),
        ),
        ("who deleted it?", &delete, answer(false, 9, &[None]), true, Some(CommitResult::Unclear)),
        ("the outcome was not reported", &update, answer(false, 9, &[]), true, Some(CommitResult::Unclear)),
    ] {
        let settled = outcome(transaction, answer, is_retry);
        match expected {
            Some(expected) => assert_eq!(settled, expected, "{name}"),
            None => assert!(is_conflict(&settled), "{name}: {settled:?}"),
        }
    }
}

#[test]
fn only_transactions_with_guarded_keys_are_retried() {
    let key: Arc<str> = "/b".into();
    let unguarded = Transaction {
        compares: vec![Compare { key: "/a".into(), expected: Expected::Absent }],
        writes: vec![Write::Put { key, value: Bytes::new() }],
    };
    for (transaction, expected) in [
        (put("/a", Expected::Absent, "x"), true),
        (put("/a", Expected::Modified(2), "x"), true),
        (put("/a", Expected::Any, "x"), false),
        (Transaction::delete("/a", Expected::Any), false),
        (unguarded, false),
        (Transaction::default(), true),
    ] {
        assert_eq!(is_idempotent(&transaction), expected, "{transaction:?}");
    }
}

#[test]
fn a_compare_with_a_missing_key_is_encoded_explicitly() {
    // Protobuf omits zero except in a oneof, and etcd ignores a compare without a target.
    let encoded = request(&put("/a", Expected::Absent, "x"));
    assert_eq!(encoded.compare[0].mod_revision, Some(0));
    assert_eq!((encoded.success.len(), encoded.failure.len()), (1, 1));
    assert!(request(&put("/a", Expected::Any, "x")).compare.is_empty());
}

#[test]
fn range_end_follows_the_prefix() {
    for (prefix, after, from, end) in [
        ("/a/", None, "/a/", "/a0"),
        ("/a/", Some("/a/x"), "/a/x\0", "/a0"),
        ("/a/", Some("/"), "/a/", "/a0"),
        ("", None, "\u{1}", "\0"),
        ("", Some("a"), "a\0", "\0"),
    ] {
        let (found, until) = bounds(prefix, after);
        assert_eq!((&*found, &*until), (from.as_bytes(), end.as_bytes()), "{prefix} {after:?}");
    }
}
