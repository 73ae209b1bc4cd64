//! Log queries, and limits on log bytes.
#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;

use super::{LogQuery, pieces};
use crate::runtime::Stream;

fn read(query: &[(&str, &str)]) -> Result<LogQuery, apiserver::Status> {
    let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    LogQuery::read(&query, "2026-01-01T00:01:00Z".parse().unwrap())
}

#[test]
fn log_options_of_kubectl_are_parsed() {
    let parsed = read(&[
        ("container", "web"),
        ("follow", "true"),
        ("previous", "false"),
        ("tailLines", "5"),
        ("sinceSeconds", "60"),
        ("timestamps", "true"),
        ("limitBytes", "9"),
    ])
    .unwrap();
    let expected = LogQuery {
        container: Some("web".to_owned()),
        follow: true,
        tail: Some(5),
        since: Some("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()),
        timestamps: true,
        limit_bytes: Some(9),
        ..LogQuery::default()
    };
    assert_eq!(parsed, expected);
}

#[test]
fn boolean_query_parameters_are_parsed_like_the_stock_server() {
    for (value, expected) in
        [("", true), ("1", true), ("True", true), ("yes", true), ("0", false), ("False", false)]
    {
        let parsed = read(&[("follow", value), ("tailLines", "")]).unwrap();
        assert_eq!(parsed, LogQuery { follow: expected, ..LogQuery::default() }, "follow={value}");
    }
}

#[test]
fn invalid_log_options_are_named_in_the_error() {
    for query in [
        &[("tailLines", "-1")][..],
        &[("limitBytes", "0")],
        &[("sinceSeconds", "0")],
        &[("sinceTime", "yesterday")],
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
async fn log_is_limited_in_bytes_and_filtered_by_stream() {
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
