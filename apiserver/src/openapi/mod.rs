//! OpenAPI v2 and v3 for `kubectl explain`, `apply` and `create`.
//!
//! Documents are generated on first use and cached in compressed form. A hash covers the inputs of a document, so
//! that the index does not need the document itself.

mod cache;
mod connect;
mod custom;
mod descriptions;
mod document;
mod gnostic;
mod operation;
mod parameters;
mod paths;
mod schema;
mod serve;
#[cfg(test)]
mod tests;

pub use self::serve::router;
