//! Custom resources: each served version of a CustomResourceDefinition becomes a row of the catalog.
//!
//! `api::crd` parses and validates definitions; this module serves them. A change of a definition, or of an object
//! of a terminating one, triggers a reconciliation.

mod admission;
mod controller;
mod finalizer;
mod row;
#[cfg(test)]
mod tests;

pub use self::admission::Definitions;
pub use self::controller::start;

/// Storage name of definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
