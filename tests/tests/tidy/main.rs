//! Checks the house rules on the sources: imports between modules and crates, size and form of files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod architecture;
mod arrows;
mod files;
mod imports;
mod paths;
mod pod_support;
mod versions;

use std::fs;
use std::path::{Path, PathBuf};

/// A source file of the workspace.
struct Source {
    /// Path from the workspace root, with `/`.
    path: String,
    text: String,
}

/// Formats a violation of a house rule.
fn broken(path: &str, line: usize, rule: &str) -> String {
    format!("{path}:{line}: {rule}")
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All `.rs` files under these folders of the workspace.
fn sources(folders: &[&str]) -> Vec<Source> {
    let top = top();
    let mut waiting: Vec<PathBuf> = folders.iter().map(|folder| top.join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(&top).unwrap().display().to_string(), text });
            }
        }
    }
    assert!(!found.is_empty(), "no sources under {folders:?}: did a folder move?");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn all_sources() -> Vec<Source> {
    sources(&["api", "apiserver", "cel", "client", "command", "kubelet", "master", "tests"])
}

fn assert_tidy(broken: &[String]) {
    assert!(broken.is_empty(), "{} house rule(s) broken:\n{}", broken.len(), broken.join("\n"));
}
