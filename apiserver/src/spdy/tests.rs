//! SPDY from the client's side: valid and invalid frames, slow, refused and aborted streams, and negotiation.
//! `tests/tests/master/spdy` runs real kubectls.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agreeing;
mod client;
mod codec;
mod serving;
