//! The subset of shell that fake containers understand.

use std::time::Duration;

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write a line.
    Say(String),
    Sleep(Duration),
    /// Wait until stopped.
    Idle,
    /// Exit with a code.
    Exit(i32),
}

/// The reaction to SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTerm {
    /// Exit with this code.
    Exit(i32),
    /// Ignore the signal.
    Ignored,
}

/// A program: its steps and its reaction to SIGTERM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub steps: Vec<Step>,
    pub on_term: OnTerm,
}

impl Program {
    /// Parses the program of a command; `Err` if there is no such command.
    pub fn of(command: &[String]) -> Result<Self, String> {
        match command {
            [shell, flag, script] if shell == "sh" && flag == "-c" => Ok(Self::script(script)),
            [command, ..] if command.contains("no/such") => {
                Err(format!("exec: \"{command}\": stat {command}: no such file or directory"))
            }
            // A server that handles SIGTERM.
            _ => Ok(Self { steps: vec![Step::Idle], on_term: OnTerm::Exit(0) }),
        }
    }

    fn script(script: &str) -> Self {
        // The kernel ignores signals without a handler for process 1.
        let mut program = Self { steps: Vec::new(), on_term: OnTerm::Ignored };
        for line in script.split(';').map(str::trim) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "echo" => program.steps.push(Step::Say(rest.to_owned())),
                "sleep" => program.steps.push(Step::Sleep(seconds(rest))),
                "exit" => program.steps.push(Step::Exit(rest.parse().unwrap_or(0))),
                "while" => program.steps.push(Step::Idle),
                "trap" => {
                    let code =
                        rest.strip_prefix("'exit ").and_then(|rest| rest.split('\'').next()?.parse().ok());
                    program.on_term = code.map_or(OnTerm::Ignored, OnTerm::Exit);
                }
                _ => {}
            }
        }
        program
    }
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().unwrap_or(0.0))
}
