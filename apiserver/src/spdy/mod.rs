//! SPDY/3.1 server, for exec and port-forward. It serves kubectl before 1.30, and newer ones whose WebSocket is
//! refused.
//!
//! No usable crate serves SPDY (November 2026): `spdy-mux` is a client that opens stream pairs, others are GPL or
//! stubs. [`frame`] and [`headers`] are pure, [`Session`] does the I/O, [`Upgrade`] negotiates the protocol.
//! [`exec`] and [`port_forward`] define the streams of each protocol.
//!
//! There is no flow control. All clients use moby/spdystream, which neither announces windows nor respects them. A
//! stream that is not read blocks the connection once its buffer is full.

mod dictionary;
pub mod exec;
pub mod frame;
pub mod headers;
pub mod port_forward;
mod session;
mod stream;
mod upgrade;

pub use session::{Admit, Session};
pub use stream::{Reader, Stream, Writer};
pub use upgrade::{Refusal, Upgrade, choose};

#[cfg(test)]
mod tests {
    //! SPDY from the client's side: valid and invalid frames, slow, refused and aborted streams, and negotiation.
    //! `tests/tests/master/spdy` runs real kubectls.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    mod agreeing;
    mod client;
    mod codec;
    mod serving;
}
