//! The few words of shell that a fake container understands.

use std::time::Duration;

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Writes a line.
    Say(String),
    /// Waits.
    Sleep(Duration),
    /// Does nothing until it is told to end.
    Idle,
    /// Ends.
    Exit(i32),
}

/// What SIGTERM does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTerm {
    /// Ends it with that code.
    Exit(i32),
    /// Nothing.
    Ignored,
}

/// A program: its steps, and how it takes SIGTERM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub steps: Vec<Step>,
    pub on_term: OnTerm,
}

impl Program {
    /// What a command does; `Err` when there is no such command.
    pub fn of(command: &[String]) -> Result<Self, String> {
        match command {
            [shell, flag, script] if shell == "sh" && flag == "-c" => Ok(Self::script(script)),
            [command, ..] if command.contains("no/such") => {
                Err(format!("exec: \"{command}\": stat {command}: no such file or directory"))
            }
            // A well-behaved server.
            _ => Ok(Self { steps: vec![Step::Idle], on_term: OnTerm::Exit(0) }),
        }
    }

    fn script(script: &str) -> Self {
        // A shell that is process 1 does not hear a signal it has no trap for.
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
