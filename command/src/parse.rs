//! Parses command-line arguments. `run` is the default subcommand, and all errors are reported at once.

use std::ffi::OsString;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Command;

/// The reasons why parsing returns no command.
#[derive(Debug)]
pub enum Failure<C> {
    /// The user requested help or the version.
    HelpOrVersion(clap::Error),
    /// Usage errors, one per line. The arguments without the invalid ones follow, if they can be parsed.
    Mistakes(Vec<String>, Option<Box<C>>),
}

impl Command {
    /// Parses the arguments, without the name of the program.
    ///
    /// # Errors
    /// If the arguments are invalid. The error lists all usage errors. It is also the requested help or version.
    pub fn parse<C: Parser>(&self, arguments: impl Iterator<Item = OsString>) -> Result<C, Failure<C>> {
        self.parse_with(arguments, |_| None)
    }

    /// Does the same as [`Command::parse`]. `instead` returns a message for an unknown flag that a similar program
    /// has. The flag is then removed with its value.
    ///
    /// # Errors
    /// If the arguments are invalid. The error lists all usage errors. It is also the requested help or version.
    pub fn parse_with<C: Parser>(
        &self,
        arguments: impl Iterator<Item = OsString>,
        instead: impl Fn(&str) -> Option<String>,
    ) -> Result<C, Failure<C>> {
        let mut arguments: Vec<OsString> = arguments.collect();
        if self.wants_run(&arguments) {
            arguments.insert(0, "run".into());
        }
        let mut mistakes = Vec::new();
        loop {
            let command_line = std::iter::once(OsString::from(self.name)).chain(arguments.iter().cloned());
            let error = match C::try_parse_from(command_line) {
                Ok(cli) if mistakes.is_empty() => return Ok(cli),
                Ok(cli) => return Err(Failure::Mistakes(mistakes, Some(Box::new(cli)))),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    return Err(Failure::HelpOrVersion(error));
                }
                _ => {}
            }
            let known = unknown_flag(&error).and_then(&instead);
            let has_value = known.is_some();
            mistakes.push(known.unwrap_or_else(|| line(&error)));
            // Remove the invalid argument and parse again to find the next error.
            if !remove_unknown_flag(&mut arguments, &error, has_value) {
                return Err(Failure::Mistakes(mistakes, None));
            }
        }
    }

    /// True if the arguments name no subcommand: there are none, or a flag that only `run` has.
    fn wants_run(&self, arguments: &[OsString]) -> bool {
        let mut rest = arguments.iter().map(|argument| argument.to_string_lossy());
        while let Some(argument) = rest.next() {
            match argument.as_ref() {
                directory if directory == self.directory => drop(rest.next()),
                "-h" | "--help" | "-V" | "--version" => return false,
                flag if flag.strip_prefix(self.directory).is_some_and(|rest| rest.starts_with('=')) => {}
                flag if flag.starts_with('-') => return true,
                _ => return false,
            }
        }
        true
    }
}

/// Formats an error of clap on one line, without the usage.
fn line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let missing: Vec<&str> = match error.kind() {
        ErrorKind::MissingRequiredArgument => lines.take_while(|line| !line.starts_with("Usage")).collect(),
        _ => lines.filter_map(|line| line.strip_prefix("tip: ")).take(1).collect(),
    };
    if missing.is_empty() { first } else { format!("{first} ({})", missing.join(" ")) }
}

/// The unknown argument in an error of clap.
fn unknown_flag(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(culprit))) => Some(culprit),
        _ => None,
    }
}

/// Removes the unknown argument. With `has_value`, it also removes the value after it. Returns false if nothing was
/// removed.
fn remove_unknown_flag(arguments: &mut Vec<OsString>, error: &clap::Error, has_value: bool) -> bool {
    let Some(culprit) = unknown_flag(error) else { return false };
    let found = arguments.iter().position(|argument| {
        let text = argument.to_string_lossy();
        text == culprit || text.strip_prefix(culprit).is_some_and(|rest| rest.starts_with('='))
    });
    let Some(at) = found else { return false };
    let flag = arguments.remove(at);
    let is_value = |next: &OsString| !next.as_encoded_bytes().starts_with(b"-");
    if has_value && !flag.to_string_lossy().contains('=') && arguments.get(at).is_some_and(is_value) {
        arguments.remove(at);
    }
    true
}
