//! `DELETE /localVolumes/{volume}`: the API server deletes the data of a released volume of the built-in provisioner.
//!
//! Only API servers and the owner of the node may request it (`authz`). The kubelet deletes no volume that a pod uses,
//! and nothing outside its directory of these volumes.

use apiserver::Status;
use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use serde_json::{Value, json};

use super::Context;
use crate::volumes::DeleteError;

/// Deletes the data of a volume. Succeeds if there is none.
///
/// # Errors
/// 400 for an invalid name, 409 while a pod uses the volume, 500 if the data cannot be removed.
pub async fn delete(
    State(context): State<Context>,
    Path(volume): Path<String>,
) -> Result<Json<Value>, Status> {
    match context.volumes.delete_local(&volume).await {
        Ok(()) => {
            tracing::info!(volume, "deleted the data of the local-path volume");
            Ok(Json(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})))
        }
        Err(error) => {
            let (code, reason) = match &error {
                DeleteError::Name(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
                DeleteError::InUse(_) => (StatusCode::CONFLICT, "Conflict"),
                DeleteError::Io(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            };
            Err(Status::new(code, reason, error.to_string()))
        }
    }
}
