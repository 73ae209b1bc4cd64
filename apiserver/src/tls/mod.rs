//! TLS server: identities from client certificates, HTTP/1.1 and HTTP/2, timeouts, and certificates and a client CA
//! bundle that can be reloaded.

mod client_trust;
mod config;
mod idle;
mod response_buffer;
mod serve;
mod unverified;
mod write_timeout;

pub use client_trust::{Revocation, is_signed_by, leads_to};
pub use config::{Config, Error, Keys, config};
pub use idle::{IdleTracker, InFlight};
pub use serve::{UpgradedStream, keep_alive, serve, upgraded};
pub use unverified::Unverified;

#[cfg(test)]
mod tests;
