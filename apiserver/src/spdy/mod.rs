//! SPDY/3.1, the server's side: what kubectl before 1.30 speaks to run commands and forward ports, and later ones when a
//! WebSocket is refused.
//!
//! Our own because nothing on crates.io serves it: `spdy-mux` is a client that opens pairs of streams, the others are GPL or
//! stubs (November 2026). [`frame`] and [`headers`] are pure; [`Session`] does the reading and writing; [`Upgrade`] agrees on a
//! protocol; [`remote`] and [`pairs`] say which streams a command and a forwarded connection have.
//!
//! Windows are not kept, as moby/spdystream does not keep them, which is at the other end of all of this: it never says
//! how much it takes and does not read what it is told. A stream that is not read holds up the connection once its
//! buffer is full.

mod dictionary;
pub mod frame;
pub mod headers;
pub mod pairs;
pub mod remote;
mod session;
mod stream;
mod upgrade;

pub use session::{Admit, Session};
pub use stream::{Reader, Stream, Writer};
pub use upgrade::{Refusal, Upgrade, choose};

#[cfg(test)]
mod tests;
