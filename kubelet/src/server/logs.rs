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
    let asked = LogQuery { container: Some(container), ..LogQuery::read(&query, Timestamp::now())? };
    answer(&context, &namespace, &pod, asked).await
}

async fn answer(context: &Context, namespace: &str, pod: &str, asked: LogQuery) -> Result<Response, Status> {
    let shown = ServedPod::find(context.status_manager.store(), namespace, pod)?;
    let container = shown.choose(asked.container.as_deref())?;
    let id = shown.with_log(&container, asked.previous)?;
    let options = LogOptions {
        follow: asked.follow,
        tail: asked.tail,
        since: asked.since,
        until: None,
        timestamps: asked.timestamps,
    };
    let log = context.runtime.logs(&id, &options).await.map_err(refused)?;
    let body = Body::from_stream(pieces(log, asked.only, asked.limit_bytes));
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
        let mut asked = Self::default();
        let mut since_seconds = None;
        for (name, value) in query {
            match name.as_str() {
                "follow" => asked.follow = query_switch(value),
                "previous" => asked.previous = query_switch(value),
                "timestamps" => asked.timestamps = query_switch(value),
                // An empty value is treated as absent.
                _ if value.is_empty() => {}
                "container" => asked.container = Some(value.clone()),
                "tailLines" => asked.tail = Some(number(name, value, 0)?),
                "tail" if value == "all" => asked.tail = None,
                "limitBytes" => asked.limit_bytes = Some(number(name, value, 1)?),
                "sinceSeconds" => since_seconds = Some(number(name, value, 1)?),
                "sinceTime" => {
                    let since =
                        value.parse().map_err(|_| invalid(name, value, "must be a time in RFC 3339"))?;
                    asked.since = Some(since);
                }
                "stream" => {
                    asked.only = match value.as_str() {
                        "All" => None,
                        "Stdout" => Some(Stream::Stdout),
                        "Stderr" => Some(Stream::Stderr),
                        _ => return Err(invalid(name, value, "must be All, Stdout or Stderr")),
                    }
                }
                _ => {}
            }
        }
        if asked.only.is_some() && asked.tail.is_some() {
            return Err(invalid("tailLines", "", "cannot be combined with stream"));
        }
        if let Some(seconds) = since_seconds {
            if asked.since.is_some() {
                return Err(invalid(
                    "sinceSeconds",
                    "",
                    "at most one of sinceTime and sinceSeconds may be given",
                ));
            }
            let ago = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            asked.since = Some(now.checked_sub(ago).unwrap_or(Timestamp::UNIX_EPOCH));
        }
        Ok(asked)
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
