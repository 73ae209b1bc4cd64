//! Backups: taken from a running master through a socket in its directory, restored where none runs.
//!
//! A backup holds the objects and their revision, whichever store they lie in, and nothing of the certificates. It is
//! read by `restore` into the store in a file.

mod door;
mod fetch;
mod reload;
mod restore;

#[cfg(test)]
mod tests;

pub use door::{Door, router};
pub use fetch::fetch;
pub use reload::{Reloads, reload, reloading};
pub use restore::restore;

/// The name of the socket in the directory of the master, which is open as long as it runs.
pub const SOCKET: &str = "master.sock";
/// Where on the socket a backup is.
const PATH: &str = "/backup";
/// Where the master is told to take up its files anew.
const RELOAD: &str = "/reload";
/// Tells the revision of a backup.
const REVISION: &str = "x-revision";
