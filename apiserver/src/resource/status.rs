//! API errors about an object of a resource.

use api::strategy::Cause;
use http::StatusCode;
use serde_json::{Value, json};

use super::Resource;
use crate::status::Status;

impl Status {
    /// An object with this name exists.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        let details = details(resource, name);
        Self { details: Some(details), ..Self::new(StatusCode::CONFLICT, "AlreadyExists", message) }
    }

    /// The request conflicts with the current state. `why` completes the message.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        let details = details(resource, name);
        Self { details: Some(details), ..Self::new(StatusCode::CONFLICT, "Conflict", message) }
    }

    /// The object was modified concurrently.
    pub fn changed(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The object is invalid.
    pub fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_kind(&resource.group, &resource.kind, name, causes)
    }
}

/// The `details` of an error: name, group and resource.
fn details(resource: &Resource, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural});
    if !resource.group.is_empty() {
        details["group"] = resource.group.as_ref().into();
    }
    details
}
