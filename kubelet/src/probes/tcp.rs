//! tcpSocket: it is healthy when it takes a connection.

use std::time::Duration;

use super::address::Address;
use super::check::Outcome;

/// Connects and hangs up.
pub(super) async fn connect(address: &Address, timeout: Duration) -> Outcome {
    match tokio::time::timeout(timeout, address.connect()).await {
        Ok(Ok(_connection)) => Outcome::Success,
        Ok(Err(said)) => Outcome::Failure(said),
        Err(_) => Outcome::Failure(format!("dial tcp {address}: i/o timeout")),
    }
}
