//! Which crate may depend on which.

use std::fs;

use crate::{assert_tidy, broken, top};

/// A crate and the dependencies it must never have.
const NEVER: &[(&str, &[&str])] = &[
    ("api", &["apiserver", "kubelet", "master", "tokio", "bollard", "reqwest", "hyper", "axum"]),
    ("cel", &["api", "apiserver", "kubelet", "master", "tokio", "k8s-openapi"]),
    ("apiserver", &["kubelet", "master", "bollard"]),
    ("command", &["api", "apiserver", "kubelet", "master", "tokio"]),
    ("kubelet", &["master", "tests"]),
    ("master", &["kubelet", "tests", "bollard"]),
];

#[test]
fn arrows_between_crates_go_down() {
    let mut faults = Vec::new();
    for (name, never) in NEVER {
        let path = format!("{name}/Cargo.toml");
        let text = fs::read_to_string(top().join(&path)).unwrap();
        faults.extend(check(&path, &text, never));
    }
    assert_tidy(&faults);
}

fn check(path: &str, manifest: &str, never: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    // What a test of the crate uses does not reach its users.
    let mut counts = false;
    for (number, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            counts = line.contains("dependencies") && !line.contains("dev-dependencies");
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or("");
        if counts && never.contains(&name) {
            faults.push(broken(path, number + 1, &format!("this crate must not depend on `{name}`")));
        }
    }
    faults
}

#[test]
fn a_forbidden_dependency_is_found() {
    let manifest = "[dependencies]\nserde.workspace = true\ntokio = \"1\"\n[dev-dependencies]\nkubelet.workspace = true\n";
    assert_eq!(check("x", manifest, &["tokio", "kubelet"]), ["x:3: this crate must not depend on `tokio`"]);
}
