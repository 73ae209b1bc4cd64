//! Writes the log to standard error, as text or JSON.

use std::io::IsTerminal as _;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::Command;

/// Log settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// The value of `--v`.
    pub verbosity: u8,
    /// True for one JSON object per line, false for text.
    pub json: bool,
}

impl Default for Logging {
    fn default() -> Self {
        Self { verbosity: 2, json: false }
    }
}

impl Logging {
    /// Parses `--log-format`. Returns true for JSON.
    ///
    /// # Errors
    /// If the value is invalid. The error starts with a verb, so that the caller can prepend the value.
    pub fn format(text: &str) -> Result<bool, String> {
        match text {
            "text" => Ok(false),
            "json" => Ok(true),
            _ => Err("is neither text nor json".to_owned()),
        }
    }

    /// Initializes the log of a command. `RUST_LOG` (`debug`, `info,kubelet::plan=trace`) overrides `--v`.
    pub fn start(self, command: &Command) {
        let level = match self.verbosity {
            0 | 1 => Level::WARN,
            2 | 3 => Level::INFO,
            4 | 5 => Level::DEBUG,
            _ => Level::TRACE,
        };
        let own = Targets::new()
            .with_default(level.min(Level::INFO))
            .with_target(command.name, level)
            .with_target("apiserver", level)
            .with_target("api", level);
        let filter = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok()).unwrap_or(own);
        let registry = tracing_subscriber::registry().with(filter);
        // No colours in log files.
        let colours = std::io::stderr().is_terminal();
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
        // Tests may initialize the log several times in one process.
        let _ =
            if self.json { registry.with(lines.json()).try_init() } else { registry.with(lines).try_init() };
    }
}
