//! OpenAPI: what every kind looks like and what can be done with it, for `kubectl explain`, `apply` and `create`.
//!
//! Documents are made when they are first asked for and kept compressed. Their hash is that of what they are made
//! from, so that the list of all of them costs none of them.

mod cache;
mod custom;
mod descriptions;
mod document;
mod gnostic;
mod names;
mod operation;
mod parameters;
mod paths;
mod schema;
mod serve;
#[cfg(test)]
mod tests;

pub use self::serve::router;
