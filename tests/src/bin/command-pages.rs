//! Writes the man pages and the completion scripts of both programs, as a Debian package installs them.
//!
//! `hack/deb.sh` runs `command-pages PROGRAM DIRECTORY`. The pages come from the definitions of the flags, so they are
//! never older than the program. They are written at build time, because a program that never prints them would still
//! contain the generator.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a build that fails ends with what went wrong")]

use std::path::Path;
use std::{env, fs};

use clap::Command;
use clap_complete::Shell;

/// Where each shell of Debian looks for the completions of a program. `{}` is the name of the program.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "usr/share/bash-completion/completions", "{}"),
    (Shell::Zsh, "usr/share/zsh/vendor-completions", "_{}"),
    (Shell::Fish, "usr/share/fish/vendor_completions.d", "{}.fish"),
];
/// Where `man` looks for commands.
const MAN: &str = "usr/share/man/man1";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [program, directory] = arguments.as_slice() else {
        panic!("usage: command-pages kubelet|master DIRECTORY");
    };
    let command = match program.as_str() {
        "kubelet" => kubelet::cli::command(),
        "master" => master::cli::command(),
        other => panic!("\"{other}\" is neither kubelet nor master"),
    };
    write(&command, program, Path::new(directory));
}

/// Writes all files of a program below the root of its package.
fn write(command: &Command, program: &str, root: &Path) {
    let pages = root.join(MAN);
    fs::create_dir_all(&pages).unwrap();
    clap_mangen::generate_to(command.clone(), &pages).unwrap();
    for (shell, directory, file) in COMPLETIONS {
        let directory = root.join(directory);
        fs::create_dir_all(&directory).unwrap();
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), program, &mut script);
        fs::write(directory.join(file.replace("{}", program)), script).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_has_a_man_page_and_every_shell_a_completion() {
        let folder = tempfile::tempdir().unwrap();
        for (program, command) in [("kubelet", kubelet::cli::command()), ("master", master::cli::command())] {
            write(&command, program, folder.path());
            let run = fs::read_to_string(folder.path().join(MAN).join(format!("{program}-run.1"))).unwrap();
            assert!(run.contains("config"), "the flags are in the page: {run}");
            for (_, directory, file) in COMPLETIONS {
                let script = folder.path().join(directory).join(file.replace("{}", program));
                assert!(fs::read_to_string(script).unwrap().contains("kubeconfig"));
            }
        }
    }
}
