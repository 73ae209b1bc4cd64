//! What is used on the node, as the stock kubelet tells those who measure it.

use apiserver::Status;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

use super::Context;
use super::logs::{Pairs, boolean};
use crate::observed::Timestamp;
use crate::stats::{resource, summary};

/// `/stats/summary`.
pub async fn summary(State(context): State<Context>, Query(query): Query<Pairs>) -> Result<Response, Status> {
    let only_cpu_and_memory = query
        .iter()
        .any(|(name, value)| name == "only_cpu_and_memory" && boolean(name, value).unwrap_or(false));
    let usage = context.stats.take(Timestamp::now()).await.map_err(|error| {
        let message = format!("what the machine uses cannot be read: {error}");
        Status::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    })?;
    let summary = summary::summary(&context.stats.node, &usage, only_cpu_and_memory);
    Ok(([(header::CONTENT_TYPE, "application/json")], summary.to_string()).into_response())
}

/// `/metrics/resource`.
pub async fn resource(State(context): State<Context>) -> Response {
    let usage = context.stats.take(Timestamp::now()).await;
    if let Err(error) = &usage {
        tracing::warn!(%error, "what the machine uses cannot be read");
    }
    ([(header::CONTENT_TYPE, resource::MEDIA_TYPE)], resource::text(usage.as_ref().ok())).into_response()
}
