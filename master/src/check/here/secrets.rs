//! Checks that only the owner can access files with private keys. Pure.

use super::super::finding::Finding;
use crate::pki::files::OTHERS;

/// A file with a private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Path of the file.
    pub file: String,
    /// Permission bits.
    pub mode: u32,
}

/// The findings for files that other users can access.
pub fn findings(secrets: &[Secret]) -> Vec<Finding> {
    let open = secrets.iter().filter(|secret| secret.mode & OTHERS != 0);
    open.map(|Secret { file, mode }| {
        let what = format!("is accessible to other users (mode {:o})", mode & 0o777);
        let remedy = format!("`chmod 600 {file}`; if the key may be compromised, replace it");
        Finding::problem(file.as_str(), what, remedy).because("its private key gives access to the cluster")
    })
    .collect()
}
