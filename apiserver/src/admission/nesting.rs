//! Admission plugin that limits how deeply an object may nest.

use api::patch::{MAX_DEPTH, fits_each};
use async_trait::async_trait;

use super::{Admission, AdmissionRequest};
use crate::status::Status;

/// Rejects objects that nest deeper than [`MAX_DEPTH`]. A list of such objects, and their managed fields, would
/// nest too deep to be decoded.
#[derive(Clone, Copy, Debug)]
pub struct NestingLimit;

#[async_trait]
impl Admission for NestingLimit {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if fits_each(&attempt.object, MAX_DEPTH) {
            return Ok(());
        }
        let name = attempt.name;
        let kind = &attempt.resource.kind;
        Err(Status::bad_request(format!("{kind} \"{name}\" nests deeper than {MAX_DEPTH}; flatten it")))
    }
}

#[cfg(test)]
mod tests;
