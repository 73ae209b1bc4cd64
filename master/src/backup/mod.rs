//! Backup and restore of the object store.
//!
//! A running master sends backups through a socket in its data directory. For a restore, the master must be
//! stopped. A backup contains all objects and the revision, for either storage backend, but no certificates.
//! `restore` writes it into an embedded store.

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

/// Name of the socket in the data directory. It exists while the master is running.
pub const SOCKET: &str = "master.sock";
/// Path of the backup endpoint.
const PATH: &str = "/backup";
/// Path of the endpoint that reloads certificates.
const RELOAD: &str = "/reload";
/// Response header with the revision of the backup.
const REVISION: &str = "x-revision";
