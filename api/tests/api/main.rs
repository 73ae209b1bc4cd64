//! Decoder, type table and schema against their sources: k8s-openapi, k8s-pb and damaged manifests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod all_types;
mod decode_fuzz;
mod mutations;
#[path = "../../src/decode/tests/process_usage.rs"]
mod process_usage;
mod protobuf_agrees;
mod schema_agrees;
