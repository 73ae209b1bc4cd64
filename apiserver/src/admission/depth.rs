//! Nothing is written that nests so deep that a list of it could not be read.

use api::patch::{MAX_DEPTH, fits_each};
use async_trait::async_trait;

use super::{Admission, Attempt};
use crate::status::Status;

/// Refuses what nests deeper than [`MAX_DEPTH`]: the record of who owns what nests deeper still, a list around it too.
#[derive(Clone, Copy, Debug)]
pub struct Depth;

#[async_trait]
impl Admission for Depth {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
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
