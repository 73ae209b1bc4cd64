//! Any router over TLS: one handshake and one identity a connection, HTTP/1.1 and HTTP/2, certificates that may be swapped, and
//! authorities: who is not believed any more is sent away.

mod believed;
mod brisk;
mod busy;
mod chain;
mod config;
mod opened;
mod serve;
mod unverified;

pub use believed::Cut;
pub use chain::{is_signed_by, leads_to};
pub use config::{Config, Error, Keys, config};
pub use opened::{Opened, opened};
pub use serve::{keep_alive, serve};
pub use unverified::Unverified;

#[cfg(test)]
mod tests;
