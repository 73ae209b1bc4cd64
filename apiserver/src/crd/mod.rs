//! Kinds that are defined while the server runs: a CustomResourceDefinition becomes a row a version, and hears of it.
//!
//! `api::crd` says what a definition means; here it is carried out. Nothing is asked for twice in a row: a change of any
//! definition, or of the objects of one that is being deleted, means "look again".

mod admission;
mod cleanup;
mod follow;
mod row;
#[cfg(test)]
mod tests;

pub use self::admission::Definitions;
pub use self::follow::start;

/// Where definitions are kept.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
