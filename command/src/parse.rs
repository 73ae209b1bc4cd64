//! Arguments to verbs: `run` is the default, and every mistake is told at once.

use std::ffi::OsString;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Command;

/// Why there is nothing to do.
#[derive(Debug)]
pub enum Failure<C> {
    /// Something was asked for and answered: help, the version.
    Answered(clap::Error),
    /// Mistakes, a line each, and what is left without them where that makes sense.
    Mistakes(Vec<String>, Option<Box<C>>),
}

impl Command {
    /// Reads the arguments, without the program's name.
    ///
    /// # Errors
    /// All the mistakes, or the answer to what is not a verb.
    pub fn parse<C: Parser>(&self, arguments: impl Iterator<Item = OsString>) -> Result<C, Failure<C>> {
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
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return Err(Failure::Answered(error)),
                _ => {}
            }
            mistakes.push(line(&error));
            // What is wrong is taken out and the rest read again, so that the next mistake is seen too.
            if !take_out(&mut arguments, &error) {
                return Err(Failure::Mistakes(mistakes, None));
            }
        }
    }

    /// True when no verb stands there: nothing at all, or a flag that is not everyone's.
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

/// clap's error on one line, without its tips about usage.
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

fn take_out(arguments: &mut Vec<OsString>, error: &clap::Error) -> bool {
    let Some(ContextValue::String(culprit)) = error.get(ContextKind::InvalidArg) else { return false };
    let culprit = match error.kind() {
        ErrorKind::UnknownArgument => culprit.as_str(),
        _ => return false,
    };
    let found = arguments.iter().position(|argument| {
        let text = argument.to_string_lossy();
        text == culprit || text.strip_prefix(culprit).is_some_and(|rest| rest.starts_with('='))
    });
    let Some(at) = found else { return false };
    arguments.remove(at);
    true
}
