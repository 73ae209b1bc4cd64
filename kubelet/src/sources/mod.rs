//! Where pods come from: each source sends all it holds whenever that changes, and keeps its last good version.

pub mod file;
pub mod identity;
pub mod last_good;
pub mod manifest;
#[cfg(test)]
mod tests;
pub mod url;
