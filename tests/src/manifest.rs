//! Helpers that build manifests for tests.

use crate::IMAGE;

/// A script that runs until it receives SIGTERM and then exits at once.
pub const FOREVER: &str = "trap 'exit 0' TERM; sleep 1000000 & wait";

/// Returns a Pod with the given name. `spec` is YAML without indentation. The grace period is 2 s, the minimum.
pub fn pod(name: &str, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  terminationGracePeriodSeconds: 2\n{spec}"
    )
}

/// Returns a Pod with one container `main` that runs until it receives SIGTERM.
pub fn sleeper(name: &str) -> String {
    scripted(name, "Always", FOREVER)
}

/// Returns a Pod with one container `main` that runs a shell script under a restart policy.
pub fn scripted(name: &str, restart_policy: &str, script: &str) -> String {
    pod(name, &format!("restartPolicy: {restart_policy}\ncontainers:\n- {}", container("main", script, "")))
}

/// Returns a container that runs a shell script, as a YAML flow mapping on one line. `more` holds additional
/// fields.
pub fn container(name: &str, script: &str, more: &str) -> String {
    let script = serde_json::to_string(script).expect("a string is always JSON");
    let comma = if more.is_empty() { "" } else { ", " };
    format!("{{name: {name}, image: '{IMAGE}', command: [sh, -c, {script}]{comma}{more}}}")
}
