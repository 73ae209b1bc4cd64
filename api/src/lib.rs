//! The Kubernetes API types: decoding, defaults, validation, strategies, patches and server-side apply.
#![deny(missing_docs)]

pub mod apply;
pub mod crd;
pub mod cron;
pub mod decode;
pub mod defaults;
mod dotted;
pub mod equal;
pub mod expand;
pub mod expressions;
pub mod field_error;
pub mod kubernetes_version;
pub mod legacy;
pub mod network_policy;
pub mod object;
pub mod patch;
pub mod path;
pub mod percent;
pub mod pod_cidr;
pub mod problem;
pub mod protobuf;
pub mod qos;
pub mod quantity;
pub mod references;
pub mod resources;
pub mod schema;
pub mod shape;
pub mod strategy;
mod string_format;
pub mod table;
pub mod time;
pub mod validate;

pub use decode::{Decoded, decode, decode_with};
