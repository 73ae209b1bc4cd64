//! Where the log goes: standard error, as text or as JSON.

use std::io::IsTerminal as _;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::flags::Logging;

/// Starts logging. `RUST_LOG` (`debug`, `info,master::pki=trace`) wins over `--v`.
pub fn start(logging: Logging) {
    let level = match logging.verbosity {
        0 | 1 => Level::WARN,
        2 | 3 => Level::INFO,
        4 | 5 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let own = Targets::new()
        .with_default(level.min(Level::INFO))
        .with_target("master", level)
        .with_target("apiserver", level)
        .with_target("api", level);
    let filter = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok()).unwrap_or(own);
    let registry = tracing_subscriber::registry().with(filter);
    // Colours are for people: a log file holds none.
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    // A second subscriber in one process (tests) is no reason to stop.
    let _ =
        if logging.json { registry.with(lines.json()).try_init() } else { registry.with(lines).try_init() };
}
