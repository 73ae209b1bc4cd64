//! SPDY as a client meets it: frames of all shapes and none, streams that are slow, refused and broken off, and who agrees on
//! what. Real kubectls are in `tests/tests/spdy`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agreeing;
mod client;
mod codec;
mod serving;
