//! Queries for logs, and the cutting of their bytes.
#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;

use super::{Asked, pieces};
use crate::runtime::Stream;

fn read(query: &[(&str, &str)]) -> Result<Asked, apiserver::Status> {
    let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Asked::read(&query, "2026-01-01T00:01:00Z".parse().unwrap())
}

#[test]
fn everything_kubectl_sends() {
    let asked = read(&[
        ("container", "web"),
        ("follow", "true"),
        ("previous", "false"),
        ("tailLines", "5"),
        ("sinceSeconds", "60"),
        ("timestamps", "true"),
        ("limitBytes", "9"),
    ])
    .unwrap();
    let expected = Asked {
        container: Some("web".to_owned()),
        follow: true,
        tail: Some(5),
        since: Some("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()),
        timestamps: true,
        limit_bytes: Some(9),
        ..Asked::default()
    };
    assert_eq!(asked, expected);
}

#[test]
fn what_makes_no_sense_is_named() {
    for query in [
        &[("tailLines", "-1")][..],
        &[("limitBytes", "0")],
        &[("sinceSeconds", "0")],
        &[("sinceTime", "yesterday")],
        &[("follow", "maybe")],
        &[("stream", "Stdin")],
        &[("stream", "Stdout"), ("tailLines", "1")],
        &[("sinceTime", "2026-01-01T00:00:00Z"), ("sinceSeconds", "1")],
    ] {
        let error = read(query).unwrap_err();
        assert_eq!((error.code, error.reason), (422, "Invalid"), "{query:?}");
        assert!(error.message.contains(query[query.len() - 1].0) || query.len() > 1, "{error}");
    }
}

#[tokio::test]
async fn bytes_are_cut_and_streams_picked() {
    let log = || {
        let pieces = [(Stream::Stdout, "one\n"), (Stream::Stderr, "two\n"), (Stream::Stdout, "three\n")];
        stream::iter(pieces.map(|(stream, text)| Ok((stream, Bytes::from_static(text.as_bytes()))))).boxed()
    };
    for (only, limit, expected) in [
        (None, None, "one\ntwo\nthree\n"),
        (None, Some(6), "one\ntw"),
        (None, Some(4), "one\n"),
        (Some(Stream::Stdout), None, "one\nthree\n"),
        (Some(Stream::Stderr), Some(100), "two\n"),
    ] {
        let found: Vec<Bytes> = pieces(log(), only, limit).try_collect().await.unwrap();
        assert_eq!(found.concat(), expected.as_bytes(), "{only:?} {limit:?}");
    }
}
