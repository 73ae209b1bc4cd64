//! Any router over TLS: one handshake and one identity a connection, HTTP/1.1 and HTTP/2, certificates that may be swapped.

mod brisk;
mod busy;
mod config;
mod opened;
mod serve;

pub use config::{Error, Keys, config};
pub use opened::{Opened, opened};
pub use serve::{keep_alive, serve};

#[cfg(test)]
mod tests;
