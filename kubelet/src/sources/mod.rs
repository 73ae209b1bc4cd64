//! Pod sources. Each sends a complete snapshot whenever its content changes, and saves its last good version.

pub mod file;
pub mod identity;
pub mod last_good;
pub mod manifest;
pub mod push;
#[cfg(test)]
mod tests;
pub mod url;
