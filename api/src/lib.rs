//! The Kubernetes nouns Coracle speaks: decoding, defaults, validation, patches, server-side apply.

pub mod apply;
pub mod crd;
pub mod decode;
pub mod defaults;
pub mod equal;
pub mod expand;
pub mod expressions;
pub mod fault;
mod fill;
pub mod legacy;
pub mod object;
pub mod patch;
pub mod path;
pub mod pod_ranges;
pub mod problem;
pub mod protobuf;
pub mod qos;
pub mod quantity;
pub mod references;
pub mod resources;
pub mod schema;
pub mod shape;
pub mod strategy;
pub mod table;
pub mod time;
pub mod validate;

pub use decode::{Decoded, decode, decode_with};
