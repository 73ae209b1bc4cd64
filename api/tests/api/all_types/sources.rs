//! Locates the sources of k8s-openapi and k8s-pb in cargo's cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The `src` folders of the two crates.
pub struct Sources {
    /// k8s-openapi, for the Kubernetes version in use.
    pub k8s_openapi: PathBuf,
    /// k8s-pb.
    pub k8s_pb: PathBuf,
}

/// Runs `cargo metadata`.
pub fn find() -> Sources {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Packages for other platforms are not downloaded.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--filter-platform",
            &platform,
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let source = |name: &str| {
        let package = metadata["packages"].as_array().unwrap().iter().find(|package| package["name"] == name);
        let manifest = package.unwrap()["manifest_path"].as_str().unwrap();
        Path::new(manifest).parent().unwrap().join("src")
    };
    Sources { k8s_openapi: source("k8s-openapi").join("v1_37"), k8s_pb: source("k8s-pb") }
}

/// All Rust files below `folder`, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found
}
