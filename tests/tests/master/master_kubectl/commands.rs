//! Checks that the table has a line for every command that the help of any kubectl names.

use std::process::Command;

use tests::{Kubectl, kubectls};

use crate::master_kubectl::line::Line;
use crate::master_kubectl::{SUBJECTS, lines};

/// Commands that are only names for what comes after them.
const GROUPS: &[&str] = &["apply", "auth", "certificate", "cluster-info", "create", "rollout", "set", "top"];

/// Commands without a line, and the reason.
const UNTYPED: &[(&str, &str)] = &[("plugin", "it looks for programs on the PATH")];

#[test]
fn every_kubectl_command_is_listed() {
    let lines: Vec<Line> = SUBJECTS.iter().flat_map(|(subject, _)| lines(subject)).collect();
    for kubectl in kubectls() {
        let mut commands = named_by(&kubectl, &[]);
        assert!(commands.len() > 30, "{commands:?}");
        for group in GROUPS {
            commands.extend(named_by(&kubectl, &[group]).into_iter().map(|part| format!("{group} {part}")));
        }
        commands.retain(|command| UNTYPED.iter().all(|(untyped, _)| untyped != command));
        commands.retain(|command| {
            let begins = |line: &Line| format!("{} ", line.typed).starts_with(&format!("{command} "));
            !lines.iter().any(begins)
        });
        assert!(commands.is_empty(), "kubectl 1.{}: no line for {commands:?}", kubectl.minor);
    }
}

/// The commands that the help of a command names: indented lines between `... Commands:` and the first line after them that
/// is neither empty, nor indented, nor another such heading.
fn named_by(kubectl: &Kubectl, command: &[&str]) -> Vec<String> {
    let output = Command::new(&kubectl.path).args(command).arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut is_list = false;
    let mut named = Vec::new();
    for line in help.lines() {
        if !line.starts_with(' ') && !line.is_empty() {
            is_list = line.contains("Commands") && line.ends_with(':');
        } else if is_list && let Some(name) = line.split_whitespace().next() {
            named.push(name.to_owned());
        }
    }
    named
}
