//! Finds every kubectl of this machine, by version.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::installed;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kubectl {
    /// Minor version, for example 20 for 1.20.
    pub minor: u32,
    /// Path of the program.
    pub path: PathBuf,
}

/// Finds the kubectl on the PATH, others in the same directory (`kubectl.1.27`), and the one that `hack/setup.sh
/// test` unpacked. Returns one per version, oldest first.
pub fn kubectls() -> Vec<Kubectl> {
    let first = installed("kubernetes-client", "kubectl");
    let real = fs::canonicalize(&first).unwrap();
    let beside = fs::read_dir(real.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let named =
        |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().starts_with("kubectl.1.");
    let mut paths: Vec<PathBuf> = beside.filter(|path| named(path)).collect();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    paths.extend([top.join("target/setup/kubernetes-client/usr/bin/kubectl"), real]);
    paths.retain(|path| path.exists());
    let mut found: Vec<Kubectl> = Vec::new();
    for path in paths {
        let minor = minor(&path);
        if found.iter().all(|known| known.minor != minor) {
            found.push(Kubectl { minor, path });
        }
    }
    found.sort();
    found
}

/// Returns the minor version that a kubectl reports.
fn minor(path: &Path) -> u32 {
    let mut command = Command::new(path);
    // A wrapper may choose a kubectl by the server's version; `--client` asks for its own.
    command.env("HOME", env::temp_dir()).args(["version", "--client", "-o", "json"]);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let (_, rest) =
        printed.split_once("\"gitVersion\": \"v1.").unwrap_or_else(|| panic!("{command:?}: {printed}"));
    rest.split('.').next().unwrap().parse().unwrap()
}
