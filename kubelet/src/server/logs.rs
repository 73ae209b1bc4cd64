//! Serves container logs, and follows them if requested.

use apiserver::Status;
use apiserver::request::query_switch;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, stream};
use http::{StatusCode, header};
use jiff::{SignedDuration, Timestamp};

use super::Context;
use super::container::ServedPod;
use crate::runtime::{self, LogOptions, Stream};

/// Query parameters of a request, in order.
pub type Pairs = Vec<(String, String)>;

/// The log options of a request.
#[derive(Clone, Debug, Default, PartialEq)]
struct LogQuery {
    container: Option<String>,
    previous: bool,
    limit_bytes: Option<u64>,
    only: Option<Stream>,
    follow: bool,
    tail: Option<u64>,
    since: Option<Timestamp>,
    timestamps: bool,
}

/// Serves `GET .../namespaces/{namespace}/pods/{name}/log`.
pub async fn subresource(
    State(context): State<Context>,
    Path((namespace, pod)): Path<(String, String)>,
    Query(query): Query<Pairs>,
) -> Result<Response, Status> {
    answer(&context, &namespace, &pod, LogQuery::read(&query, Timestamp::now())?).await
}

/// Serves `GET /containerLogs/{namespace}/{pod}/{container}`.
pub async fn container_logs(
    State(context): State<Context>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(query): Query<Pairs>,
) -> Result<Response, Status> {
    let query_options = LogQuery { container: Some(container), ..LogQuery::read(&query, Timestamp::now())? };
    answer(&context, &namespace, &pod, query_options).await
}

async fn answer(
    context: &Context,
    namespace: &str,
    pod: &str,
    query_options: LogQuery,
) -> Result<Response, Status> {
    let shown = ServedPod::find(context.status_manager.store(), namespace, pod)?;
    let container = shown.choose(query_options.container.as_deref())?;
    let id = shown.with_log(&container, query_options.previous)?;
    let options = LogOptions {
        follow: query_options.follow,
        tail: query_options.tail,
        since: query_options.since,
        until: None,
        timestamps: query_options.timestamps,
    };
    let log = context.runtime.logs(&id, &options).await.map_err(refused)?;
    let body = Body::from_stream(pieces(log, query_options.only, query_options.limit_bytes));
    Ok(([(header::CONTENT_TYPE, "text/plain")], body).into_response())
}

/// Converts an engine error to an API status.
pub fn refused(error: runtime::Error) -> Status {
    match error {
        runtime::Error::NotFound { .. } => Status::new(StatusCode::NOT_FOUND, "NotFound", error.to_string()),
        runtime::Error::Unreachable { .. } => {
            Status::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", error.to_string())
        }
        runtime::Error::Refused { .. } | runtime::Error::Network(_) => Status::internal(error),
    }
}

type Piece = Result<(Stream, Bytes), runtime::Error>;

/// The bytes of the selected streams, up to the limit. An error aborts the body, so that the client notices it.
fn pieces(
    log: BoxStream<'static, Piece>,
    only: Option<Stream>,
    limit: Option<u64>,
) -> impl futures_util::Stream<Item = Result<Bytes, runtime::Error>> {
    let left = limit.unwrap_or(u64::MAX);
    stream::try_unfold((log, left), move |(mut log, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        while let Some((stream, mut bytes)) = log.next().await.transpose()? {
            if only.is_some_and(|only| only != stream) || bytes.is_empty() {
                continue;
            }
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            let left = left - bytes.len() as u64;
            return Ok(Some((bytes, (log, left))));
        }
        Ok(None)
    })
}

impl LogQuery {
    fn read(query: &Pairs, now: Timestamp) -> Result<Self, Status> {
        let mut query_options = Self::default();
        let mut since_seconds = None;
        for (name, value) in query {
            match name.as_str() {
                "follow" => query_options.follow = query_switch(value),
                "previous" => query_options.previous = query_switch(value),
                "timestamps" => query_options.timestamps = query_switch(value),
                // An empty value is treated as absent.
                _ if value.is_empty() => {}
                "container" => query_options.container = Some(value.clone()),
                "tailLines" => query_options.tail = Some(number(name, value, 0)?),
                "tail" if value == "all" => query_options.tail = None,
                "limitBytes" => query_options.limit_bytes = Some(number(name, value, 1)?),
                "sinceSeconds" => since_seconds = Some(number(name, value, 1)?),
                "sinceTime" => {
                    let since =
                        value.parse().map_err(|_| invalid(name, value, "must be a time in RFC 3339"))?;
                    query_options.since = Some(since);
                }
                "stream" => {
                    query_options.only = match value.as_str() {
                        "All" => None,
                        "Stdout" => Some(Stream::Stdout),
                        "Stderr" => Some(Stream::Stderr),
                        _ => return Err(invalid(name, value, "must be All, Stdout or Stderr")),
                    }
                }
                _ => {}
            }
        }
        if query_options.only.is_some() && query_options.tail.is_some() {
            return Err(invalid("tailLines", "", "cannot be combined with stream"));
        }
        if let Some(seconds) = since_seconds {
            if query_options.since.is_some() {
                return Err(invalid(
                    "sinceSeconds",
                    "",
                    "at most one of sinceTime and sinceSeconds may be given",
                ));
            }
            let ago = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            query_options.since = Some(now.checked_sub(ago).unwrap_or(Timestamp::UNIX_EPOCH));
        }
        Ok(query_options)
    }
}

fn number(name: &str, value: &str, least: u64) -> Result<u64, Status> {
    let number = value.parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| invalid(name, value, &format!("must be a whole number, at least {least}")))
}

fn invalid(name: &str, value: &str, why: &str) -> Status {
    let message = format!("PodLogOptions \"\" is invalid: {name}: Invalid value: \"{value}\": {why}");
    Status::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
}

#[cfg(test)]
mod tests;
