//! A policy whose expressions cannot be run is refused when it is written, not when it would be needed.

use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use async_trait::async_trait;

use super::GROUP;
use super::compiled::Policy;

/// Checks policies of both sorts.
pub struct Written;

#[async_trait]
impl Admission for Written {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let resource = attempt.resource;
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        let is_policy = resource.group == GROUP && resource.plural.ends_with("admissionpolicies");
        // What an update leaves as it is was right once.
        let is_same = attempt.old.is_some_and(|old| old.get("spec") == attempt.object.get("spec"));
        if !is_written || !is_policy || is_same || attempt.subresource.is_some() {
            return Ok(());
        }
        match Policy::read(&attempt.object).1 {
            causes if causes.is_empty() => Ok(()),
            causes => Err(Status::invalid(resource, attempt.name, &causes)),
        }
    }
}
