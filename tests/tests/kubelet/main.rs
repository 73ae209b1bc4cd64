//! One node and its kubelet on a real engine: pods from every local source, what a restart finds again, faults and kills.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod adoption;
mod bad_input;
mod config_and_secrets;
mod edit_and_delete;
mod engine_faults;
mod full_disk;
mod images;
mod jobs;
mod kill_nine;
mod legacy;
mod looking;
mod meddling;
mod run_from_directory;
mod runtime;
mod takeover;
mod url_source;
