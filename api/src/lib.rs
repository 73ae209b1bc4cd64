//! The Kubernetes nouns Coracle speaks: decoding, defaults, validation.

pub mod decode;
pub mod defaults;
pub mod fault;
pub mod object;
pub mod path;
pub mod problem;
pub mod references;

pub use decode::{Decoded, decode};
