//! Whether files that hold keys are for their owner alone. Pure.

use super::super::finding::Finding;
use crate::pki::files::OTHERS;

/// A file that holds a key, or everything a cluster keeps secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Its path.
    pub file: String,
    /// Who may do what with it.
    pub mode: u32,
}

/// The files that others may look into.
pub fn findings(secrets: &[Secret]) -> Vec<Finding> {
    let open = secrets.iter().filter(|secret| secret.mode & OTHERS != 0);
    open.map(|Secret { file, mode }| {
        let what = format!("is not for its owner alone (mode {:o})", mode & 0o777);
        let remedy =
            format!("`chmod 600 {file}`; if somebody may have read it, what it opens has to be made anew");
        Finding::problem(file.as_str(), what, remedy)
            .because("whoever has the key in it is whom it names, or makes anybody")
    })
    .collect()
}
